"""Damaged files of operators: refused, or read as what they are."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable
from dataclasses import dataclass
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
programs = pytest.mark.parametrize("program", PROGRAMS, ids=str)
#: Bits flipped in each program: in what the layout is read from, and in everything else that is read.
BITS, OTHER_BITS = 200, 100

Span = tuple[int, int]  # where something begins, and its size


@dataclass(frozen=True)
class Image:
    """A program's bytes, what is read of them, and spans of the file: of types with their names, and of all else."""

    data: bytes
    read: OperatorScheme
    loaded: int
    types: list[Span]
    others: list[Span]


@cache
def image(program: Program) -> Image:
    """A program, analysed."""
    data = built(program).read_bytes()
    elf = Elf(io.BytesIO(data))
    module = goinfo.module_data(elf, goinfo.build_info(elf).go_minor)

    def at(spans: Iterable[Span]) -> list[Span]:
        """The spans of addresses in the file."""
        inside = [(segment.address, segment.offset, segment.size) for segment in elf.segments]
        return [
            (offset + address - start, size)
            for address, size in spans
            for start, offset, length in inside
            if start <= address < start + length
        ]

    types = GoTypes(elf, module)
    root = types.named("v1.PodTemplateSpec", "k8s.io/api/core/v1")
    assert root is not None
    spans, waiting = dict[int, int](), [root.address]
    while waiting:
        address = waiting.pop()
        if address not in spans:
            one = types.at(address)
            spans[address] = 48
            waiting += [*one.parts, *(field.type for field in one.fields)]
            rows = [elf.pointer(address + 56) + 24 * n for n in range(len(one.fields))] if one.kind == "struct" else []
            spans |= dict.fromkeys(rows, 24) | dict.fromkeys(map(elf.pointer, rows), 6)

    magic = b"\xf1\xff\xff\xff\0\0" + bytes((1 if elf.architecture == "amd64" else 4, 8))
    tables = list(elf.search(magic, step=8))
    functions = list(Functions(elf, module).starting_with(("grovemigrator/fork/operator/internal/",)))
    others = [
        (0, 64 + 56 * len(elf.segments)),
        (data.find(b"\xff Go buildinf:"), 256),
        (data.find(b"grovemigrator/fork/operator/internal/utils/kubernetes."), 120),
        *at((table, 72) for table in tables),
        *at((row, 8 * 55) for table in tables for row in elf.pointers_to(table)),
        *at((function.entry, function.end - function.entry) for function in functions),
        *at((module.functions + function.row, 60) for function in functions),
    ]
    loaded = max(segment.offset + segment.size for segment in elf.segments)
    return Image(data, binary.read(io.BytesIO(data)), loaded, at(spans.items()), others)


def outcome(data: bytes) -> OperatorScheme | None:
    """What is read, or nothing where it is refused."""
    try:
        return binary.read(io.BytesIO(data))
    except MigratorError:
        return None


def flipped(program: Program, spans: list[Span], count: int) -> list[OperatorScheme | None]:
    """What is read of a program when one bit of one span is flipped, so many times."""
    data, draw = bytearray(image(program).data), random.Random(12)  # noqa: S311 - the same bits every time
    found = []
    for _ in range(count):
        start, size = draw.choice(spans)
        place, bit = start + draw.randrange(size), 1 << draw.randrange(8)
        data[place] ^= bit
        found.append(outcome(bytes(data)))
        data[place] ^= bit
    return found


@programs
def test_functions_whose_names_mean_nothing_are_refused(program: Program) -> None:
    """Names that were changed, as by garble, leave nothing to recognise the algorithm by."""
    data = image(program).data
    assert outcome(data.replace(b"ComputeHash", b"kQ2zVnPwX1a").replace(b"computeHash", b"Lm9xRtB3cDe")) is None


@programs
def test_a_damaged_bit_is_refused_or_shows(program: Program) -> None:
    """Of 200 single bits flipped in what is read, none gives another algorithm or another layout that we ship.

    A letter of a name, or a pointer to a type of the same size, can give a layout that is not one of ours: no check of
    the types themselves sees that, so such a file is warned about.
    """
    clean = image(program)
    found = flipped(program, clean.types, BITS)
    for one in filter(None, found):
        assert one.recognised == clean.read.recognised
        assert one.layout == clean.read.layout or layouts.name_of(one.layout).startswith("x")
    assert found.count(None) > BITS // 5


@programs
def test_a_damaged_bit_elsewhere_is_refused_or_harmless(program: Program) -> None:
    """A bit flipped in headers, tables of functions or code gives what was there before, or an error of ours."""
    clean = image(program)
    found = flipped(program, clean.others, OTHER_BITS)
    assert {(one.layout == clean.read.layout, one.recognised) for one in filter(None, found)} <= {
        (True, clean.read.recognised)
    }
    assert found.count(None) > OTHER_BITS // 20


@programs
def test_a_program_that_is_cut_off_is_refused(program: Program) -> None:
    """Wherever something is missing that is loaded, it is refused."""
    data, loaded = image(program).data, image(program).loaded
    for length in (10, 64, 5000, loaded // 3, loaded // 2, loaded - 1):
        assert outcome(data[:length]) is None
    assert outcome(data[:loaded]) is not None
