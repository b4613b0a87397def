"""YAML as kubectl prints it, made of the events of PyYAML's C parser.

Its loader crashes on what is nested deeply (``CSafeLoader``, 100,000 brackets). What kubectl never prints is refused
where its meaning could be another one: aliases, tags, keys that are no strings, and keys that are set twice.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from typing import IO, Any, Final

import yaml
from yaml.reader import ReaderError

_PARSER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML may lack libyaml

#: No object of Kubernetes is as deep, and libyaml needs a time that grows with the square of the depth.
_DEEPEST: Final = 200

_TAGS: Final = frozenset({None, "!", "tag:yaml.org,2002:str"})
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
_ODD: Final = re.compile(
    r"[-+]?0(?:[xX][0-9a-fA-F]{1,16}|[bB][01]{1,64}|[oO][0-7]{1,21})|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII
)


class SyntaxFault(ValueError):
    """The text is not YAML from this line on."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


def documents(file: IO[bytes]) -> Iterator[tuple[Any, str]]:
    """Every document and its place; raises ``ValueError`` with the line of a fault.

    A number that is not a plain integer is a ``float``, which no hash is computed of: its spelling is lost.
    """
    number = 0
    try:
        events = yaml.parse(file, _PARSER)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                number += 1
                yield _value(next(events), events, _DEEPEST), f"document {number}"
    except ReaderError as error:
        raise ValueError(f"byte {error.position}: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise SyntaxFault(mark.line + 1 if mark else 1, error.problem or error.context or "not YAML") from error


def _value(event: Any, events: Iterator[Any], depth: int) -> Any:  # noqa: ANN401 - PyYAML's events, any JSON value
    """The value that begins with an event, which may be as deep as ``depth`` says."""
    if not depth:
        raise _at(event, "it is nested too deeply")
    if isinstance(event, yaml.AliasEvent):
        raise _at(event, "aliases are not read: kubectl prints none")
    if event.tag not in _TAGS:
        raise _at(event, "tags other than !!str are not read: kubectl prints none")
    if isinstance(event, yaml.ScalarEvent):
        return _plain(event) if event.tag is None and event.implicit[0] else event.value
    if isinstance(event, yaml.SequenceStartEvent):
        elements: list[Any] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            elements.append(_value(event, events, depth - 1))
        return elements
    pairs: dict[str, Any] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        key = _value(event, events, 1) if isinstance(event, yaml.ScalarEvent) else None
        if not isinstance(key, str) or key == "<<":
            raise _at(event, "a key is not a string, as kubectl prints it")
        if key in pairs:
            raise _at(event, f"key {key!r} is set twice")
        pairs[sys.intern(key)] = _value(next(events), events, depth - 1)
    return pairs


def _plain(event: Any) -> Any:  # noqa: ANN401 - PyYAML's events, any JSON scalar
    """The value of a scalar without quotes."""
    text = event.value
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _FIRST_OF_NUMBERS:
        return text
    if _INTEGER.fullmatch(text) and -(1 << 63) <= (value := int(text)) < 1 << 64:
        return value
    if _NUMBER.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else text  # as Go does
    digits = text.replace("_", "")
    if _ODD.fullmatch(digits) or (digits != text and text[0] != "." and _NUMBER.fullmatch(digits)):
        raise _at(event, "a number is not spelt as kubectl prints it")
    return text


def _at(event: Any, message: str) -> ValueError:  # noqa: ANN401 - PyYAML's events
    return ValueError(f"line {event.start_mark.line + 1}: {message}")
