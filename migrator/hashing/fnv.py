"""FNV-1a 64 over a text in pieces, and the encoding of the sum.

Grove: ``operator/internal/utils/kubernetes/pod.go:ComputeHash`` feeds ``fnv.New64a`` and encodes the decimal sum
with ``rand.SafeEncodeString`` of k8s.io/apimachinery.

One step is ``h = (h ^ byte) * p mod 2^64``. The exclusive or with an ASCII character touches the low seven bits only,
so over an ASCII text of n bytes ``h_out = p^n * h + f(low)`` where ``low`` are the low seven bits of ``h``. For a text
that recurs, the 128 values of ``f`` are computed once, and from then on the whole text costs one multiplication.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, TypeAlias

OFFSET: Final = 0xCBF29CE484222325
PRIME: Final = 0x100000001B3
MASK: Final = 0xFFFFFFFFFFFFFFFF

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_DIGITS: Final = b"0123456789"
_ENCODING: Final = bytes.maketrans(_DIGITS, "".join(_ALPHABET[digit % len(_ALPHABET)] for digit in _DIGITS).encode())
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

# The 128 states of the low seven bits in one integer, 16 bytes for each: 64 bits times p never reach the next state.
_LOW_BITS: Final = 0x7F
_STATES: Final = _LOW_BITS + 1
_WIDTH: Final = 16
_IN_EVERY_STATE: Final = sum(1 << 8 * _WIDTH * low for low in range(_STATES))
_FIRST_STATES: Final = sum(low << 8 * _WIDTH * low for low in range(_STATES))
_WORDS: Final = struct.Struct(f"<{2 * _STATES}Q")


class Fixed:
    """An ASCII text that recurs: ``power`` is p^n mod 2^64, and ``sums`` has f(low) for each low."""

    __slots__ = ("power", "sums")

    def __init__(self, text: str) -> None:
        self.power = pow(PRIME, len(text), 1 << 64)
        states = _FIRST_STATES
        for byte in text.encode("ascii"):
            states = (states ^ _IN_EVERY_STATE * byte) * PRIME & _IN_EVERY_STATE * MASK
        after = _WORDS.unpack(states.to_bytes(_STATES * _WIDTH, "little"))[::2]
        self.sums = array("Q", [(total - low * self.power) & MASK for low, total in enumerate(after)])


Piece: TypeAlias = Fixed | str


@lru_cache(maxsize=1 << 10)
def recurring(text: str) -> Piece:
    """A text that is likely to recur, such as the key of a label."""
    return Fixed(text) if text.isascii() else text


def fold(state: int, pieces: Iterable[Piece]) -> int:
    """The sum of ``pieces``, continued from ``state``."""
    prime, mask, low = PRIME, MASK, _LOW_BITS
    for piece in pieces:
        if isinstance(piece, str):
            try:
                data = piece.encode()
            except UnicodeEncodeError:
                data = clean(piece).encode()
            for byte in data:
                state = (state ^ byte) * prime & mask
        else:
            state = state * piece.power + piece.sums[state & low] & mask
    return state


def encode(total: int) -> str:
    """``rand.SafeEncodeString(fmt.Sprint(total))``: each decimal digit as one of ten characters."""
    return str(total).encode().translate(_ENCODING).decode()


def clean(text: str) -> str:
    """A JSON string as Go holds it: lone surrogates are U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
