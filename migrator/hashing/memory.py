"""What is remembered between templates, within a bound.

Most texts of a cluster are met once (a node's name, a token), a few in every template. So a text is kept from the
second time on; of the first time no more than a mark stays. Everything is forgotten at once when it has grown too
large: only speed depends on it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, TypeVar

from migrator.hashing.fnv import Chunk, Text

Remembered = TypeVar("Remembered")

#: Roughly how many bytes may be remembered, and what any entry and a hot chunk add to that.
_BUDGET: Final = 24 << 20
_ENTRY: Final = 1 << 10
_HOT: Final = 12 << 10

#: How many marks, and how many texts of the templates at hand.
_MARKS: Final = 50_000
_YOUNG: Final = 256


class Memory:
    """Bounded caches that are forgotten together, and the texts that recur."""

    def __init__(self, budget: int = _BUDGET) -> None:
        self._budget = budget
        self._spent = 0
        self._caches: list[dict[Any, Any]] = []
        self._marks: set[int] = set()
        self._young: dict[str, Chunk] = {}
        self._texts: dict[str, Chunk] = self.cache()

    def cache(self) -> dict[Any, Any]:
        """A new cache, which :meth:`remember` fills and which may be empty at any time."""
        made: dict[Any, Any] = {}
        self._caches.append(made)
        return made

    def text(self, text: str) -> Chunk:
        """The chunk of a text."""
        chunk = self._texts.get(text) or self._young.get(text)
        if chunk is None:
            chunk = Text(text)
            if self.recurs(text):
                self.remember(self._texts, text, chunk, len(text))
            else:
                if len(self._young) >= _YOUNG:
                    self._young.clear()
                self._young[text] = chunk
        return chunk

    def recurs(self, key: Hashable) -> bool:
        """Whether it has been met before, as far as that is known; from now on it has."""
        mark = hash(key)
        if mark in self._marks:
            return True
        if len(self._marks) >= _MARKS:
            self._marks.clear()
        self._marks.add(mark)
        return False

    def remember(self, cache: dict[Any, Remembered], key: Hashable, value: Remembered, size: int) -> Remembered:
        """Keep a value of that many bytes, its key included; everything else may be forgotten for it."""
        self._spent += _ENTRY + size
        if self._spent + Chunk.hot_ones * _HOT > self._budget:
            for each in self._caches:
                each.clear()
            self._spent = Chunk.hot_ones = 0
        cache[key] = value
        return value


MEMORY: Final = Memory()
