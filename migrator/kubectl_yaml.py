"""YAML as kubectl prints it, made of the events of PyYAML's C parser.

Its loader crashes on what is nested deeply (``CSafeLoader``, 100,000 brackets). What kubectl never prints is refused
where its meaning could be another one: merged mappings, tags, keys that are no strings, and keys that are set twice.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Container, Iterator
from typing import IO, Any, Final

import yaml
from yaml.reader import ReaderError

from migrator.errors import DUMP_AGAIN

_PARSER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML may lack libyaml

#: No object of Kubernetes is as deep, and libyaml needs a time that grows with the square of the depth.
_DEEPEST: Final = 200
#: Manifests have aliases, and those of a few lines can stand for billions of values.
_MOST_REPEATED: Final = 100_000

_TAGS: Final = frozenset({None, "tag:yaml.org,2002:str"})
#: Booleans and null of YAML 1.1, which kubectl's ``sigs.k8s.io/yaml`` follows.
_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_FIRST_OF_NUMBERS: Final = frozenset("+-.0123456789")
_INTEGER: Final = re.compile("-?(?:0|[1-9][0-9]{0,19})", re.ASCII)
_NUMBER: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
#: What kubectl reads as a number, and prints in another way.
_BASED_INTEGER: Final = re.compile("[-+]?0(?:[xX][0-9a-fA-F]+|[bB][01]+|[oO][0-7]+)", re.ASCII)
_INFINITE_OR_NAN: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)


def documents(file: IO[bytes], advice: str = f": {DUMP_AGAIN}") -> Iterator[tuple[Any, str]]:
    """Every document and its place; raises ``ValueError`` with the line of a fault, and advice if it is no YAML.

    A number that is not a plain integer is a ``float``, which no hash is computed of: its spelling is lost.
    """
    number = 0
    try:
        events = yaml.parse(file, _PARSER)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                number += 1
                yield _Document(events).value(next(events)), f"document {number}"
    except ReaderError as error:
        raise ValueError(f"byte {error.position}: {error.reason}{advice}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, problem = mark.line + 1 if mark else 1, error.problem or error.context or "not YAML"
        raise ValueError(f"line {line}: {problem}{advice}") from error


class _Document:
    """Makes the value of one document of its events, and remembers those with an anchor."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._anchors: dict[str, Any] = {}
        self._repeated = 0  # values for which aliases have stood

    def value(self, event: Any, depth: int = _DEEPEST) -> Any:  # noqa: ANN401 - PyYAML's events, any JSON value
        """The value that begins with an event, which may be as deep as ``depth`` says."""
        if not depth:
            raise _at(event, "it is nested too deeply")
        if isinstance(event, yaml.AliasEvent):
            return self._repeat(event)
        if event.tag not in _TAGS:
            raise _at(event, "tags other than !!str are not read: kubectl prints none")
        value: Any
        if isinstance(event, yaml.ScalarEvent):
            value = _plain(event) if event.tag is None and event.implicit[0] else event.value
        elif isinstance(event, yaml.SequenceStartEvent):
            value = []
            while not isinstance(one := next(self._events), yaml.SequenceEndEvent):
                value.append(self.value(one, depth - 1))
        else:
            value = {}
            while not isinstance(one := next(self._events), yaml.MappingEndEvent):
                key = self._key(one, value)
                value[key] = self.value(next(self._events), depth - 1)
        if event.anchor:
            self._anchors[event.anchor] = value
        return value

    def _key(self, event: Any, found: Container[str]) -> str:  # noqa: ANN401 - PyYAML's events
        key = self.value(event, 1) if isinstance(event, yaml.ScalarEvent) else None
        if not isinstance(key, str) or (key == "<<" and event.implicit[0]):
            raise _at(event, "a key is not a string, as kubectl prints it")
        if key in found:
            raise _at(event, f"key {key!r} is set twice")
        return sys.intern(key)

    def _repeat(self, event: Any) -> Any:  # noqa: ANN401 - PyYAML's events, any JSON value
        if event.anchor not in self._anchors:
            raise _at(event, "this alias has no anchor, or is within its own")
        value = self._anchors[event.anchor]
        self._repeated += _size(value)
        if self._repeated > _MOST_REPEATED:
            raise _at(event, f"aliases stand for more than {_MOST_REPEATED:,} values")
        return value


def _size(value: Any) -> int:  # noqa: ANN401 - any JSON value
    """How many values are in a value, itself included."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_size, inner))


def _plain(event: Any) -> Any:  # noqa: ANN401 - PyYAML's events, any JSON scalar
    """The value of a scalar without quotes."""
    text = event.value
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _FIRST_OF_NUMBERS:
        return text
    if _INTEGER.fullmatch(text) and _fits(text):
        return int(text)
    digits = text.replace("_", "")  # as Go does
    is_finite = _NUMBER.fullmatch(digits) and math.isfinite(float(digits))
    if is_finite and digits == text:
        return float(text)
    is_based_integer = _BASED_INTEGER.fullmatch(digits) and _fits(digits)
    if is_finite or is_based_integer or _INFINITE_OR_NAN.fullmatch(text):
        raise _at(event, "a number is not spelt as kubectl prints it")
    return text  # also a number that is out of range


def _fits(text: str) -> bool:
    """Whether an integer in any base fits into Go's int64 or uint64; else it is no number."""
    return -(1 << 63) <= int(text, 0) < 1 << 64


def _at(event: Any, message: str) -> ValueError:  # noqa: ANN401 - PyYAML's events
    return ValueError(f"line {event.start_mark.line + 1}: {message}")
