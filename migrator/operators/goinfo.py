"""What the Go linker leaves in a program: build information, and ``runtime.moduledata``, its own table of contents.

No pointer from outside leads to the module data (runtime/symtab.go), and section headers may be absent. So every place
that points to the function table, which is found by its magic, is tried as module data: its fields must agree with the
rest of the file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from migrator.errors import InputError
from migrator.operators.elf import Elf

_INFO_MAGIC: Final = b"\xff Go buildinf:"
_INFO_SIZE: Final = 32
_INLINE: Final = 2
_MARK: Final = 16  # runtime/debug.modinfo stands between two marks of that many bytes
#: The Go minors whose formats were read and compared with reflection.
GO_MINORS: Final = range(24, 28)
_VERSION: Final = re.compile(r"go1\.(\d+)(?:\.\d+|rc\d+|beta\d+)?(?:[-+ ].*)?", re.DOTALL)
#: The version in a program that garble has obfuscated.
_GARBLED: Final = "unknown"
_EXPERIMENTS: Final = re.compile(r"X:([\w,]+)")
#: Experiments that change neither formats nor how JSON is decoded (internal/goexperiment).
_HARMLESS: Final = frozenset({"boringcrypto", "strictfipsruntime", "systemcrypto", "opensslcrypto", "greenteagc"})
_COMMIT: Final = re.compile(r"[./]version\.gitCommit=([0-9a-f]{7,40})")
_LONGEST: Final = 1 << 24

#: ``abi.Go120PCLnTabMagic``, two zero bytes; then the smallest instruction, the size of a pointer.
_TABLE_MAGIC: Final = b"\xf1\xff\xff\xff\0\0"
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
class BuildInfo:
    """The facts that ``go version -m`` prints: modules (path to version, replacements marked) and settings."""

    go: str
    go_minor: int
    modules: Mapping[str, str]
    settings: Mapping[str, str]

    @property
    def commit(self) -> str:
        """The commit, from the linker flags of Grove's Makefile or from the version control system; may be empty."""
        found = _COMMIT.search(self.settings.get("-ldflags", ""))
        return found[1] if found else self.settings.get("vcs.revision", "")


def build_info(elf: Elf) -> BuildInfo:
    """Read it; raises :class:`~migrator.errors.InputError` if it is absent or of an unknown Go version."""
    for address in elf.search(_INFO_MAGIC, step=16):
        if elf.read(address + len(_INFO_MAGIC) + 1, 1)[0] & _INLINE:
            version, after = elf.string(address + _INFO_SIZE, _LONGEST)
            modinfo, _ = elf.string(after, _LONGEST)
            return _parsed(version.decode("utf-8", "replace"), modinfo[_MARK:-_MARK].decode("utf-8", "replace"))
    if any(True for _ in elf.search(b"UPX!")):
        raise InputError("it is packed with UPX: unpack it with `upx -d` and give the result")
    raise InputError("it has no Go build information: it is not a Go program, or a packer changed it")


def _parsed(version: str, modinfo: str) -> BuildInfo:
    if version == _GARBLED:
        raise InputError(
            "its Go version is removed, as garble does, and so are the names of its functions: give a build without "
            "garble, or name the scheme"
        )
    named = _VERSION.fullmatch(version)
    if named is None or int(named[1]) not in GO_MINORS:
        known = f"Go 1.{GO_MINORS[0]} to 1.{GO_MINORS[-1]}"
        raise InputError(
            f"it was built with {version[:40]!r}; only the formats of {known} are known: name the scheme instead"
        )
    modules, settings, last = {}, {}, ""
    for line in modinfo.splitlines():
        kind, _, rest = line.partition("\t")
        parts = rest.split("\t")
        if kind in {"mod", "dep"}:
            last = parts[0]
            modules[last] = parts[1] if len(parts) > 1 else ""
        elif kind == "=>":
            modules[last] = f"{modules.get(last, '')} => {' '.join(parts[:2])}"
        elif kind == "build":
            key, _, value = rest.partition("=")
            settings[key] = value
    experiments = {*",".join(_EXPERIMENTS.findall(version)).split(","), *settings.get("GOEXPERIMENT", "").split(",")}
    unknown = sorted(experiments - _HARMLESS - {""})
    if unknown:
        raise InputError(
            f"it was built with GOEXPERIMENT={','.join(unknown)}, which can change the formats that are read here; "
            "give a build without it, or name the scheme"
        )
    return BuildInfo(version, int(named[1]), modules, settings)


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


def module_data(elf: Elf, go_minor: int) -> ModuleData:
    """The module data of a program; raises :class:`~migrator.errors.InputError` unless exactly one candidate agrees."""
    headers = elf.search(_TABLE_MAGIC + bytes((_QUANTA[elf.architecture], _POINTER)), step=8)
    pointers = ((header, address) for header in headers for address in elf.pointers_to(header))
    found = list(filter(None, (_candidate(elf, address, header, go_minor) for header, address in pointers)))
    if len(set(found)) != 1:
        what = "no table of functions and types" if not found else "more than one table of functions and types"
        raise InputError(
            f"{what} of Go 1.{go_minor} was found: garble, a packer or another linker changed the program; "
            "give the build that upstream's Makefile makes, or name the scheme"
        )
    return found[0]


def _candidate(elf: Elf, address: int, header: int, go_minor: int) -> ModuleData | None:
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
