"""YAML as kubectl reads it, with ``sigs.k8s.io/yaml`` over go-yaml v2 (``resolve.go``, ``decode.go``).

PyYAML reads values in another way: for kubectl ``y`` and ``n`` are booleans, ``0o17`` is octal, numbers with colons and
timestamps are strings, and a duplicate key is an error. So only the events of PyYAML's C parser are used.
"""

from __future__ import annotations

import base64
import binascii
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

_TAG: Final = "tag:yaml.org,2002:"
_STR, _BOOL, _INT, _FLOAT, _NULL = (_TAG + name for name in ("str", "bool", "int", "float", "null"))
_MERGE: Final = f"{_TAG}merge"
_BINARY: Final = f"{_TAG}binary"

_WORDS: Final[dict[str, tuple[str, Any]]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), (_BOOL, True)),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), (_BOOL, False)),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), (_NULL, None)),
    **{sign + word: (_FLOAT, math.inf) for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), (_FLOAT, math.nan)),
}
_INTEGER: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_NUMBER: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LARGEST_INT, _LARGEST_UINT = 2**63, 2**64
_FRACTION: Final = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")  # Go's own rule for "_"
_FIRST_OF_NUMBERS: Final = frozenset("+-0123456789")
_MISSING: Final = object()
_UNFINISHED: Final = object()

#: Aliases of a few lines can stand for billions of values, and kubectl prints none.
_MOST_ALIASED: Final = 100_000


class YAMLValueError(ValueError):
    """The text is not YAML, or holds what JSON cannot hold; the message names the line."""


def documents(source: str | IO[bytes]) -> Iterator[Any]:
    """The value of every document, one after the other; raises :class:`YAMLValueError`."""
    events = yaml.parse(source, _Parser)
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                yield _Document().read(events)
    except ReaderError as error:
        raise YAMLValueError(f"byte {error.position}: {error.reason}") from error
    except yaml.YAMLError as error:
        raise YAMLValueError(_explain(error)) from error


def printed(value: float) -> JSONNumber:
    """A number as Go prints it (``encoding/json/encode.go:floatEncoder``)."""
    if not math.isfinite(value):
        raise ValueError("infinity and NaN are not JSON numbers")
    size = abs(value)
    if size == 0 or 1e-6 <= size < 1e21:  # noqa: PLR2004 - Go's own bounds
        return JSONNumber(format(Decimal(repr(value)), "f").removesuffix(".0"))
    mantissa, _, exponent = repr(value).partition("e")
    return JSONNumber(f"{mantissa.removesuffix('.0')}e{exponent.replace('-0', '-')}")


class _Open:
    """A mapping or list that has begun and not ended."""

    __slots__ = ("anchor", "holder", "key", "merged")

    def __init__(self, event: Any) -> None:  # noqa: ANN401 - PyYAML's events
        self.holder: Any = {} if type(event) is yaml.MappingStartEvent else []
        self.key: Any = _MISSING if type(event) is yaml.MappingStartEvent else None  # a mapping's, whose value is next
        self.anchor: str | None = event.anchor
        self.merged: dict[str, Any] = {}  # what `<<` brings in

    def add(self, event: Any, value: Any) -> None:  # noqa: ANN401 - PyYAML's events
        if self.key is None:
            self.holder.append(value)
            return
        if self.key is _MERGE:
            self.merged = _merge(event, value) | self.merged
        else:
            self.holder[self.key] = value
        self.key = _MISSING

    def closed(self) -> Any:  # noqa: ANN401 - any JSON value
        for key, value in self.merged.items():
            self.holder.setdefault(key, value)
        return self.holder


class _Document:
    """One document, built without recursion: a file may be nested to any depth."""

    def __init__(self) -> None:
        self._anchors: dict[str | None, tuple[Any, int]] = {}  # the value, and how many values are in it
        self._aliased = 0  # how many values aliases stand for
        self._size = 0  # how many values there are so far, with those

    def read(self, events: Iterator[Any]) -> Any:  # noqa: ANN401 - any JSON value
        """The value of the document that has begun."""
        stack: list[_Open] = []
        sizes: list[int] = []
        value: Any = None
        while type(event := next(events)) is not yaml.DocumentEndEvent:
            kind = type(event)
            self._size += 1
            key_is_next = bool(stack) and stack[-1].key is _MISSING
            if kind is yaml.ScalarEvent or kind is yaml.AliasEvent:
                if kind is yaml.AliasEvent:
                    value = self._alias(event)
                elif key_is_next and event.value == "<<" and (event.implicit[0] or event.tag == _MERGE):
                    stack[-1].key = _MERGE
                    continue
                else:
                    value = _scalar(event)
                    self._anchors[event.anchor] = value, 1
                if key_is_next:
                    stack[-1].key = _key(event, value, stack[-1].holder)
                    continue
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                if key_is_next:
                    raise _at(event, "a key is a mapping or a list")
                stack.append(_Open(event))
                sizes.append(self._size)
                self._anchors[event.anchor] = _UNFINISHED, 0
                continue
            else:
                ended = stack.pop()
                value = ended.closed()
                self._anchors[ended.anchor] = value, self._size - sizes.pop()
            if stack:
                stack[-1].add(event, value)
        return value

    def _alias(self, event: Any) -> Any:  # noqa: ANN401 - PyYAML's events
        value, size = self._anchors.get(event.anchor, (_MISSING, 0))
        if value is _MISSING:
            raise _at(event, "this alias has no anchor")
        if value is _UNFINISHED:
            raise _at(event, "the alias is within its own anchor")
        self._size += size
        self._aliased += size
        if self._aliased > _MOST_ALIASED:
            raise _at(event, f"aliases stand for more than {_MOST_ALIASED} values")
        return value


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
    tag = event.tag
    if tag is None:
        if not event.implicit[0]:
            return event.value
        tag = ""
    elif tag in {"!", _STR}:
        return event.value
    try:
        if tag == _BINARY:
            return base64.b64decode("".join(event.value.split()), validate=True).decode()
        found, value = _resolve(event.value, tag)
        return exact_json.loads(printed(value).text) if found == _FLOAT else value
    except (ValueError, binascii.Error) as error:
        raise _at(event, str(error)) from error


@lru_cache(maxsize=4096)
def _resolve(text: str, tag: str) -> tuple[str, Any]:
    """go-yaml's ``resolve``: the tag and value of a scalar that is not quoted, or has a tag."""
    if tag not in {"", _BOOL, _INT, _FLOAT, _NULL}:
        return _STR, text  # timestamps and tags of others too
    found, value = _guess(text)
    if tag == _FLOAT and found == _INT:
        found, value = _FLOAT, float(value)
    if tag not in {"", found}:
        raise ValueError(f"{text!r} is not a valid !!{tag.removeprefix(_TAG)}")
    return found, value


def _guess(text: str) -> tuple[str, Any]:
    if text in _WORDS:
        return _WORDS[text]
    if _FRACTION.fullmatch(text):
        return _floating(text)
    if text[0] not in _FIRST_OF_NUMBERS:
        return _STR, text
    plain = text.replace("_", "")
    if match := _INTEGER.fullmatch(plain):
        sign, hexadecimal, binary, octal, decimal = match.groups()
        digits, base = next((d, b) for d, b in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10)) if d)
        value = int(digits, base) * (-1 if sign == "-" else 1)
        if -_LARGEST_INT <= value < (_LARGEST_INT if sign else _LARGEST_UINT):
            return _INT, value
    return _floating(text) if _NUMBER.fullmatch(plain) else (_STR, text)


def _floating(text: str) -> tuple[str, Any]:
    value = float(text.replace("_", ""))
    return (_STR, text) if math.isinf(value) else (_FLOAT, value)


def _at(event: Any, message: str) -> YAMLValueError:  # noqa: ANN401 - PyYAML's events
    return YAMLValueError(f"line {event.start_mark.line + 1}: {message}")


def _explain(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError):
        return " ".join(str(error).split())
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}: " if mark is not None else ""
    return f"{where}{error.problem or error.context or 'malformed YAML'}"
