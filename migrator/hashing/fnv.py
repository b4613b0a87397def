"""FNV-1a 64 over text in chunks, and the encoding of the sum.

Grove: ``operator/internal/utils/kubernetes/pod.go:ComputeHash`` feeds ``fnv.New64a`` and encodes the decimal sum
with ``rand.SafeEncodeString`` of k8s.io/apimachinery.

One step is ``h = (h ^ byte) * p mod 2^64``. The exclusive or touches the low eight bits only, so over a fixed
text of n bytes ``h_out = p^n * (h - low) + f(low)`` where ``low`` is the low byte of ``h`` and ``f(low)`` is the
sum that the text gives from ``low`` alone. Most of a dump is text that recurs: for it each of at most 256 values
of ``f`` is computed once, and from then on the whole text costs one multiplication.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

OFFSET: Final = 0xCBF29CE484222325
PRIME: Final = 0x100000001B3
MASK: Final = 0xFFFFFFFFFFFFFFFF

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_ENCODING: Final = str.maketrans({digit: _ALPHABET[ord(digit) % len(_ALPHABET)] for digit in "0123456789"})
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

#: After this many evaluations of one text, all 256 are computed at once.
_FILL_ALL_AFTER: Final = 12

# All 256 evaluations at once: one integer with a lane of 128 bits for each low byte. A 64-bit lane times the
# 41-bit prime never reaches its neighbour.
_LANE: Final = 128
_LANES: Final = sum(1 << (_LANE * low) for low in range(256))
_STARTS: Final = sum(low << (_LANE * low) for low in range(256))
_LANE_MASK: Final = _LANES * MASK


class Chunk:
    """Text, whole or as a sequence of chunks, that takes a sum to the next.

    ``power`` is p^n mod 2^64 for its n bytes; ``table`` holds f(low) as far as it was needed.
    """

    __slots__ = ("_data", "_parts", "power", "table")

    def __init__(self, text: str = "", parts: Sequence[Chunk] | None = None) -> None:
        self.table: dict[int, int] = {}
        self._parts = parts
        self._data = b"" if parts is not None else utf8(text)
        if parts is None:
            self.power = pow(PRIME, len(self._data), 1 << 64)
        else:
            power = 1
            for part in parts:
                power = power * part.power & MASK
            self.power = power

    @property
    def data(self) -> bytes:
        """The bytes that it stands for."""
        return self._data if self._parts is None else b"".join(part.data for part in self._parts)

    def fill(self, low: int) -> int:
        """Compute and keep f(low)."""
        if self._parts is not None:
            value = fold(low, self._parts)
        elif len(self.table) < _FILL_ALL_AFTER:
            value = feed(low, self._data)
        else:
            self.table = dict(enumerate(_feed_all(self._data)))
            return self.table[low]
        self.table[low] = value
        return value


def fold(state: int, chunks: Iterable[Chunk]) -> int:
    """The sum after ``chunks`` when it was ``state`` before."""
    for chunk in chunks:
        low = state & 0xFF
        value = chunk.table.get(low)
        if value is None:
            value = chunk.fill(low)
        state = ((state ^ low) * chunk.power + value) & MASK
    return state


def feed(state: int, data: bytes) -> int:
    """FNV-1a as it is defined, byte by byte."""
    for byte in data:
        state = (state ^ byte) * PRIME & MASK
    return state


def encode(total: int) -> str:
    """``rand.SafeEncodeString(fmt.Sprint(total))``: each decimal digit as one of ten characters."""
    return str(total).translate(_ENCODING)


def utf8(text: str) -> bytes:
    """Go's bytes of a decoded JSON string: lone surrogates became U+FFFD, one each."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return clean(text).encode()


def clean(text: str) -> str:
    """A JSON string as Go holds it: lone surrogates are U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _feed_all(data: bytes) -> list[int]:
    lanes = _STARTS
    for byte in data:
        lanes = (lanes ^ (_LANES * byte)) * PRIME & _LANE_MASK
    raw = lanes.to_bytes(256 * _LANE // 8, "little")
    return [int.from_bytes(raw[at : at + 8], "little") for at in range(0, len(raw), _LANE // 8)]
