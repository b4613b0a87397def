"""JSON that is decoded piece by piece, so that only one value and the text read ahead are in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

_SPACE: Final = re.compile(r"[ \t\n\r]*")

Path: TypeAlias = tuple[str | int, ...]
Decode: TypeAlias = Callable[[str, int], tuple[Any, int]]


class PlacedError(ValueError):
    """The error of a complete value, and the value's index in the text."""

    def __init__(self, msg: str, pos: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.pos = pos


class Stream:
    r"""JSON that is read when it is needed, and forgotten once it is decoded.

    ``chunks`` are the text in pieces; ``decode`` gives the value at an index of a text, and its end, or raises
    ``ValueError`` or ``RecursionError``. Every method raises ``ValueError`` naming the line, which ends at ``\n`` only.
    """

    def __init__(self, chunks: Iterator[str], decode: Decode) -> None:
        self.text = ""  # from somewhere before the value that was decoded last
        self.at = 0  # the index in it behind that value, until the next one is asked for
        self.forgotten = 0  # how many characters came before it
        self._chunks = chunks
        self._decode = decode
        self._lines = 0

    def documents(self) -> Iterator[str]:
        """The first character of every document; only JSON's own white space separates them.

        The caller decodes each document before it asks for the next one.
        """
        while first := self._peek():
            yield first

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
            self.at += 1
        self._pass("}")

    def value(self) -> tuple[Any, int]:
        """The next value, and the index of it in ``text``."""
        self._peek()
        while True:
            begin = self.at
            try:
                value, end = self._decode(self.text, begin)
            except (ValueError, RecursionError) as error:
                if not isinstance(error, PlacedError) and self._more():
                    continue
                raise self._located(error) from error
            if end == len(self.text) and self.text[begin] not in '{["' and self._more():
                continue  # the rest of a number
            self.at = end
            return value, begin

    def _items(self) -> Iterator[tuple[Path, Any, int]]:
        self._pass("[")
        number = 0
        while not (self._peek() == "]" and not number):
            value, begin = self.value()
            yield ("items", number), value, begin
            number += 1
            if self._peek() != ",":
                break
            self.at += 1
        self._pass("]")

    def _pass(self, mark: str) -> None:
        if self._peek() != mark:
            raise self._error(f"Expecting {mark!r}")
        self.at += 1

    def _peek(self) -> str:
        """The next character that is not white space; nothing at the end."""
        while True:
            if (first := self.text[self.at : self.at + 1]) > " ":
                return first
            self.at = after_space(self.text, self.at)
            if self.at < len(self.text):
                return self.text[self.at]
            if not self._more():
                return ""

    def _more(self) -> bool:
        """Read on, as much as is undecoded already, so that a long value is tried only a few times."""
        fresh, wanted = [], len(self.text) - self.at
        while wanted >= 0 and (chunk := next(self._chunks, "")):
            fresh.append(chunk)
            wanted -= len(chunk)
        if fresh:
            self._lines += self.text.count("\n", 0, self.at)
            self.forgotten += self.at
            self.text, self.at = "".join([self.text[self.at :], *fresh]), 0
        return bool(fresh)

    def _located(self, error: Exception) -> ValueError:
        if isinstance(error, json.JSONDecodeError | PlacedError):
            return ValueError(f"line {self._lines + line_of(self.text, error.pos)}: {error.msg}")
        return self._error(str(error), " or later")

    def _error(self, what: str, later: str = "") -> ValueError:
        return ValueError(f"line {self._lines + line_of(self.text, self.at)}{later}: {what}")


def after_space(text: str, index: int) -> int:
    """The index of the next character that is not JSON's white space."""
    match = _SPACE.match(text, index)
    return match.end() if match else index


def line_of(text: str, index: int) -> int:
    """The line of an index, counted from 1."""
    return text.count("\n", 0, index) + 1
