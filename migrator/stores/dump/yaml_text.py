"""YAML as kubectl reads it, with ``sigs.k8s.io/yaml`` over go-yaml v2 (``resolve.go``, ``decode.go``).

PyYAML reads values in another way: for kubectl ``y`` and ``n`` are booleans, ``0o17`` is octal, numbers with colons and
timestamps are strings, and a duplicate key is an error. So only the events of PyYAML's C parser are used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import IO, Any, Final

import yaml
from yaml.reader import ReaderError

from migrator import exact_json
from migrator.exact_json import JSONNumber

try:
    from yaml import CSafeLoader as _Parser
except ImportError:  # PyYAML without libyaml: the same events, slower
    from yaml import SafeLoader as _Parser  # type: ignore[assignment]

_STR: Final = "tag:yaml.org,2002:str"

_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_INFINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_NOT_FINITE: Final = "infinity and NaN are not JSON numbers"
_INTEGER: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_NUMBER: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LARGEST_INT, _LARGEST_UINT = 2**63, 2**64
_FRACTION: Final = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")  # Go's own rule for "_"
_FIRST_OF_NUMBERS: Final = frozenset("+-0123456789")

#: Aliases of a few lines can stand for billions of values, and kubectl prints none.
_MOST_EXPANDED: Final = 100_000


class _Anchors(dict[str, Any]):
    """The values of a document that have names, and how many values its aliases have stood for so far."""

    expanded = 0


def documents(source: str | IO[bytes]) -> Iterator[Any]:
    """The value of every document, one after the other; raises ``ValueError`` with the line of a fault."""
    events = yaml.parse(source, _Parser)
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                yield _value(next(events), events, _Anchors())
    except ReaderError as error:
        raise ValueError(f"byte {error.position}: {error.reason}") from error
    except yaml.YAMLError as error:
        raise ValueError(_explain(error)) from error


def printed(value: float) -> JSONNumber:
    """A number as Go prints it (``encoding/json/encode.go:floatEncoder``)."""
    if not math.isfinite(value):
        raise ValueError(_NOT_FINITE)
    size = abs(value)
    if size == 0 or 1e-6 <= size < 1e21:  # noqa: PLR2004 - Go's own bounds
        return JSONNumber(format(Decimal(repr(value)), "f").removesuffix(".0"))
    mantissa, _, exponent = repr(value).partition("e")
    return JSONNumber(f"{mantissa.removesuffix('.0')}e{exponent.replace('-0', '-')}")


def _value(event: Any, events: Iterator[Any], anchors: _Anchors) -> Any:  # noqa: ANN401 - any JSON value
    """The value that begins with an event."""
    kind = type(event)
    if kind is yaml.AliasEvent:
        if event.anchor not in anchors:
            raise _at(event, "this alias has no anchor, or is within its own")
        anchors.expanded += _size(anchors[event.anchor])
        if anchors.expanded > _MOST_EXPANDED:
            raise _at(event, f"aliases stand for more than {_MOST_EXPANDED} values")
        return anchors[event.anchor]
    if kind is yaml.ScalarEvent:
        value = _scalar(event)
    elif kind is yaml.MappingStartEvent:
        value = _mapping(events, anchors)
    else:
        value = []
        while type(item := next(events)) is not yaml.SequenceEndEvent:
            value.append(_value(item, events, anchors))
    if event.anchor:
        anchors[event.anchor] = value
    return value


def _size(value: Any) -> int:  # noqa: ANN401 - any JSON value
    """How many values are in a value, itself included."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_size, inner))


def _mapping(events: Iterator[Any], anchors: _Anchors) -> dict[str, Any]:
    """The mapping that has begun; its own keys win over those that ``<<`` merges."""
    found: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    while type(event := next(events)) is not yaml.MappingEndEvent:
        if type(event) is yaml.ScalarEvent and event.value == "<<" and event.implicit[0]:
            merged = _merge(event, _value(next(events), events, anchors)) | merged
        else:
            key = _key(event, _value(event, events, anchors), found)
            found[key] = _value(next(events), events, anchors)
    return merged | found if merged else found


def _merge(event: Any, value: Any) -> dict[str, Any]:  # noqa: ANN401 - PyYAML's events
    """The mappings that ``<<`` merges; of several the earlier one wins."""
    sources = value if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        raise _at(event, "`<<` needs a mapping, or a list of mappings")
    return {key: item for source in reversed(sources) for key, item in source.items()}


def _key(event: Any, value: Any, holder: dict[str, Any]) -> str:  # noqa: ANN401 - PyYAML's events
    if value is None or isinstance(value, dict | list):
        raise _at(event, "a key is neither a string nor a number nor a boolean")
    key = str(value).lower() if isinstance(value, bool) else str(value)
    if key in holder:
        raise _at(event, f"key {key!r} is set twice")
    return key


def _scalar(event: Any) -> Any:  # noqa: ANN401 - PyYAML's events
    if event.tag in {"!", _STR} or (event.tag is None and not event.implicit[0]):
        return event.value
    if event.tag is not None:
        raise _at(event, "tags other than !!str are not read: kubectl prints none")
    try:
        return _resolve(event.value)
    except ValueError as error:
        raise _at(event, str(error)) from error


@lru_cache(maxsize=4096)
def _resolve(text: str) -> Any:  # noqa: ANN401 - any JSON scalar
    """What go-yaml's ``resolve`` makes of a scalar that is not quoted."""
    if text in _WORDS:
        return _WORDS[text]
    if _INFINITE.fullmatch(text):
        raise ValueError(_NOT_FINITE)
    plain = text.replace("_", "")
    if text[0] not in _FIRST_OF_NUMBERS and not _FRACTION.fullmatch(text):
        return text
    if match := _INTEGER.fullmatch(plain):
        sign, hexadecimal, binary, octal, decimal = match.groups()
        digits, base = next((d, b) for d, b in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10)) if d)
        value = int(digits, base) * (-1 if sign == "-" else 1)
        if -_LARGEST_INT <= value < (_LARGEST_INT if sign else _LARGEST_UINT):
            return value
    if not _NUMBER.fullmatch(plain) or math.isinf(float(plain)):
        return text
    return exact_json.loads(printed(float(plain)).text)


def _at(event: Any, message: str) -> ValueError:  # noqa: ANN401 - PyYAML's events
    return ValueError(f"line {event.start_mark.line + 1}: {message}")


def _explain(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError):
        return " ".join(str(error).split())
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}: " if mark is not None else ""
    return f"{where}{error.problem or error.context or 'malformed YAML'}"
