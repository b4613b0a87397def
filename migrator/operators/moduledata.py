"""The Go linker's own table of contents: ``runtime.moduledata``, found by its contents (runtime/symtab.go).

No pointer from outside leads to it, and section headers may be absent. So every place that points to the function
table, which is found by its magic, is tried as module data: its fields must agree with the rest of the file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from migrator.errors import InputError
from migrator.operators.elf import Elf

#: ``abi.Go120PCLnTabMagic``, two zero bytes; then the smallest instruction, the size of a pointer.
_MAGIC: Final = b"\xf1\xff\xff\xff\0\0"
_QUANTA: Final = {"amd64": 1, "arm64": 4}
_POINTER: Final = 8
_HEADER: Final = struct.Struct("<6sBBQQQQQQQQ")
#: Places in module data, counted in words. Of each Go minor: etypes, rodata, gofunc, textsectmap, pluginpath.
_NAMES, _CUTAB, _FILETAB, _PCTAB, _FUNCTIONS, _TABLE, _MIN, _TEXT, _TYPES = 1, 4, 7, 10, 13, 16, 20, 22, 37
_TAIL: Final = {
    24: (38, 39, 40, 41, 53),
    25: (38, 39, 40, 41, 53),
    26: (38, 39, 40, 42, 54),
    27: (39, 42, 43, 45, 51),
}


@dataclass(frozen=True, slots=True)
class ModuleData:
    """The addresses of type data, code and read-only data, and the tables of functions and their names."""

    go_minor: int
    types: int
    types_end: int
    text: int
    text_end: int
    gofunc: int
    count: int
    names: int
    names_size: int
    pctab: int
    pctab_size: int
    functions: int
    functions_size: int


def find(elf: Elf, go_minor: int) -> ModuleData:
    """The module data of a program; raises :class:`~migrator.errors.InputError` unless exactly one candidate agrees."""
    headers = elf.search(_MAGIC + bytes((_QUANTA[elf.architecture], _POINTER)), step=8)
    pointers = ((header, address) for header in headers for address in elf.pointers_to(header))
    found = list(filter(None, (_read(elf, address, header, go_minor) for header, address in pointers)))
    if len(set(found)) != 1:
        what = "no table of functions and types" if not found else "more than one table of functions and types"
        raise InputError(
            f"{what} of Go 1.{go_minor} was found: garble, a packer or another linker changed the program; "
            "give the build that upstream's Makefile makes, or name the scheme"
        )
    return found[0]


def _read(elf: Elf, address: int, header: int, go_minor: int) -> ModuleData | None:
    """The module data at an address; ``None`` if something there contradicts the header of the function table."""
    try:
        _, _, _, count, _, _, *offsets = _HEADER.unpack(elf.read(header, _HEADER.size))
        word = [elf.pointer(address + _POINTER * index) for index in range(_TAIL[go_minor][-1] + 2)]
        *places, sections, plugin = _TAIL[go_minor]
        types_end, rodata, gofunc = (word[index] for index in places)
        starts = [word[index] for index in (_NAMES, _CUTAB, _FILETAB, _PCTAB, _FUNCTIONS)]
        text, text_end, types = word[_TEXT], word[_TEXT + 1], word[_TYPES]
        agrees = (
            word[0] == header
            and starts == [header + offset for offset in offsets]
            and offsets == sorted(offsets)
            and word[_TABLE] == word[_FUNCTIONS]
            and word[_TABLE + 1] == word[_TABLE + 2] == count + 1
            and text <= word[_MIN] < word[_MIN + 1] <= text_end
            and rodata <= gofunc
            and types < types_end
            and word[sections + 1] == word[sections + 2] == 1
            and word[plugin + 1] == 0
            and elf.holds(types, types_end - types)
            and elf.holds(text, text_end - text)
        )
    except InputError:
        return None
    if not agrees:
        return None
    tables = (number for table in (_NAMES, _PCTAB, _FUNCTIONS) for number in word[table : table + 2])
    return ModuleData(go_minor, types, types_end, text, text_end, gofunc, count, *tables)
