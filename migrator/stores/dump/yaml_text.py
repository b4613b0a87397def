"""YAML as kubectl reads it, with ``sigs.k8s.io/yaml`` over go-yaml v2 (``resolve.go``, ``decode.go``).

PyYAML reads values in another way: for kubectl ``y`` and ``n`` are booleans, ``0o17`` is octal, numbers with colons and
timestamps are strings, and a duplicate key is an error. So only the events of PyYAML's C parser are used.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import yaml
from yaml.reader import ReaderError

from migrator import exact_json

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

Span = tuple[int, int]
Path = tuple[str | int, ...]


class YAMLValueError(ValueError):
    """The text is not YAML, or holds what JSON cannot hold; the message names the line."""


def documents(text: str) -> Iterator[Any]:
    """The value of every document, one after the other; raises :class:`YAMLValueError`."""
    try:
        parser = _Parser(text)
    except UnicodeEncodeError as error:
        raise YAMLValueError(f"line {_line(text, error.start)}: it is not UTF-8") from error
    try:
        for _ in _starts(parser.get_event):
            yield _Composer(parser.get_event).document()
    except ReaderError as error:
        raise YAMLValueError(f"line {_line(text, error.position)}: {error.reason}") from error
    except yaml.YAMLError as error:
        raise YAMLValueError(_explain(error)) from error
    finally:
        parser.dispose()


def plain_or_quoted(value: str) -> str:
    """A string as a YAML scalar: plain if it stays a string, else in double quotes (JSON's are YAML's)."""
    if re.fullmatch(r"[A-Za-z0-9]+", value) and _resolve(value, "")[0] == _STR:
        return value
    return exact_json.dumps(value)


def spans(text: str, wanted: Mapping[int, Mapping[Path, object]]) -> Iterator[tuple[int, Path, Span]]:
    """The spans of the scalars that ``wanted`` names by document and path.

    A scalar that other places share by an alias, or that has a tag or block style, is not yielded.
    """
    parser = _Parser(text)
    try:
        for number, _ in enumerate(_starts(parser.get_event)):
            yield from ((number, *found) for found in _spans(parser.get_event, wanted.get(number, {})))
    finally:
        parser.dispose()


def _starts(next_event: Callable[[], Any]) -> Iterator[None]:
    """Read on to the start of each document."""
    while not isinstance(event := next_event(), yaml.StreamEndEvent):
        if isinstance(event, yaml.DocumentStartEvent):
            yield None


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


class _Composer:
    """Builds one document from its events, without recursion: a file may nest as deeply as it likes."""

    def __init__(self, next_event: Callable[[], Any]) -> None:
        self._next = next_event
        self._anchors: dict[str, Any] = {}

    def document(self) -> Any:  # noqa: ANN401 - any JSON value
        stack: list[_Open] = []
        while True:
            event = self._next()
            kind = type(event)
            key_is_next = bool(stack) and stack[-1].key is _MISSING
            if kind is yaml.ScalarEvent or kind is yaml.AliasEvent:
                if key_is_next:
                    stack[-1].key = self._key(event, stack[-1].holder)
                    continue
                value = self._value(event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                if key_is_next:
                    raise _at(event, "a key is a mapping or a list")
                stack.append(_Open(event))
                self._anchor(event.anchor, _UNFINISHED)
                continue
            else:
                ended = stack.pop()
                value = ended.closed()
                self._anchor(ended.anchor, value)
            if not stack:
                self._next()  # the end of the document
                return value
            stack[-1].add(event, value)

    def _key(self, event: Any, holder: dict[str, Any]) -> str:  # noqa: ANN401 - PyYAML's events
        if type(event) is yaml.ScalarEvent and event.value == "<<" and (event.implicit[0] or event.tag == _MERGE):
            return _MERGE
        value = self._value(event)
        key = value if value.__class__ is str else _key_text(event, value)
        if key in holder:
            raise _at(event, f"key {key!r} is set twice")
        return key

    def _value(self, event: Any) -> Any:  # noqa: ANN401 - PyYAML's events
        if type(event) is yaml.ScalarEvent:
            value = _scalar(event)
            self._anchor(event.anchor, value)
            return value
        value = self._anchors.get(event.anchor, _MISSING)
        if value is _MISSING:
            raise _at(event, "this alias has no anchor")
        if value is _UNFINISHED:
            raise _at(event, "the alias is within its own anchor")
        return value

    def _anchor(self, name: str | None, value: Any) -> None:  # noqa: ANN401 - any JSON value
        if name is not None:
            self._anchors[name] = value


def _merge(event: Any, value: Any) -> dict[str, Any]:  # noqa: ANN401 - PyYAML's events
    """The mappings that ``<<`` merges; of several the earlier one wins."""
    sources = value if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        raise _at(event, "`<<` needs a mapping, or a list of mappings")
    return {key: item for source in reversed(sources) for key, item in source.items()}


def _key_text(event: Any, value: Any) -> str:  # noqa: ANN401 - PyYAML's events
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, dict | list):
        raise _at(event, "a key is neither a string nor a number nor a boolean")
    return str(value)


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


def _spans(next_event: Callable[[], Any], wanted: Mapping[Path, object]) -> Iterator[tuple[Path, Span]]:
    """The spans in one document; subtrees that hold no wanted path are skipped."""
    inner = {path[:length] for path in wanted for length in range(len(path))}
    path: list[str | int | None] = []  # None: the key of the open mapping comes next
    while type(event := next_event()) is not yaml.DocumentEndEvent:
        if isinstance(event, yaml.CollectionEndEvent):
            path.pop()
        elif path and path[-1] is None:
            path[-1] = str(getattr(event, "value", ""))
            continue
        elif isinstance(event, yaml.CollectionStartEvent):
            if tuple(path) in inner:
                path.append(None if isinstance(event, yaml.MappingStartEvent) else 0)
                continue
            _pass_over(next_event)
        elif _is_own_scalar(event):
            here = tuple(part for part in path if part is not None)
            if here in wanted:
                yield here, (event.start_mark.index, event.end_mark.index)
        if path:
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else None


def _pass_over(next_event: Callable[[], Any]) -> None:
    """Read on to the end of the container that has just begun."""
    depth = 1
    while depth:
        event = next_event()
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)


def _is_own_scalar(event: Any) -> bool:  # noqa: ANN401 - PyYAML's events
    return type(event) is yaml.ScalarEvent and event.anchor is event.tag is None and event.style in _INLINE


def _at(event: Any, message: str) -> YAMLValueError:  # noqa: ANN401 - PyYAML's events
    return YAMLValueError(f"line {event.start_mark.line + 1}: {message}")


def _line(text: str, index: int) -> int:
    return text.count("\n", 0, index) + 1


def _explain(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError):
        return " ".join(str(error).split())
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}: " if mark is not None else ""
    return f"{where}{error.problem or error.context or 'malformed YAML'}"
