"""Real operators are recognised as what the release table says of them, each by its own program."""

from __future__ import annotations

import pytest

from migrator.errors import Refused
from migrator.releases import program
from migrator.releases.program import Operator
from migrator.releases.table import Release, releases
from tests.e2e.lab import builds

pytestmark = pytest.mark.upgrade

#: Builds of pull requests and of other libraries, which the table does not have.
OTHERS = {
    "v0.1.0-alpha.3-k8s-1.34": "legacy-1.34",
    "pr-778": "legacy-1.35",
    "main-hooks": "legacy-1.35",
    "next-0.37": "legacy-1.37",
    "next-0.37-hooks": "legacy-1.37",
}
#: What is known and cannot be migrated to, and a part of the sentence.
REFUSED = {"pr-710": "ControllerRevisions", "v0.1.0-alpha.10-rc1": "puts the hash into object names"}


def read(name: str) -> Operator:
    """What is read of the first build whose directory begins with a name; skips without one."""
    home = builds.directory()
    pattern = f"{name}-*" if name.startswith("pr-") else name  # a pull request's directory has its commit behind it
    found = sorted(home.glob(f"{pattern}/grove-operator")) if home is not None else []
    if not found:
        pytest.skip(f"not run: no program of {name} in {builds.VARIABLE}")
    return program.read(found[0].read_bytes())


@pytest.mark.parametrize("release", releases(), ids=lambda release: release.name)
def test_the_table_says_what_the_program_says(release: Release) -> None:
    """The scheme of every release in the table is that of its program, without a doubt."""
    found = read(release.name)
    assert (found.scheme, found.doubt) == (release.scheme, "")


@pytest.mark.parametrize("name", OTHERS)
def test_other_builds_are_recognised_too(name: str) -> None:
    """A rebuild with newer libraries under an old tag, a pull request, and the likely next step."""
    found = read(name)
    assert (found.scheme.name, found.doubt) == (OTHERS[name], "")


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_migrated_is_refused(name: str) -> None:
    """It is understood, and refused by what it does."""
    with pytest.raises(Refused, match=REFUSED[name]):
        read(name)
