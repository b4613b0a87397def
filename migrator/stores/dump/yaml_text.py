"""YAML as kubectl reads it, with ``sigs.k8s.io/yaml`` over go-yaml v2 (``resolve.go``, ``decode.go``).

PyYAML reads values in another way: for kubectl ``y`` and ``n`` are booleans, ``0o17`` is octal, numbers with colons and
timestamps are strings, and a duplicate key is an error. So only the events of PyYAML's C parser are used.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import yaml
from yaml.reader import ReaderError

from migrator import exact_json
from migrator.stores.json_stream import Path, line_of

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
_INLINE: Final = frozenset({None, "", "'", '"'})


class YAMLValueError(ValueError):
    """The text is not YAML, or holds what JSON cannot hold; the message names the line."""


def documents(text: str) -> Iterator[Any]:
    """The value of every document, one after the other; raises :class:`YAMLValueError`."""
    events = yaml.parse(text, _Parser)
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                yield _document(events)
    except UnicodeEncodeError as error:
        raise YAMLValueError(f"line {line_of(text, error.start)}: it is not UTF-8") from error
    except ReaderError as error:
        raise YAMLValueError(f"line {line_of(text, error.position)}: {error.reason}") from error
    except yaml.YAMLError as error:
        raise YAMLValueError(_explain(error)) from error


def plain_or_quoted(value: str) -> str:
    """A string as a YAML scalar: plain if it stays a string, else in double quotes (JSON's are YAML's)."""
    if re.fullmatch(r"[A-Za-z0-9]+", value) and _resolve(value, "")[0] == _STR:
        return value
    return exact_json.dumps(value)


def spans(text: str, wanted: Mapping[int, Collection[Path]]) -> Iterator[tuple[int, Path, tuple[int, int]]]:
    """The spans of scalars by document and path; a scalar with an alias, a tag or a block style has none."""
    events: Iterator[Any] = yaml.parse(text, _Parser)
    starts = (event for event in events if isinstance(event, yaml.DocumentStartEvent))
    for number, _ in enumerate(starts):
        yield from ((number, *found) for found in _spans(events, wanted.get(number, ())))


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


def _document(events: Iterator[Any]) -> Any:  # noqa: ANN401 - any JSON value
    """The value of the document that has begun, built without recursion: a file may be nested to any depth."""
    stack: list[_Open] = []
    anchors: dict[str | None, Any] = {}
    value: Any = None
    while type(event := next(events)) is not yaml.DocumentEndEvent:
        kind = type(event)
        key_is_next = bool(stack) and stack[-1].key is _MISSING
        if kind is yaml.ScalarEvent or kind is yaml.AliasEvent:
            if kind is yaml.AliasEvent:
                value = _aliased(event, anchors)
            elif key_is_next and event.value == "<<" and (event.implicit[0] or event.tag == _MERGE):
                stack[-1].key = _MERGE
                continue
            else:
                value = anchors[event.anchor] = _scalar(event)
            if key_is_next:
                stack[-1].key = _key(event, value, stack[-1].holder)
                continue
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            if key_is_next:
                raise _at(event, "a key is a mapping or a list")
            stack.append(_Open(event))
            anchors[event.anchor] = _UNFINISHED
            continue
        else:
            ended = stack.pop()
            value = anchors[ended.anchor] = ended.closed()
        if stack:
            stack[-1].add(event, value)
    return value


def _aliased(event: Any, anchors: Mapping[str | None, Any]) -> Any:  # noqa: ANN401 - PyYAML's events
    value = anchors.get(event.anchor, _MISSING)
    if value is _MISSING:
        raise _at(event, "this alias has no anchor")
    if value is _UNFINISHED:
        raise _at(event, "the alias is within its own anchor")
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
        return exact_json.loads(_go_float(value)) if found == _FLOAT else value
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


def _go_float(value: float) -> str:
    """A number as Go prints it (``encoding/json/encode.go:floatEncoder``)."""
    if not math.isfinite(value):
        raise ValueError("infinity and NaN are not JSON numbers")
    size = abs(value)
    if size == 0 or 1e-6 <= size < 1e21:  # noqa: PLR2004 - Go's own bounds
        text = format(Decimal(repr(value)), "f")
        return text.removesuffix(".0")
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa.removesuffix('.0')}e{exponent.replace('-0', '-')}"


def _spans(events: Iterator[Any], wanted: Collection[Path]) -> Iterator[tuple[Path, tuple[int, int]]]:
    """The spans in the document that has begun; subtrees that hold no wanted path are skipped."""
    inner = {path[:length] for path in wanted for length in range(len(path))}
    path: list[str | int | None] = []  # None: the key of the open mapping comes next
    while type(event := next(events)) is not yaml.DocumentEndEvent:
        if isinstance(event, yaml.CollectionEndEvent):
            path.pop()
        elif path and path[-1] is None:
            path[-1] = str(getattr(event, "value", ""))
            continue
        elif isinstance(event, yaml.CollectionStartEvent):
            if tuple(path) in inner:
                path.append(None if isinstance(event, yaml.MappingStartEvent) else 0)
                continue
            depth = 1
            while depth:
                event = next(events)
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        elif type(event) is yaml.ScalarEvent and event.anchor is event.tag is None and event.style in _INLINE:
            here = tuple(part for part in path if part is not None)
            if here in wanted:
                yield here, (event.start_mark.index, event.end_mark.index)  # type: ignore[union-attr] # a parser marks all
        if path:
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else None


def _at(event: Any, message: str) -> YAMLValueError:  # noqa: ANN401 - PyYAML's events
    return YAMLValueError(f"line {event.start_mark.line + 1}: {message}")


def _explain(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError):
        return " ".join(str(error).split())
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}: " if mark is not None else ""
    return f"{where}{error.problem or error.context or 'malformed YAML'}"
