"""Real operators are recognised as what the release table says of them, each by its own binary."""

from __future__ import annotations

import pytest

from migrator.errors import Refused
from migrator.hashing import layouts, schemes
from migrator.hashing.schemes import Release
from migrator.operators import binary
from migrator.operators.schemefile import OperatorScheme
from tests.e2e.lab import builds

pytestmark = pytest.mark.upgrade

#: Builds of pull requests and other libraries, which the table does not have: scheme, PodGangMaps.
OTHERS = {"v0.1.0-alpha.3-k8s-1.34": ("legacy-1.34", False), "pr-778": ("legacy-1.35", True)}
REVISIONS = "pr-710"


def read(name: str) -> OperatorScheme:
    """What is read of the first build whose directory begins with a name; skips without one."""
    home = builds.directory()
    pattern = f"{name}-*" if name.startswith("pr-") else name  # a pull request's directory has its commit behind it
    found = sorted(home.glob(f"{pattern}/grove-operator")) if home is not None else []
    if not found:
        pytest.skip(f"not run: no binary of {name} in {builds.VARIABLE}")
    with found[0].open("rb") as file:
        return binary.read(file)


@pytest.mark.parametrize("release", schemes.releases(), ids=lambda release: release.name)
def test_the_table_says_what_the_binary_says(release: Release) -> None:
    """Scheme, flags and commit of every release in the table are those of its binary."""
    found = read(release.name)
    assert f"{found.recognised.algorithm}-{layouts.name_of(found.layout)}" == release.scheme.name
    assert not found.recognised.hash_in_names
    assert not found.recognised.pod_gang_maps
    assert release.commit
    assert found.labels["commit"].startswith(release.commit)
    assert not found.warnings


@pytest.mark.parametrize("name", OTHERS)
def test_other_builds_are_recognised_too(name: str) -> None:
    """A rebuild with newer libraries under an old tag, and a pull request, are read as what they are."""
    found = read(name)
    scheme = f"{found.recognised.algorithm}-{layouts.name_of(found.layout)}"
    assert (scheme, found.recognised.pod_gang_maps) == OTHERS[name]


def test_controller_revisions_are_refused_by_name() -> None:
    """The operator of pull request 710 is understood, and refused."""
    with pytest.raises(Refused, match="ControllerRevisions"):
        read(REVISIONS)
