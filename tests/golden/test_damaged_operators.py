"""Damaged files of operators: refused, or read as what they are."""

from __future__ import annotations

import io
import random
from dataclasses import dataclass, replace
from functools import cache

import pytest

from migrator.errors import MigratorError
from migrator.hashing import layouts
from migrator.operators import binary, goinfo
from migrator.operators.algorithm import Functions
from migrator.operators.elf import Elf
from migrator.operators.gotypes import GoTypes
from migrator.operators.schemefile import OperatorScheme
from tests.golden.operator_build import NEWEST_GO, Program, built

pytestmark = pytest.mark.differential

PROGRAMS = [Program(), Program("1.33", NEWEST_GO, "arm64", tags=("canonical",))]
#: Bits flipped in each program: in what the layout is read from, and in everything else that is read.
BITS, OTHER_BITS = 200, 100


@dataclass
class Image:
    """A program in memory, with the addresses of the type descriptors and fields that the layout is read from."""

    data: bytearray
    elf: Elf
    module: goinfo.ModuleData
    types: tuple[int, ...] = ()
    fields: tuple[int, ...] = ()
    names: tuple[int, ...] = ()

    @property
    def tables(self) -> list[int]:
        """The addresses of function tables, and of what looks like one."""
        magic = b"\xf1\xff\xff\xff\0\0" + bytes((1 if self.elf.architecture == "amd64" else 4, 8))
        return list(self.elf.search(magic, step=8))

    def at(self, address: int) -> int:
        """The place in the file of an address."""
        for segment in self.elf.segments:
            if segment.address <= address < segment.address + segment.size:
                return segment.offset + address - segment.address
        raise AssertionError(hex(address))


@cache
def original(program: Program) -> tuple[bytes, OperatorScheme]:
    """A program's bytes, and what is read of them."""
    data = built(program).read_bytes()
    return data, binary.read(io.BytesIO(data))


def image(program: Program) -> Image:
    """A copy of a program that may be changed."""
    made = _analysed(program)
    return replace(made, data=bytearray(made.data))


@cache
def _analysed(program: Program) -> Image:
    data, _ = original(program)
    elf = Elf(io.BytesIO(data))
    module = goinfo.module_data(elf, goinfo.build_info(elf).go_minor)
    types = GoTypes(elf, module)
    root = types.named("v1.PodTemplateSpec", "k8s.io/api/core/v1")
    assert root is not None
    seen: dict[int, bool] = {}
    waiting = [root.address]
    while waiting:
        address = waiting.pop()
        if address not in seen:
            one = types.at(address)
            seen[address] = one.kind == "struct"
            waiting += [*one.parts, *(part.type for part in one.fields)]
    structs = tuple(address for address, is_struct in seen.items() if is_struct)
    starts = {address: elf.pointer(address + 56) for address in structs}
    rows = tuple(starts[a] + 24 * n for a in structs for n in range(len(types.at(a).fields)))
    names = tuple(elf.pointer(row) for row in rows)
    return Image(bytearray(data), elf, module, tuple(seen), rows, names)


def outcome(data: bytes) -> OperatorScheme | None:
    """What is read, or nothing where it is refused."""
    try:
        return binary.read(io.BytesIO(data))
    except MigratorError:
        return None


def _rename(one: Image) -> None:
    one.data[:] = one.data.replace(b"ComputeHash", b"kQ2zVnPwX1a").replace(b"computeHash", b"Lm9xRtB3cDe")


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_functions_whose_names_mean_nothing_are_refused(program: Program) -> None:
    """Names that were changed, as by garble, leave nothing to recognise the algorithm by."""
    changed = image(program)
    _rename(changed)
    assert outcome(bytes(changed.data)) is None


def _answer(program: Program) -> tuple[object, object]:
    found = original(program)[1]
    return found.layout, found.recognised


def flipped(program: Program, places: list[tuple[int, int]], count: int, seed: int) -> list[OperatorScheme | None]:
    """What is read of a program when one bit is flipped, so many times, in ranges of the file (start and size)."""
    data, draw = image(program).data, random.Random(seed)  # noqa: S311 - the same bits every time
    found = []
    for _ in range(count):
        start, size = draw.choice(places)
        place, bit = start + draw.randrange(size), 1 << draw.randrange(8)
        data[place] ^= bit
        found.append(outcome(bytes(data)))
        data[place] ^= bit
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_damaged_bit_is_refused_or_shows(program: Program) -> None:
    """Of 200 single bits flipped in what is read, none gives another algorithm or another layout that we ship.

    A letter of a name, or a pointer to a type of the same size, can give a layout that is not one of ours: no check of
    the types themselves sees that, so such a file is warned about.
    """
    clean = image(program)
    spans = [(address, 48) for address in clean.types] + [(row, 24) for row in clean.fields]
    spans += [(name, 2) for name in clean.names] + [(name + 2, 4) for name in clean.names]
    found = flipped(program, [(clean.at(address), size) for address, size in spans], BITS, 12)
    layout, recognised = _answer(program)
    for one in filter(None, found):
        assert one.recognised == recognised
        assert one.layout == layout or layouts.name_of(one.layout).startswith("x")
    assert found.count(None) > BITS // 5


def _elsewhere(one: Image) -> list[tuple[int, int]]:
    """Places in the file, with sizes, of what is read and is not a type: headers, tables, the operator's code."""
    elf, module, data = one.elf, one.module, bytes(one.data)
    places = [(0, 64 + 56 * len(elf.segments)), (data.find(b"\xff Go buildinf:"), 256)]
    tables = one.tables
    places += [(one.at(table), 72) for table in tables]
    places += [(one.at(row), 8 * 55) for table in tables for row in elf.pointers_to(table)]
    for function in Functions(elf, module).starting_with(("grovemigrator/fork/operator/internal/",)):
        places.append((one.at(function.entry), function.end - function.entry))
        places.append((one.at(module.functions) + function.row, 60))
    return [*places, (data.find(b"grovemigrator/fork/operator/internal/utils/kubernetes."), 120)]


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_damaged_bit_elsewhere_is_refused_or_harmless(program: Program) -> None:
    """A bit flipped in headers, tables of functions or code gives what was there before, or an error of ours."""
    found = flipped(program, _elsewhere(image(program)), OTHER_BITS, 21)
    assert all((one.layout, one.recognised) == _answer(program) for one in filter(None, found))
    assert found.count(None) > OTHER_BITS // 20


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_program_that_is_cut_off_is_refused(program: Program) -> None:
    """Wherever something is missing that is loaded, it is refused."""
    data, _ = original(program)
    loaded = max(segment.offset + segment.size for segment in image(program).elf.segments)
    for length in (10, 64, 5000, loaded // 3, loaded // 2, loaded - 1):
        assert outcome(data[:length]) is None
    assert outcome(data[:loaded]) is not None
