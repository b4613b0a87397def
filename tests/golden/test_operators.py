"""Operators built by us: what is read of the binary is what the program itself says and computes."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from migrator.errors import InputError, Refused
from migrator.exact_json import loads
from migrator.hashing import layouts
from migrator.hashing.schemes import Scheme
from migrator.operators import binary
from migrator.operators.schemefile import OperatorScheme
from testbed.oracle import MINORS
from tests.golden.client import random_lines
from tests.golden.compare import UNKNOWABLE, set_hashes
from tests.golden.operator_build import LOCAL, NEWEST_GO, OLD, OLDEST, Program, built

pytestmark = pytest.mark.differential

#: One of everything, and every minor once; then every Go, machine, way of linking, and minor.
BOUNDED = [
    Program("1.33", OLDEST, "arm64", tags=("canonical",)),
    Program("1.34", stripped=False),
    Program("1.35", tags=("canonical",)),
    Program("1.36", machine="arm64", tags=("canonical",)),
    Program("1.37", NEWEST_GO),
]
FULL = [
    *(
        Program("1.34", go, machine, stripped=stripped, tags=tags)
        for go, machine, stripped, tags in itertools.product(
            (OLDEST, OLD, LOCAL, NEWEST_GO), ("amd64", "arm64"), (True, False), ((), ("canonical",))
        )
    ),
    *(Program(minor, tags=tags) for minor in MINORS for tags in ((), ("canonical",))),
    Program("1.35", external=True),
]
SETS = 40


def read(program: Program) -> OperatorScheme:
    """What is read of a program."""
    with built(program).open("rb") as file:
        return binary.read(file)


def compare_hashes(executable: Path, scheme: Scheme) -> None:
    """The program's hashes of random sets are ours over the layout that was read of its file."""
    lines = random_lines("1.35", 12, SETS, sets=True)
    printed = subprocess.run([executable], input=b"\n".join(lines) + b"\n", check=True, capture_output=True)
    compared = 0
    for line, answer in zip(lines, printed.stdout.splitlines(), strict=True):
        theirs: dict[str, Any] | None = json.loads(answer)
        ours = set_hashes(loads(line)["pcs"], scheme.name)
        if theirs is not None and ours != UNKNOWABLE:
            assert ours == theirs
            compared += 1
    assert compared > SETS // 2


@pytest.mark.parametrize(
    "program",
    [*BOUNDED, *(pytest.param(one, marks=pytest.mark.slow) for one in FULL if one not in BOUNDED)],
    ids=str,
)
def test_a_program_is_read_as_it_is(program: Program) -> None:
    """The layout is that of reflection, the algorithm is recognised, and hashes over that layout are the program's."""
    found = read(program)
    here = built(Program(program.minor, tags=program.tags))
    printed = subprocess.run([here, "layout"], check=True, capture_output=True)
    assert found.layout == layouts.parse(json.loads(printed.stdout)["types"])
    assert found.recognised.algorithm == ("canonical" if "canonical" in program.tags else "legacy")
    assert not found.recognised.hash_in_names
    assert not found.recognised.pod_gang_maps
    assert found.labels["platform"] == f"linux/{program.machine}"
    assert found.warnings == ()
    if program.machine == "amd64":
        scheme = Scheme(found.recognised.algorithm, layouts.adopt(found.layout, f"x{program.minor}"))
        compare_hashes(built(program), scheme)


@pytest.mark.parametrize(
    ("tags", "refusal"),
    [
        (("altered", "called"), "changed, which is not known there"),
        (("altered", "inlined"), "changed, which is not known there"),
        (("altered", "outside"), "finished, which is not known there"),
        (("newname",), "unknown functions around the hash .TemplateHashV2"),
        (("canonical", "onehash"), r"lacks known functions around the hash \(ComputeHashLegacy\)"),
        (("othercaller",), "a hash is made by .*podcliqueset.named"),
    ],
    ids=lambda one: "-".join(one) if isinstance(one, tuple) else "",
)
def test_an_altered_algorithm_is_not_recognised(tags: tuple[str, ...], refusal: str) -> None:
    """A function more between template and hash, inlined or not, of the operator's own or not, refuses by name."""
    with pytest.raises(InputError, match=refusal):
        read(Program(tags=tags))


def test_revisions_are_refused_by_name() -> None:
    """An operator that keeps ControllerRevisions is understood, and refused."""
    with pytest.raises(Refused, match="ControllerRevisions"):
        read(Program(tags=("nohash",)))


def test_the_flags_are_recognised() -> None:
    """Names with the hash in them and PodGangMaps show."""
    names, maps = read(Program(tags=("gangnames",))).recognised, read(Program(tags=("gangmaps",))).recognised
    assert (names.hash_in_names, names.pod_gang_maps) == (True, True)
    assert (maps.hash_in_names, maps.pod_gang_maps) == (False, True)
