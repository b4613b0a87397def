"""FNV-1a 64 over text in chunks, and the encoding of the sum.

Grove: ``operator/internal/utils/kubernetes/pod.go:ComputeHash`` feeds ``fnv.New64a`` and encodes the decimal sum
with ``rand.SafeEncodeString`` of k8s.io/apimachinery.

One step is ``h = (h ^ byte) * p mod 2^64``. The exclusive or with an ASCII character touches the low seven bits
only, so over a fixed text of n bytes ``h_out = p^n * (h - low) + f(low)`` where ``low`` are the low seven bits of
``h`` and ``f(low)`` is the sum that the text gives from ``low`` alone. Most of a dump is text that recurs: for it
each of at most 128 values of ``f`` is computed once, and from then on the whole text costs one multiplication.
(Eight bits and 256 values where a text is not ASCII.)
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Final

OFFSET: Final = 0xCBF29CE484222325
PRIME: Final = 0x100000001B3
MASK: Final = 0xFFFFFFFFFFFFFFFF

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_DIGITS: Final = b"0123456789"
_ENCODING: Final = bytes.maketrans(_DIGITS, "".join(_ALPHABET[digit % len(_ALPHABET)] for digit in _DIGITS).encode())
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_ASCII: Final = 0x7F
_ANY: Final = 0xFF

#: After this many evaluations of one text, all 128 are computed at once; a chunk with as many recurs.
_FILL_ALL_AFTER: Final = 8

# All 128 evaluations at once: one integer with a lane of 16 bytes for each. A 64-bit lane times 64 bits never
# reaches its neighbour.
_COUNT: Final = _ASCII + 1
_LANE: Final = 16
_LANES: Final = int.from_bytes((b"\1" + bytes(_LANE - 1)) * _COUNT, "little")
_STARTS: Final = int.from_bytes(b"".join(bytes((low,)) + bytes(_LANE - 1) for low in range(_COUNT)), "little")
_LANE_MASK: Final = _LANES * MASK
_HIGH_MASK: Final = _LANES * (MASK ^ _ASCII)


class Chunk:
    """What takes a sum to the next.

    ``size`` is its length n in bytes, ``power`` p^n mod 2^64 and ``mask`` the bits that ``low`` consists of.
    ``table`` holds f(low) as far as it was needed. Once it has been needed again and again it is ``hot``, and all of
    f is computed at once if the text is ASCII.
    """

    __slots__ = ("_planes", "hot", "mask", "power", "size", "table")

    #: How many chunks have become hot: each then holds up to 12 KB.
    hot_ones = 0

    def __init__(self, size: int, mask: int) -> None:
        self.size = size
        self.power = _power(size)
        self.mask = mask
        self.table: dict[int, int] = {}
        self.hot = False
        self._planes: Sequence[bytes] = ()

    @property
    def data(self) -> bytes:
        """The bytes that it stands for."""
        raise NotImplementedError

    def step(self, state: int) -> int:
        """The sum after it when it was ``state`` before."""
        low = state & self.mask
        value = self.table.get(low)
        if value is None:
            value = self.fill(low)
        return ((state ^ low) * self.power + value) & MASK

    def fill(self, low: int) -> int:
        """Compute and keep f(low)."""
        value = self.table[low] = self._evaluate(low)
        if not self.hot and len(self.table) > _FILL_ALL_AFTER:
            self._heat()
        return value

    def planes(self) -> Sequence[bytes]:
        """For each of the eight bytes of f(low), least significant first, a table to translate ``low`` with."""
        if not self._planes:
            if not self.hot:
                self._heat()
            raw = struct.pack(f"<{_COUNT}Q", *self.table.values())
            self._planes = [raw[at::8] * 2 for at in range(8)]
        return self._planes

    def _heat(self) -> None:
        if self.mask == _ASCII:
            self.table = dict(enumerate(self._evaluate_all()))
        self.hot = True
        Chunk.hot_ones += 1

    def _evaluate(self, low: int) -> int:
        raise NotImplementedError

    def _evaluate_all(self) -> Sequence[int]:
        raise NotImplementedError


class Text(Chunk):
    """A chunk of text."""

    __slots__ = ("data",)

    data: bytes

    def __init__(self, text: str) -> None:
        self.data = utf8(text)
        super().__init__(len(self.data), _ASCII if self.data.isascii() else _ANY)

    def _evaluate(self, low: int) -> int:
        return feed(low, self.data)

    def _evaluate_all(self) -> Sequence[int]:
        lanes, bytes_in_lanes = _STARTS, _bytes_in_lanes()
        for byte in self.data:
            lanes = (lanes ^ bytes_in_lanes[byte]) * PRIME & _LANE_MASK
        return _unpacked(lanes)


class Joined(Chunk):
    """A sequence of chunks as one."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Chunk]) -> None:
        self._parts = parts
        mask = _ASCII
        size = 0
        for part in parts:
            mask |= part.mask
            size += part.size
        super().__init__(size, mask)

    @property
    def data(self) -> bytes:
        """The bytes that it stands for."""
        return b"".join([part.data for part in self._parts])

    def _evaluate(self, low: int) -> int:
        return fold(low, self._parts)

    def _evaluate_all(self) -> Sequence[int]:
        """One step of :func:`fold` in all lanes for each part, f(low) put together from its bytes."""
        lanes = _STARTS
        found = bytearray(_COUNT * _LANE)
        for part in self._parts:
            lows = lanes.to_bytes(_COUNT * _LANE, "little")[::_LANE]
            for at, plane in enumerate(part.planes()):
                found[at::_LANE] = lows.translate(plane)
            lanes = ((lanes & _HIGH_MASK) * part.power + int.from_bytes(found, "little")) & _LANE_MASK
        return _unpacked(lanes)


def fold(state: int, chunks: Iterable[Chunk]) -> int:
    """The sum after ``chunks`` when it was ``state`` before."""
    for chunk in chunks:
        low = state & chunk.mask
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


@lru_cache(maxsize=4096)
def _power(size: int) -> int:
    return pow(PRIME, size, 1 << 64)


@cache
def _bytes_in_lanes() -> Sequence[int]:
    """Each ASCII character in all lanes."""
    return [_LANES * byte for byte in range(_COUNT)]


def _unpacked(lanes: int) -> Sequence[int]:
    return struct.unpack(f"<{2 * _COUNT}Q", lanes.to_bytes(_COUNT * _LANE, "little"))[::2]
