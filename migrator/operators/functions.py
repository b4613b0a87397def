"""The functions of a program (runtime/symtab.go): their names, which survive ``-s -w``, and their calls.

A call belongs to the function whose source contains it, inlined or not; an inlined function counts as called. Only
direct calls are seen, not those through a function value or an interface.
"""

from __future__ import annotations

import re
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from migrator.errors import InputError
from migrator.operators.elf import Elf, occurrences, varint
from migrator.operators.goinfo import ModuleData

_ENTRY: Final = struct.Struct("<II")
_FUNCTION: Final = struct.Struct("<IiiIIIIIIiBBBB")
_INLINED: Final = struct.Struct("<B3xiii")
#: abi.PCDATA_InlTreeIndex and abi.FUNCDATA_InlTree; "no such table" in a function's list of data.
_INLINE_INDEX, _INLINE_TREE = 2, 3
_ABSENT: Final = 0xFFFFFFFF
#: The suffixes that the compiler appends to the names of closures and wrappers.
_SUFFIX: Final = re.compile(r"(?:[.-](?:func|gowrap|deferwrap|range)?\d+|-fm|\[\.\.\.\]|\.abi\w+)+$")
#: amd64's CALL and JMP with a distance of 32 bits; arm64's BL and B.
_CALL: Final = re.compile(rb"[\xe8\xe9](?=(.{4}))", re.DOTALL)
_CALL_SIZE: Final = 5
_BRANCHES: Final = frozenset({0x25, 0x05})
_LONGEST_PCDATA: Final = 1 << 16
_DAMAGED: Final = "the Go function table is damaged; get the file again"


@dataclass(frozen=True, slots=True)
class Function:
    """One compiled function: its name, the addresses of its code, and the offset of its row in the table."""

    name: str
    entry: int
    end: int
    row: int


class Functions:
    """The function table of one program."""

    def __init__(self, elf: Elf, module: ModuleData) -> None:
        self._elf = elf
        self._module = module
        self._names = elf.read(module.names, module.names_size)
        self._table = elf.read(module.functions, module.functions_size)
        pairs = array("I", self._table[: (module.count + 1) * _ENTRY.size - 4])
        self._entries, self._rows = pairs[0::2], pairs[1::2]
        if list(self._entries) != sorted(self._entries) or max(self._rows) >= len(self._table):
            raise InputError(_DAMAGED)

    def names(self, part: str) -> Iterator[str]:
        """Every name that contains the part, of inlined functions too."""
        last = -1
        for at in occurrences(part.encode(), self._names):
            if at > last:
                start, last = self._names.rfind(b"\0", 0, at) + 1, self._names.find(b"\0", at)
                yield self._names[start:last].decode("utf-8", "replace")

    def starting_with(self, prefixes: tuple[str, ...]) -> Iterator[Function]:
        """Every compiled function whose name starts with one of the prefixes."""
        offsets = {at + 1 for one in prefixes for at in occurrences(b"\0" + one.encode(), self._names)}
        for index, row in enumerate(self._rows):
            if int.from_bytes(self._table[row + 4 : row + 8], "little") in offsets:
                yield self._function(index)

    def calls_any(self, function: Function, targets: set[int]) -> bool:
        """Whether the code of a function calls one of the target addresses."""
        return any(target in targets for _, target in self._branches(function))

    def calls(self, function: Function) -> Iterator[tuple[str, str]]:
        """The calls in the code of a function, as caller and callee, by :func:`plain_name` names."""
        inlined = _Inlined(self._elf, self._module, self._table, function)
        names = [plain_name(self._name(offset)) for offset, _ in inlined.rows]
        names.append(plain_name(function.name))  # at index -1, which is that of code outside all inlined functions
        for name, (_, parent) in zip(names, inlined.rows, strict=False):
            yield names[inlined.index_at(parent)], name
        for place, target in self._branches(function):
            index = bisect_right(self._entries, target - self._module.text) - 1
            if index >= 0 and self._entries[index] == target - self._module.text and index < self._module.count:
                yield names[inlined.index_at(place - function.entry)], plain_name(self._function(index).name)

    def _function(self, index: int) -> Function:
        row = self._rows[index]
        offset, name = struct.unpack_from("<Ii", self._table, row)
        if offset != self._entries[index]:
            raise InputError(_DAMAGED)
        after = self._entries[index + 1] if index + 1 < len(self._entries) else self._module.text_end
        text = self._module.text
        return Function(self._name(name), text + offset, text + after, row)

    def _name(self, offset: int) -> str:
        stop = self._names.find(b"\0", offset) if offset >= 0 else -1
        if stop <= offset:
            raise InputError(_DAMAGED)
        return self._names[offset:stop].decode("utf-8", "replace")

    def _branches(self, function: Function) -> Iterator[tuple[int, int]]:
        """The places and targets of direct calls and jumps that leave the function."""
        code = self._elf.read(function.entry, function.end - function.entry)
        if self._elf.architecture == "amd64":
            found = ((one.start(), int.from_bytes(one[1], "little", signed=True)) for one in _CALL.finditer(code))
            moves = [(at, at + _CALL_SIZE + distance) for at, distance in found]
        else:
            words = array("I", code[: len(code) // 4 * 4])
            moves = [
                (4 * at, 4 * at + 4 * ((word & 0x1FFFFFF) - (word & 0x2000000)))
                for at, word in enumerate(words)
                if word >> 26 in _BRANCHES
            ]
        for at, target in moves:
            if not 0 <= target < len(code):
                yield function.entry + at, function.entry + target


class _Inlined:
    """The inlined functions in one function: rows of (offset of the name, place of the call in the function)."""

    def __init__(self, elf: Elf, module: ModuleData, table: bytes, function: Function) -> None:
        *_, pcdata, _, _, _, _, _, funcdata = _FUNCTION.unpack_from(table, function.row)
        lists = struct.unpack_from(f"<{pcdata + funcdata}I", table, function.row + _FUNCTION.size)
        index = lists[_INLINE_INDEX] if pcdata > _INLINE_INDEX else 0
        tree = lists[pcdata + _INLINE_TREE] if funcdata > _INLINE_TREE else _ABSENT
        self._starts: list[int] = []
        self._values: list[int] = []
        self.rows: list[tuple[int, int]] = []
        if index == 0 or tree == _ABSENT:
            return
        size = min(module.pctab_size - index, _LONGEST_PCDATA)
        self._decode(elf.read(module.pctab + index, size), 1 if elf.architecture == "amd64" else 4)
        count = max(self._values, default=-1) + 1
        raw = elf.read(module.gofunc + tree, count * _INLINED.size)
        self.rows = [(name, parent) for _, name, parent, _ in _INLINED.iter_unpack(raw)]

    def index_at(self, place: int) -> int:
        """The row of the innermost inlined function at a place in the code; -1 outside all of them."""
        at = bisect_right(self._starts, place) - 1
        return max(-1, self._values[at]) if at >= 0 else -1

    def _decode(self, data: bytes, quantum: int) -> None:
        """Read a table of runtime.pcvalue: steps of a value, signed, and of a place, as varints."""
        at, place, value = 0, 0, -1
        while at < len(data):
            step, at = varint(data, at)
            if step == 0 and self._starts:
                return
            value += -(step >> 1) - 1 if step & 1 else step >> 1
            self._starts.append(place)
            self._values.append(value)
            step, at = varint(data, at)
            place += step * quantum
        raise InputError(_DAMAGED)


def plain_name(name: str) -> str:
    """A function's name without the compiler's suffixes for closures, wrappers and instances of generics."""
    return _SUFFIX.sub("", name)
