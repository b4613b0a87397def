"""FNV-1a 64 over a text in pieces, and the encoding of the sum.

Grove: ``operator/internal/utils/kubernetes/pod.go:ComputeHash`` feeds ``fnv.New64a`` and encodes the decimal sum
with ``rand.SafeEncodeString`` of k8s.io/apimachinery.

One step is ``h = (h ^ byte) * p mod 2^64``. The exclusive or with an ASCII character touches the low seven bits only,
so over an ASCII text of n bytes ``h_out = p^n * h + f(low)`` where ``low`` are the low seven bits of ``h``. For a text
that recurs, each of the 128 values of ``f`` is computed once at most, and the whole text costs one multiplication.
(Eight bits and 256 values where a text is not ASCII.)
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Final, TypeAlias

OFFSET: Final = 0xCBF29CE484222325
PRIME: Final = 0x100000001B3
MASK: Final = 0xFFFFFFFFFFFFFFFF

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_DIGITS: Final = b"0123456789"
_ENCODING: Final = bytes.maketrans(_DIGITS, "".join(_ALPHABET[digit % len(_ALPHABET)] for digit in _DIGITS).encode())
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_ASCII: Final = 0x7F

#: So many values of one text are computed one by one, then all that are left at once.
_ONE_BY_ONE: Final = 4
_JOINED_ONE_BY_ONE: Final = 24

#: How many texts are held as recurring that are no part of a struct, and up to which length.
_RECURRING: Final = 1 << 9
_LONGEST: Final = 1 << 15

# All 128 values at once: one integer with a lane of 16 bytes for each. 64 bits times p never reach the next lane.
_COUNT: Final = _ASCII + 1
_LANE: Final = 16
_LANES: Final = int.from_bytes((b"\1" + bytes(_LANE - 1)) * _COUNT, "little")
_LANE_MASK: Final = _LANES * MASK
_WORDS: Final = f"<{2 * _COUNT}Q"
_NONE_KNOWN: Final = array("Q", bytes(8 * _COUNT))


class Fixed:
    """An ASCII text that recurs: ``power`` is p^n mod 2^64, ``sums`` f(low) by low, 0 where it is not known yet."""

    __slots__ = ("_left", "power", "sums", "text")

    def __init__(self, text: str, one_by_one: int = _ONE_BY_ONE) -> None:
        self.text = text
        self.power = _power(len(text))
        self.sums = _NONE_KNOWN[:]
        self._left = one_by_one

    def fill(self, low: int) -> int:
        """Compute and keep f(low); in the end, all of them."""
        if self._left <= 0:
            return self.table()[low]
        self._left -= 1
        added = self.sums[low] = (self._after(low) - low * self.power) & MASK
        return added

    def table(self) -> array[int]:
        """All values of f."""
        if self._left >= 0:
            self._left = -1
            after = enumerate(self._after_each(range(_COUNT)))
            self.sums = array("Q", [(total - low * self.power) & MASK for low, total in after])
        return self.sums

    def _after(self, state: int) -> int:
        return feed(state, self.text.encode())

    def _after_each(self, states: Sequence[int]) -> Sequence[int]:
        return _feed_each(states, self.text)


class Joined(Fixed):
    """Pieces of ASCII text as one: f(low) is computed from theirs."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Piece]) -> None:
        super().__init__(plain(parts), _JOINED_ONE_BY_ONE)
        self._parts = parts

    def _after(self, state: int) -> int:
        return fold(state, self._parts)

    def _after_each(self, states: Sequence[int]) -> Sequence[int]:
        for part in self._parts:
            if isinstance(part, str):
                states = _feed_each(states, part)
            else:
                sums, power = part.table(), part.power
                states = [(state * power + sums[state & _ASCII]) & MASK for state in states]
        return states


#: A text that recurs, or one that nothing is known of.
Piece: TypeAlias = Fixed | str


@lru_cache(maxsize=_RECURRING)
def recurring(text: str) -> Piece:
    """A text that is likely to recur, such as the key of a label, or costs much if it does."""
    return Fixed(text) if text.isascii() and len(text) <= _LONGEST else text


def fold(state: int, pieces: Iterable[Piece]) -> int:
    """The sum after ``pieces`` when it was ``state`` before."""
    prime, mask, low = PRIME, MASK, _ASCII
    for piece in pieces:
        if isinstance(piece, str):
            try:
                data = piece.encode()
            except UnicodeEncodeError:
                data = clean(piece).encode()
            for byte in data:
                state = (state ^ byte) * prime & mask
        else:
            added = piece.sums[state & low] or piece.fill(state & low)
            state = (state * piece.power + added) & mask
    return state


def feed(state: int, data: bytes) -> int:
    """FNV-1a as it is defined, byte by byte."""
    for byte in data:
        state = (state ^ byte) * PRIME & MASK
    return state


def _feed_each(states: Sequence[int], text: str) -> Sequence[int]:
    """:func:`feed` for 128 states at once."""
    lanes = [0] * (2 * _COUNT)
    lanes[::2] = states
    together, in_all_lanes = int.from_bytes(struct.pack(_WORDS, *lanes), "little"), _bytes_in_lanes()
    for byte in text.encode():
        together = (together ^ in_all_lanes[byte]) * PRIME & _LANE_MASK
    return struct.unpack(_WORDS, together.to_bytes(_COUNT * _LANE, "little"))[::2]


def plain(pieces: Iterable[Piece]) -> str:
    """The text that pieces are; lone surrogates are still in it."""
    return "".join([piece if isinstance(piece, str) else piece.text for piece in pieces])


def encode(total: int) -> str:
    """``rand.SafeEncodeString(fmt.Sprint(total))``: each decimal digit as one of ten characters."""
    return str(total).encode().translate(_ENCODING).decode()


def clean(text: str) -> str:
    """A JSON string as Go holds it: lone surrogates are U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


@lru_cache(maxsize=1 << 12)
def _power(size: int) -> int:
    return pow(PRIME, size, 1 << 64)


@cache
def _bytes_in_lanes() -> Sequence[int]:
    """Each ASCII character in all lanes."""
    return [_LANES * byte for byte in range(_COUNT)]
