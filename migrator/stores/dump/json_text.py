"""JSON documents in a text, and the positions of their values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from migrator import exact_json

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)

#: Deeper than any field of an object that we know, and the depth at which Go refuses a text.
_DEEP: Final = 200
_DEEPEST: Final = 10_000

# No program but a person's writes them; Go does not undo escapes within a quantity, so it would refuse one.
_IN_QUANTITIES: Final = " +-.0123456789EGKMPTeikmnu"
_ESCAPE: Final = re.compile(
    rf"\\(?:u(?:{'|'.join(f'{ord(one):04x}' for one in _IN_QUANTITIES)})|.)", re.DOTALL | re.IGNORECASE
)

Span = tuple[int, int]
Path = tuple[str | int, ...]


class Stream:
    """JSON that is read as it is needed, and forgotten behind what was decoded.

    ``chunks`` are the text in pieces. A ``sink`` gets the text as it is passed, with what :meth:`replace` puts into it.
    Every method raises ``ValueError`` naming the line, which ends at ``\\n`` only.
    """

    def __init__(self, chunks: Iterator[str], sink: Callable[[str], object] | None = None) -> None:
        self.text = ""  # from somewhere before the value that was decoded last
        self._chunks = chunks
        self._sink = sink
        self._at = 0
        self._given = 0
        self._lines = 0

    def documents(self) -> Iterator[str]:
        """The first character of every document; only JSON's own white space separates them.

        Whoever is given one decodes the document, before asking for the next.
        """
        while first := self._peek():
            yield first
        if self._sink is not None:
            self._sink(self.text[self._given :])

    def members(self) -> Iterator[tuple[Path, Any, int]]:
        """The members of an object: path, value, and the index of it in ``text``.

        Those of a list named ``items`` come one by one, after an empty list in its place, whose index is -1.
        """
        self._pass("{")
        seen: set[str] = set()
        while not (self._peek() == "}" and not seen):
            key, _ = self.value()
            if not isinstance(key, str):
                raise self._error("Expecting property name enclosed in double quotes")
            if key in seen:
                raise self._error(f"key {key!r} is set twice")
            seen.add(key)
            self._pass(":")
            if key == "items" and self._peek() == "[":
                yield ("items",), [], -1
                yield from self._items()
            else:
                value, begin = self.value()
                yield (key,), value, begin
            if self._peek() != ",":
                break
            self._at += 1
        self._pass("}")

    def value(self) -> tuple[Any, int]:
        """The next value, and the index of it in ``text``."""
        self._peek()
        while True:
            begin = self._at
            try:
                value, end = _decoded(self.text, begin)
            except (ValueError, RecursionError) as error:
                if self._more():
                    continue
                raise self._located(error) from error
            if end == len(self.text) and self.text[begin] not in '{["' and self._more():
                continue  # the rest of a number
            _check_escapes(self.text, begin, end, self._lines)
            self._at = end
            return value, begin

    def replace(self, cuts: Iterable[tuple[int, int, str]]) -> None:
        """Give the sink other text for spans of the value that was decoded last."""
        for begin, end, new in sorted(cuts):
            self._give(begin)
            if self._sink is not None:
                self._sink(new)
            self._given = end

    def _items(self) -> Iterator[tuple[Path, Any, int]]:
        self._pass("[")
        number = 0
        while not (self._peek() == "]" and not number):
            value, begin = self.value()
            yield ("items", number), value, begin
            number += 1
            if self._peek() != ",":
                break
            self._at += 1
        self._pass("]")

    def _pass(self, mark: str) -> None:
        if self._peek() != mark:
            raise self._error(f"Expecting {mark!r}")
        self._at += 1

    def _peek(self) -> str:
        """The next character that is not white space; nothing at the end."""
        while True:
            self._at = _after_space(self.text, self._at)
            if self._at < len(self.text):
                return self.text[self._at]
            if not self._more():
                return ""

    def _more(self) -> bool:
        """Read on: as much as there is unread, so that a long value is not decoded all too often."""
        fresh, wanted = [], len(self.text) - self._at
        while wanted >= 0 and (chunk := next(self._chunks, "")):
            fresh.append(chunk)
            wanted -= len(chunk)
        if fresh:
            self._give(self._at)
            self._lines += self.text.count("\n", 0, self._at)
            self.text, self._at, self._given = "".join([self.text[self._at :], *fresh]), 0, 0
        return bool(fresh)

    def _give(self, end: int) -> None:
        if self._sink is not None:
            self._sink(self.text[self._given : end])
        self._given = end

    def _located(self, error: Exception) -> ValueError:
        if isinstance(error, json.JSONDecodeError):
            return ValueError(f"line {self._lines + line_of(self.text, error.pos)}: {error.msg}")
        return self._error(str(error), " or later")

    def _error(self, what: str, later: str = "") -> ValueError:
        return ValueError(f"line {self._lines + line_of(self.text, self._at)}{later}: {what}")


def _decoded(text: str, index: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, index)
    except RecursionError:
        return _shallow(text, index)


def _check_escapes(text: str, begin: int, end: int, lines: int) -> None:
    if text.find("\\u00", begin, end) < 0:
        return
    for match in _ESCAPE.finditer(text, begin, end):
        if len(match[0]) > 2:  # noqa: PLR2004 - any other escape
            raise ValueError(
                f"line {lines + line_of(text, match.start())}: {match[0]} stands for a character that needs no escape; "
                "Go does not undo it within a quantity, so write the character itself"
            )


def _shallow(text: str, index: int) -> tuple[Any, int]:
    """The document at an index, with null for what is nested too deep to be in a field that is known, and its end."""
    parts, depth, begin = [], 0, index
    for match in _TOKEN.finditer(text, index):
        if match[0] in "[{":
            depth += 1
            if depth == _DEEP:
                parts.append(text[begin : match.start()])
        elif match[0] in "]}":
            depth -= 1
            if depth == _DEEP - 1:
                parts.append("null")
                begin = match.end()
        if depth > _DEEPEST:
            break
        if not depth:
            value, _ = _DECODER.raw_decode("".join([*parts, text[begin : match.end()]]))
            return value, match.end()
    raise ValueError("nested too deeply")


def line_of(text: str, index: int) -> int:
    """The line of an index, counted from 1."""
    return text.count("\n", 0, index) + 1


def spans(text: str, start: int, wanted: Mapping[Path, object]) -> Iterator[tuple[Path, Span]]:
    """Where the values stand that ``wanted`` names by path, in the document that begins at ``start``.

    Only containers on the way are walked through; the rest is passed over at the speed of the JSON library. Of a
    key that is set twice, the last one counts; :class:`Stream` refuses such a text.
    """
    walker = _Walker(text, wanted)
    walker.walk(start, ())
    yield from walker.found.items()


class _Walker:
    def __init__(self, text: str, wanted: Mapping[Path, object]) -> None:
        self._text = text
        self._wanted = wanted
        self._inner = {path[:length] for path in wanted for length in range(len(path))}
        self.found: dict[Path, Span] = {}

    def walk(self, index: int, path: Path) -> int:
        """Pass over the value at ``index`` and return its end."""
        text = self._text
        if path not in self._inner or text[index] not in "{[":
            _, end = _SKIPPER.raw_decode(text, index)
            if path in self._wanted:
                self.found[path] = (index, end)
            return end
        is_object = text[index] == "{"
        index = _after_space(text, index + 1)
        number = 0
        while text[index] not in "}]":
            key: str | int = number
            if is_object:
                key, index = _SKIPPER.raw_decode(text, index)
                colon = _after_space(text, index)
                index = _after_space(text, colon + 1)
            index = _after_space(text, self.walk(index, (*path, key)))
            if text[index] == ",":
                index = _after_space(text, index + 1)
            number += 1
        return index + 1


def _after_space(text: str, index: int) -> int:
    match = _SPACE.match(text, index)
    return match.end() if match else index


_DECODER: Final = exact_json.decoder()
_SKIPPER: Final = json.JSONDecoder()
