"""JSON as kubectl prints it, piece by piece: of a List one item is in memory at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from json import JSONDecodeError
from typing import Any, Final, TextIO

from migrator.errors import DUMP_AGAIN
from migrator.exact_json import DECODER

_CHUNK: Final = 1 << 20

_NO_SPACE: Final = re.compile(r"[^ \t\n\r]")
#: How a List of kubectl and of an API server begins; in that of kubectl the kind comes last.
_LIST: Final = re.compile(
    r'\{\s*(?:"(?:apiVersion|kind)":\s*"[^"\\]*",\s*|"metadata":\s*\{[^{}]*\},\s*)*"items":\s*\[\s*(?=\{)'
)


def documents(file: TextIO) -> Iterator[tuple[Any, str]]:
    """The documents; of a List the items that have a kind of their own come one by one, before the rest of it."""
    text, number = _Text(file), 0
    while text.next():
        number += 1
        place, item = f"document {number}", 0
        opening, left = text.opening(), list[Any]()
        try:
            while opening:
                item += 1
                place = f"document {number}, item {item}"
                value = text.value()
                if isinstance(value, dict) and "kind" in value:
                    yield value, place
                else:
                    left.append(value)
                if not text.take(","):
                    text.expect("]")
                    text.put_back(opening)  # so that what follows is a List without items
                    break
            value = text.value()
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        except RecursionError as error:
            raise ValueError(f"{place} is nested too deeply") from error
        yield {**value, "items": left} if opening else value, f"document {number}"


class _Text:
    """A text of JSON, of which only the piece is in memory that is being parsed."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._text, self._at, self._line = "", 0, 1

    def _more(self) -> bool:
        """Drop what was parsed, and read on; false, and nothing is dropped, at the end.

        A value that is not complete is parsed again from its start. So the text doubles each time, or the time that a
        large one takes would grow with the square of its size.
        """
        more = self._file.read(max(_CHUNK, len(self._text) - self._at))
        if more:
            self._line += self._text.count("\n", 0, self._at)
            self._text, self._at = self._text[self._at :] + more, 0
        return bool(more)

    def next(self) -> str:
        """The next character that is no white space; empty at the end."""
        while True:
            found = _NO_SPACE.search(self._text, self._at)
            self._at = found.start() if found else len(self._text)
            if found or not self._more():
                return self._text[self._at : self._at + 1]

    def take(self, character: str) -> bool:
        """Pass over this character if it is the next one."""
        found = self.next() == character
        self._at += found
        return found

    def value(self) -> Any:  # noqa: ANN401 - any JSON value
        """Parse the next value; raises ``ValueError`` with the line of what is not JSON."""
        self.next()
        while True:
            try:
                value, self._at = DECODER.raw_decode(self._text, self._at)
            except JSONDecodeError as error:
                if not self._more():
                    raise self._fault(error.msg, error.pos) from error
            else:
                return value

    def opening(self) -> str:
        """The beginning of a List up to its first item; empty, and nothing is passed over, if there is none."""
        self.next()
        begun = _LIST.match(self._text, self._at)
        self._at = begun.end() if begun else self._at
        return begun[0] if begun else ""

    def put_back(self, text: str) -> None:
        """Let this text come next."""
        self._line += self._text.count("\n", 0, self._at) - text.count("\n")
        self._text, self._at = text + self._text[self._at :], 0

    def expect(self, character: str) -> None:
        """Raise ``ValueError`` if this character is not the next one."""
        if self.next() != character:
            raise self._fault(f"Expecting '{character}'", self._at)

    def _fault(self, message: str, at: int) -> ValueError:
        line = self._line + self._text.count("\n", 0, at)
        return ValueError(f"line {line}: {message}: {DUMP_AGAIN}")
