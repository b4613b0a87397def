"""FNV-1a 64 over a text in pieces, and the encoding of the sum.

Grove: ``operator/internal/utils/kubernetes/pod.go:ComputeHash`` feeds ``fnv.New64a`` and encodes the decimal sum
with ``rand.SafeEncodeString`` of k8s.io/apimachinery.

One step is ``h = (h ^ byte) * p mod 2^64``. The exclusive or with an ASCII character touches the low seven bits only,
so over an ASCII text of n bytes ``h_out = p^n * h + f(low)`` where ``low`` are the low seven bits of ``h``. For a text
that recurs, each of the 128 values of ``f`` is computed once at most, and the whole text costs one multiplication.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

OFFSET: Final = 0xCBF29CE484222325
PRIME: Final = 0x100000001B3
MASK: Final = 0xFFFFFFFFFFFFFFFF

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_DIGITS: Final = b"0123456789"
_ENCODING: Final = bytes.maketrans(_DIGITS, "".join(_ALPHABET[digit % len(_ALPHABET)] for digit in _DIGITS).encode())
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_ASCII: Final = 0x7F
_ONE_BY_ONE: Final = 4  # so many values of f are computed one by one, then all that are left
_JOINED_ONE_BY_ONE: Final = 24  # of a text in several parts
_LONGEST: Final = 1 << 15  # the longest text that is held as recurring though it is no part of a struct

# All 128 values at once: one integer with a lane of 16 bytes for each. 64 bits times p never reach the next lane.
_COUNT: Final = _ASCII + 1
_LANE: Final = 16
_LANES: Final = int.from_bytes((b"\1" + bytes(_LANE - 1)) * _COUNT, "little")
_LANE_MASK: Final = _LANES * MASK
_IN_ALL_LANES: Final = [_LANES * byte for byte in range(_COUNT)]
_WORDS: Final = f"<{2 * _COUNT}Q"
_NONE_KNOWN: Final = array("Q", bytes(8 * _COUNT))


class Fixed:
    """An ASCII text that recurs, by its parts.

    ``power`` is p^n mod 2^64, and ``sums`` is f(low) by low, 0 where it is not known yet.
    """

    __slots__ = ("_left", "_parts", "power", "sums", "text")

    def __init__(self, *parts: Piece) -> None:
        self.text = plain(parts)
        self.power = _power(len(self.text))
        self.sums = _NONE_KNOWN[:]
        self._parts = parts
        self._left = _ONE_BY_ONE if len(parts) == 1 else _JOINED_ONE_BY_ONE

    def fill(self, low: int) -> int:
        """Compute and keep f(low); in the end, all of them."""
        if self._left <= 0:
            return self.table()[low]
        self._left -= 1
        added = self.sums[low] = (fold(low, self._parts) - low * self.power) & MASK
        return added

    def table(self) -> array[int]:
        """All values of f."""
        if self._left >= 0:
            self._left = -1
            after: Sequence[int] = range(_COUNT)
            for part in self._parts:
                after = _fold_each(after, part)
            self.sums = array("Q", [(total - low * self.power) & MASK for low, total in enumerate(after)])
        return self.sums


Piece: TypeAlias = Fixed | str  # a text that recurs, or one that nothing is known of


@lru_cache(maxsize=1 << 9)
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
            state = state * piece.power + (piece.sums[state & low] or piece.fill(state & low)) & mask
    return state


def _fold_each(states: Sequence[int], piece: Piece) -> Sequence[int]:
    """:func:`fold` of one ASCII piece for 128 states at once."""
    if isinstance(piece, Fixed):
        sums, power = piece.table(), piece.power
        return [(state * power + sums[state & _ASCII]) & MASK for state in states]
    lanes = [0] * (2 * _COUNT)
    lanes[::2] = states
    together = int.from_bytes(struct.pack(_WORDS, *lanes), "little")
    for byte in piece.encode():
        together = (together ^ _IN_ALL_LANES[byte]) * PRIME & _LANE_MASK
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
