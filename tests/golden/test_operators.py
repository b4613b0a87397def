"""Operators built by us, with Go's own linker: the scheme of each is read. ``tests/unit/releases`` damages programs."""

from __future__ import annotations

import pytest

from migrator.errors import Refused
from migrator.hashing.schemes import Scheme
from migrator.releases import program
from testbed.oracle import MINORS
from tests.golden.operator_build import NEWEST_GO, OLDEST, Program, built

pytestmark = pytest.mark.differential

ARM64 = Program("1.35", machine="arm64", stripped=False, tags=("canonical",))
PROGRAMS = [*(Program(minor) for minor in MINORS), Program("1.37", tags=("canonical",)), ARM64]
SLOW = [Program("1.34", go, machine) for go in (OLDEST, NEWEST_GO) for machine in ("amd64", "arm64")]


@pytest.mark.parametrize("one", [*PROGRAMS, *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)], ids=str)
def test_the_scheme_is_read(one: Program) -> None:
    """Stripped or not, of any machine, by any Go: the libraries that were linked and the functions are recognised."""
    found = program.read(built(one).read_bytes())
    algorithm = "canonical" if "canonical" in one.tags else "legacy"
    assert found.scheme == Scheme(algorithm, one.minor)
    assert found.doubt == ""


def test_what_cannot_be_migrated_is_refused() -> None:
    """Names with the hash in them show also where the function was inlined."""
    with pytest.raises(Refused, match="puts the hash into object names"):
        program.read(built(Program(tags=("gangnames",))).read_bytes())
