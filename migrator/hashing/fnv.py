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
_ANY: Final = 0xFF

#: So many values of one text are computed one by one, then all that are left at once: that costs as much as 14.
_ONE_BY_ONE: Final = 8

#: Texts up to this length are worth remembering wherever they stand, and how many values of them are kept.
SHORT: Final = 64
_CARRIED: Final = 1 << 15

# All 128 values at once: one integer with a lane of 16 bytes for each. 64 bits times p never reach the next lane.
_COUNT: Final = _ASCII + 1
_LANE: Final = 16
_LANES: Final = int.from_bytes((b"\1" + bytes(_LANE - 1)) * _COUNT, "little")
_STARTS: Final = int.from_bytes(b"".join(bytes((low,)) + bytes(_LANE - 1) for low in range(_COUNT)), "little")
_LANE_MASK: Final = _LANES * MASK


class Fixed(dict[int, int]):
    """An ASCII text that recurs: ``text``, ``power`` p^n mod 2^64, and f(low) by low, as far as it was asked for."""

    __slots__ = ("power", "text")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.power = _power(len(text))

    def __missing__(self, low: int) -> int:
        """Compute and keep f(low); in the end, all of them."""
        data = self.text.encode()
        if len(self) < _ONE_BY_ONE:
            self[low] = (feed(low, data) - low * self.power) & MASK
        else:
            lanes = _STARTS
            for byte in data:
                lanes = (lanes ^ _LANES * byte) * PRIME & _LANE_MASK
            sums = struct.unpack(f"<{2 * _COUNT}Q", lanes.to_bytes(_COUNT * _LANE, "little"))[::2]
            self.update((at, (total - at * self.power) & MASK) for at, total in enumerate(sums))
        return self[low]


class Joined(Fixed):
    """Pieces of ASCII text as one: f(low) is computed from theirs."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Piece]) -> None:
        super().__init__(plain(parts))
        self.parts = parts

    def __missing__(self, low: int) -> int:
        """Compute and keep f(low)."""
        added = self[low] = (fold(low, self.parts) - low * self.power) & MASK
        return added


#: A text, fixed or met by the way.
Piece: TypeAlias = Fixed | str


def fold(state: int, pieces: Iterable[Piece]) -> int:
    """The sum after ``pieces`` when it was ``state`` before."""
    for piece in pieces:
        if type(piece) is str:
            if len(piece) > SHORT:
                state = feed(state, utf8(piece))
                continue
            power, added = _carried(state & (_ASCII if piece.isascii() else _ANY), piece)
            state = (state * power + added) & MASK
        else:
            state = (state * piece.power + piece[state & _ASCII]) & MASK
    return state


def feed(state: int, data: bytes) -> int:
    """FNV-1a as it is defined, byte by byte."""
    for byte in data:
        state = (state ^ byte) * PRIME & MASK
    return state


def plain(pieces: Iterable[Piece]) -> str:
    """The text that pieces are; lone surrogates are still in it."""
    return "".join([piece if type(piece) is str else piece.text for piece in pieces])


def encode(total: int) -> str:
    """``rand.SafeEncodeString(fmt.Sprint(total))``: each decimal digit as one of ten characters."""
    return str(total).encode().translate(_ENCODING).decode()


def utf8(text: str) -> bytes:
    """Go's bytes of a decoded JSON string: lone surrogates became U+FFFD, one each."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return clean(text).encode()


def clean(text: str) -> str:
    """A JSON string as Go holds it: lone surrogates are U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


@lru_cache(maxsize=_CARRIED)
def _carried(low: int, text: str) -> tuple[int, int]:
    """A text's power and f(low)."""
    data = utf8(text)
    power = _power(len(data))
    return power, (feed(low, data) - low * power) & MASK


@lru_cache(maxsize=1 << 12)
def _power(size: int) -> int:
    return pow(PRIME, size, 1 << 64)
