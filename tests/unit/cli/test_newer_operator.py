"""A cluster whose operator is newer than the table of releases: its hashes are found, and it can be migrated back."""

from __future__ import annotations

import pytest

from migrator.hashing.schemes import by_name
from migrator.kinds import POD_CLIQUE_SETS
from testbed.controlplane.trees import GROVE
from tests.support.command_line import TO, Invoke
from tests.support.memory_site import Site
from tests.support.translation import new_hashes, translated

NEWER = "legacy-1.37"


@pytest.fixture
def site(invoke: Invoke) -> Site:
    """The example, as an operator of legacy-1.37 would have left it."""
    found = Site()
    words = new_hashes(found.store.everything(POD_CLIQUE_SETS), by_name("legacy-1.34"), by_name(NEWER))
    for item in translated(dict(enumerate(found.store.everything(*GROVE))), words).values():
        found.store.put(item)
    found.install("v0.1.0-alpha.99")
    invoke.on(found.store)
    return found


@pytest.mark.parametrize("source", [(), ("--from", NEWER)])
def test_it_is_migrated_and_verified(source: tuple[str, ...], site: Site, invoke: Invoke) -> None:
    """``auto`` finds a scheme that no release uses; `verify` asks for the target alone, once its operator runs."""
    invoke("run", *source, *TO, "--stop-operator")
    sets = site.store.everything(POD_CLIQUE_SETS)
    assert set(site.generations) < set(new_hashes(sets, by_name("legacy-1.34"), by_name("legacy-1.35")).values())
    site.install(TO[1])
    invoke("verify", *TO, "--after-upgrade")


def test_a_migration_to_a_scheme_without_release_is_verified(site: Site, invoke: Invoke) -> None:
    """The image of its operator is named, as no tag can say it."""
    target = ("--to", "legacy-1.36", "--target-image", "example.test/grove-operator:v0.1.0-alpha.100")
    invoke("run", *target, "--stop-operator")
    site.install("v0.1.0-alpha.100")
    invoke("verify", *target, "--after-upgrade")


def test_no_release_of_the_table_is_its_own_or_newer(site: Site, invoke: Invoke) -> None:
    """Neither does a plan name one for its hashes, nor the first look an older operator as an upgrade."""
    assert site.replicas == 1
    said = " ".join(invoke("plan", *TO).out.split())
    assert f"Stored hashes: {NEWER} (no known release). Target: legacy-1.35 (v0.1.0-alpha.11)." in said
    said = invoke("plan").out
    assert "No newer release that changes the hashes is known." in said
    assert said.endswith("next      grove-migrator releases\n")
