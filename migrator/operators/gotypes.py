"""The Go runtime's descriptors of types (internal/abi/type.go), read strictly.

Every descriptor must agree with its parts: sizes, offsets, alignments, the text of composed names, the export flag
with the first letter, an embedded field with its type's name. A Go that lays descriptors out differently fails here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from migrator.errors import InputError
from migrator.operators.elf import Elf
from migrator.operators.goinfo import ModuleData

#: abi.Kind to the size of a value; ``None`` where the descriptor alone has it.
_SIZES: Final[dict[int, tuple[str, int | None]]] = {
    1: ("bool", 1), 2: ("int", 8), 3: ("int8", 1), 4: ("int16", 2), 5: ("int32", 4), 6: ("int64", 8),
    7: ("uint", 8), 8: ("uint8", 1), 9: ("uint16", 2), 10: ("uint32", 4), 11: ("uint64", 8),
    21: ("map", 8), 22: ("pointer", 8), 23: ("slice", 24), 24: ("string", 16), 25: ("struct", None),
}  # fmt: skip
_TYPE: Final = struct.Struct("<QQIBBBBQQii")
_UNCOMMON: Final = struct.Struct("<iHHII")
_METHOD_SIZE: Final = 16
_FIELD_SIZE: Final = 24
_HAS_UNCOMMON, _EXTRA_STAR, _NAMED = 1, 2, 4
_EXPORTED, _TAGGED, _EMBEDDED = 1, 2, 8
_DIRECT_IN_KIND: Final = 1 << 5
_DIRECT_IN_FLAGS_SINCE: Final = 26
_LONGEST_NAME: Final = 1 << 14
_MOST_FIELDS: Final = 1 << 10
_FLAGS_AT, _POINTER_METHODS_AT = 20, 56


@dataclass(frozen=True, slots=True)
class Name:
    """A name, with the flags and the tag that the runtime keeps beside it."""

    text: str
    tag: str
    exported: bool
    embedded: bool


@dataclass(frozen=True, slots=True)
class StructField:
    """A field of a struct: its name, the address of its type, and its offset in the struct."""

    name: Name
    type: int
    offset: int


@dataclass(frozen=True, slots=True)
class GoType:
    """A type as ``%T`` prints it. ``parts`` are the addresses of its element, or of its key and element."""

    address: int
    text: str
    kind: str
    named: bool
    size: int
    align: int
    pointer: int
    parts: tuple[int, ...]
    fields: tuple[StructField, ...]


def composed(kind: str, parts: Sequence[str]) -> str:
    """The name of a type without a name of its own: ``[]v1.Container``; a kind without parts is its own name."""
    return {"pointer": "*{0}", "slice": "[]{0}", "map": "map[{0}]{1}"}.get(kind, kind).format(*parts)


class GoTypes:
    """The types of one program, by address. Raises :class:`~migrator.errors.InputError` for a contradiction."""

    def __init__(self, elf: Elf, module: ModuleData) -> None:
        self._elf = elf
        self._module = module
        self._known: dict[int, GoType] = {}

    def named(self, text: str, package: str) -> GoType | None:
        """The struct of that name; ``None`` if the program has none.

        ``package`` is its import path; empty for a type without methods, because the runtime keeps none.
        """
        wanted = f"*{text}".encode()
        found, failure = [], None
        start, stop = self._module.types, self._module.types_end
        for at in self._elf.find(bytes((len(wanted),)) + wanted, start, stop):
            for place in self._elf.find((at - 1 - start).to_bytes(4, "little"), start, stop, step=8):
                try:
                    made = self.at(place - _TYPE.size + 8)
                    if made.kind == "struct" and self.methods(made.address)[0] == package:
                        found.append(made)
                except InputError as error:
                    failure = error
        if failure is not None and not found:
            raise failure
        if len(found) > 1:
            raise InputError(f"the program has {len(found)} types {package}.{text}; it is damaged")
        return found[0] if found else None

    def at(self, address: int) -> GoType:
        """The type with its descriptor at an address."""
        found = self._known.get(address)
        if found is None:
            found = self._known[address] = self._read(address)
            self._check(found)
        return found

    def methods(self, address: int) -> tuple[str, frozenset[str]]:
        """The package's import path and the methods of a pointer to the named type at an address."""
        found = self.at(address)
        self._demand(found.named and found.pointer > 0, address, f"{found.text} has no type for its pointer")
        pointer = self.at(found.pointer)
        agrees = pointer.kind == "pointer" and pointer.parts == (address,)
        self._demand(agrees, address, f"{pointer.text} is not the pointer to {found.text}")
        if not self._elf.read(found.pointer + _FLAGS_AT, 1)[0] & _HAS_UNCOMMON:
            return "", frozenset()
        at = found.pointer + _POINTER_METHODS_AT
        package, count, exported, offset, _ = _UNCOMMON.unpack(self._elf.read(at, _UNCOMMON.size))
        self._demand(exported <= count < _MOST_FIELDS, address, "its methods make no sense")
        names = set()
        for index in range(count):
            raw = self._elf.read(at + offset + index * _METHOD_SIZE, 4)
            names.add(self._name(self._offset(int.from_bytes(raw, "little", signed=True))).text)
        return self._name(self._offset(package)).text, frozenset(names)

    def _read(self, address: int) -> GoType:
        self._demand(self._module.types <= address < self._module.types_end and address % 8 == 0, address, "misplaced")
        row = _TYPE.unpack(self._elf.read(address, _TYPE.size))
        size, pointers, _, flags, align, field_align, kind, _, _, name, pointer = row
        if self._module.go_minor < _DIRECT_IN_FLAGS_SINCE:
            kind &= ~_DIRECT_IN_KIND
        self._demand(kind in _SIZES, address, f"a kind of type that no pod template has, {kind}")
        title, wanted = _SIZES[kind]
        self._demand(wanted is None or size == wanted, address, f"a {title} of {size} bytes")
        self._demand(align == field_align and align in {1, 2, 4, 8} and size % align == 0, address, "misaligned")
        self._demand(pointers <= size and pointers % 8 == 0, address, "its pointers make no sense")
        text = self._name(self._offset(name)).text
        if flags & _EXTRA_STAR:
            self._demand(text.startswith("*"), address, "its name lacks the star")
            text = text[1:]
        here = address + _TYPE.size
        parts: tuple[int, ...] = ()
        fields: tuple[StructField, ...] = ()
        if title == "struct":
            fields = self._fields(here)
        elif title in {"pointer", "slice", "map"}:
            parts = tuple(self._elf.pointer(here + 8 * index) for index in range(2 if title == "map" else 1))
        named = bool(flags & _NAMED)
        self_pointer = self._offset(pointer) if pointer else 0
        return GoType(address, text, title, named, size, align, self_pointer, parts, fields)

    def _fields(self, here: int) -> tuple[StructField, ...]:
        start, count, room = (self._elf.pointer(here + 8 * index) for index in (1, 2, 3))
        self._demand(count == room < _MOST_FIELDS, here, "its list of fields makes no sense")
        fields = []
        for at in range(start, start + count * _FIELD_SIZE, _FIELD_SIZE):
            offset = int.from_bytes(self._elf.read(at + 16, 8), "little")
            fields.append(StructField(self._name(self._elf.pointer(at)), self._elf.pointer(at + 8), offset))
        return tuple(fields)

    def _check(self, found: GoType) -> None:
        """Read the parts of a type, and compare its descriptor with them."""
        if found.kind == "struct":
            self._check_struct(found)
        parts = [self.at(part) for part in found.parts]
        if found.named:
            qualified = "." in found.text or found.text == found.kind
            self._demand(qualified and found.text[0] not in "*[", found.address, f"{found.text} is not a name")
        elif found.kind != "struct":
            text = composed(found.kind, [part.text for part in parts])
            self._demand(found.text == text, found.address, f"{found.text} is composed as {text}")

    def _check_struct(self, found: GoType) -> None:
        end, align = 0, 1
        for field in found.fields:
            part, offset = self.at(field.type), field.offset
            what = f"{found.text}.{field.name.text}"
            self._demand(offset == -(-end // part.align) * part.align, found.address, f"{what} stands at {offset}")
            letter = field.name.text[:1]
            self._demand(field.name.exported == letter.isupper(), found.address, f"{what} contradicts its export flag")
            if field.name.embedded:
                own = part.text.lstrip("*").rpartition(".")[2]
                self._demand(own == field.name.text, found.address, f"{what} embeds {part.text}")
            end, align = offset + part.size, max(align, part.align)
        self._demand(align == found.align or not found.fields, found.address, f"{found.text} is misaligned")
        whole = -(-end // align) * align
        self._demand(found.size == whole, found.address, f"{found.text} has {found.size} bytes instead of {whole}")

    def _offset(self, offset: int) -> int:
        self._demand(0 < offset < self._module.types_end - self._module.types, offset, "an offset that leads outside")
        return self._module.types + offset

    def _name(self, address: int) -> Name:
        flags = self._elf.read(address, 1)[0]
        self._demand(flags < 1 << 4, address, "a name with unknown flags")
        text, after = self._text(address + 1)
        tag = self._text(after)[0] if flags & _TAGGED else ""
        return Name(text, tag, bool(flags & _EXPORTED), bool(flags & _EMBEDDED))

    def _text(self, address: int) -> tuple[str, int]:
        raw, after = self._elf.string(address, _LONGEST_NAME)
        text = raw.decode(errors="replace")
        self._demand(bool(text) and text.isprintable() and "\ufffd" not in text, address, "a name that is not text")
        return text, after

    def _demand(self, good: bool, address: int, what: str) -> None:  # noqa: FBT001 - reads as a sentence
        if not good:
            raise InputError(
                f"the Go type data cannot be trusted at {address:#x} ({what}): the file is damaged, or its Go is "
                "not the one that it names; get the file again, or name the scheme"
            )
