"""Real operators are recognised as what the release table and the lab say of them, each by its own program."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from migrator.errors import Refused
from migrator.releases import program, table
from tests.e2e.lab import builds
from tests.e2e.lab.builds import BUILDS

pytestmark = pytest.mark.upgrade

#: By build; those of pull requests and of other libraries are not in the table.
SCHEMES: Final = {
    **{build.name: build.scheme for build in BUILDS.values()},
    **{release.name: release.scheme.name for release in table.releases()},
}
#: What is known and cannot be migrated to, and a part of the sentence.
REFUSED: Final = {
    "pr-710-1a8393a7": "ControllerRevisions",
    "v0.1.0-alpha.10-rc1": "puts the hash into object names",
}


def read(name: str) -> program.Operator:
    """What is read of a build's program; skips without one."""
    path = (builds.directory() or Path("/nonexistent")) / name / builds.REPOSITORY
    if not path.exists():
        pytest.skip(f"not run: no program of {name} in {builds.VARIABLE}")
    return program.read(path.read_bytes())


@pytest.mark.parametrize("name", SCHEMES)
def test_a_program_says_what_it_hashes_with(name: str) -> None:
    """The scheme of every release and build is that of its program, without a doubt."""
    found = read(name)
    assert found.scheme.name == SCHEMES[name]
    assert found.doubt == ""


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_migrated_is_refused(name: str) -> None:
    """It is understood, and refused by what it does."""
    with pytest.raises(Refused, match=REFUSED[name]):
        read(name)
