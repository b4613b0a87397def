"""ELF files of 64-bit little-endian machines, by address. Only programs at fixed addresses, as Grove has them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from migrator.errors import InputError

#: ELF machine number to Go's name of the architecture.
_MACHINES: Final = {62: "amd64", 183: "arm64"}
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_FIXED_ADDRESSES, _LOAD = 2, 1
_WRITABLE = 2
MAGIC: Final = b"\x7fELF"
_CHUNK: Final = 1 << 22
_LONGEST_VARINT: Final = 5  # of 32 bits


@dataclass(frozen=True, slots=True)
class Segment:
    """One loaded part of the file: ``size`` bytes from ``offset`` are loaded at ``address``."""

    address: int
    offset: int
    size: int
    writable: bool

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + self.size


class Elf:
    """A program by address. Raises :class:`~migrator.errors.InputError` if the file is not one, or is cut off."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        length = file.seek(0, 2)
        head = self._at(0, _HEADER.size)
        ident, kind, machine, _, _, table, _, _, _, entry_size, count, *_ = _HEADER.unpack(head)
        if ident[:4] != MAGIC:
            raise InputError("it is not a Linux program (ELF); give the operator's program file")
        if ident[4:6] != b"\x02\x01" or machine not in _MACHINES or entry_size != _SEGMENT.size:
            raise InputError(f"it is an ELF file for machine {machine}; only amd64 and arm64 operators can be read")
        if kind != _FIXED_ADDRESSES:
            raise InputError("it is position-independent (PIE); give the build that Grove's Makefile makes")
        self.architecture = _MACHINES[machine]
        rows = list(_SEGMENT.iter_unpack(self._at(table, count * _SEGMENT.size)))
        self.segments = tuple(
            Segment(row[3], row[2], row[5], bool(row[1] & _WRITABLE)) for row in rows if row[0] == _LOAD
        )
        for segment in self.segments:
            missing = segment.offset + segment.size - length
            if missing > 0:
                raise InputError(f"the file is cut off: {missing} bytes are missing at its end; copy it again")

    def holds(self, address: int, size: int) -> bool:
        """Whether one segment of the file holds a whole range of addresses."""
        return self._segment(address, size) is not None

    def read(self, address: int, size: int) -> bytes:
        """The bytes at an address, all of one segment."""
        segment = self._segment(address, size)
        if segment is None or size < 0:
            raise InputError(f"a pointer leads outside the program, to {address:#x}; the file is damaged")
        return self._at(segment.offset + address - segment.address, size)

    def pointer(self, address: int) -> int:
        """The pointer at an address."""
        return int.from_bytes(self.read(address, 8), "little")

    def string(self, address: int, longest: int) -> tuple[bytes, int]:
        """The string at an address, after its length as a varint, and the address behind it."""
        room = max((one.end - address for one in self.segments if one.address <= address < one.end), default=0)
        size, start = varint(self.read(address, min(_LONGEST_VARINT, room)), 0)
        if size > longest:
            raise InputError(f"the string at {address:#x} is too long; the file is damaged")
        return self.read(address + start, size), address + start + size

    def find(self, needle: bytes, start: int, stop: int, *, step: int = 1) -> Iterator[int]:
        """Every address of the bytes in a range, at multiples of ``step``."""
        while start < stop:
            size = min(_CHUNK, stop - start)
            yield from (start + at for at in occurrences(needle, self.read(start, size)) if (start + at) % step == 0)
            start += size if start + size >= stop else size - len(needle) + 1

    def search(self, needle: bytes, *, step: int = 1) -> Iterator[int]:
        """Every address of the bytes, those in writable memory first, at multiples of ``step``."""
        for segment in sorted(self.segments, key=lambda one: not one.writable):
            yield from self.find(needle, segment.address, segment.end, step=step)

    def pointers_to(self, target: int) -> Iterator[int]:
        """Every address in writable memory at which a pointer to the target stands."""
        needle = target.to_bytes(8, "little")
        for segment in self.segments:
            if segment.writable:
                yield from self.find(needle, segment.address, segment.end, step=8)

    def _segment(self, address: int, size: int) -> Segment | None:
        return next((one for one in self.segments if one.address <= address and address + size <= one.end), None)

    def _at(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        data = self._file.read(size)
        if len(data) != size:
            raise InputError("the file is cut off; copy it again")
        return data


def occurrences(needle: bytes, data: bytes) -> Iterator[int]:
    """Every place of some bytes in others."""
    at = data.find(needle)
    while at >= 0:
        yield at
        at = data.find(needle, at + 1)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number as Go writes it in groups of seven bits, and the place behind it."""
    value = 0
    for length, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * length
        if byte < 0x80:  # noqa: PLR2004 - the last byte
            return value, at + length + 1
    raise InputError("a number has no end; the file is damaged")
