"""A cluster whose operator is newer than the table of releases: its hashes are found, and it can be migrated back."""

from __future__ import annotations

import pytest

from migrator.hashing.schemes import by_name
from migrator.kinds import DEPLOYMENTS, POD_CLIQUE_SETS
from testbed import operator_installation as installation
from testbed.controlplane.trees import GROVE
from tests.support.command_line import TO, Invoke
from tests.support.memory_site import Site
from tests.support.translation import new_hashes, translated

NEWER = "legacy-1.37"
IMAGE = installation.image("v0.1.0-alpha.99")


def hashes(site: Site) -> list[str]:
    """The sets' own hashes under the target, computed from their specs."""
    words = new_hashes(site.store.everything(POD_CLIQUE_SETS), by_name("legacy-1.34"), by_name("legacy-1.35"))
    return [word for word in words.values() if word in site.generations]


@pytest.fixture
def site(invoke: Invoke) -> Site:
    """The example, as an operator of legacy-1.37 would have left it."""
    found = Site()
    found.replace_crds(TO[1])  # from alpha.9 on they have the same kinds
    sets = found.store.everything(POD_CLIQUE_SETS)
    words = new_hashes(sets, by_name("legacy-1.34"), by_name(NEWER))
    everything = enumerate(found.store.everything(*GROVE))
    for item in translated(dict(everything), words).values():
        found.store.put(item)
    found.store.edit(
        DEPLOYMENTS,
        "grove-system",
        "grove-operator",
        lambda body: body["spec"]["template"]["spec"]["containers"][0].update(image=IMAGE),
    )
    found.store.put(installation.pod(IMAGE))
    found.replace_crds(NEWER)
    invoke.on(found.store)
    return found


def test_it_is_migrated_without_from(site: Site, invoke: Invoke) -> None:
    """``auto`` finds a scheme that no release uses."""
    invoke("run", *TO, "--stop-operator")
    assert len(hashes(site)) == len(site.generations)


@pytest.mark.parametrize("source", [(), ("--from", NEWER)])
def test_the_migration_is_verified(source: tuple[str, ...], site: Site, invoke: Invoke) -> None:
    """Whatever the source was, `verify` asks for the target alone, once its operator runs."""
    invoke("run", *source, *TO, "--stop-operator")
    site.install(TO[1], 1)
    invoke("verify", *TO, "--after-upgrade")


def test_a_migration_to_a_scheme_without_release_is_verified(site: Site, invoke: Invoke) -> None:
    """The image of its operator is named, as no tag can say it."""
    image = installation.image("v0.1.0-alpha.100")
    target = ("--to", "legacy-1.36", "--target-image", image)
    invoke("run", *target, "--stop-operator")
    site.store.put(installation.deployment(image, replicas=1, observed=True))
    site.store.put(installation.pod(image))
    invoke("verify", *target, "--after-upgrade")


def test_its_plan_names_no_release_for_its_hashes(site: Site, invoke: Invoke) -> None:
    """No known release computes them."""
    assert site.replicas == 1
    said = " ".join(invoke("plan", *TO).out.split())
    assert f"Stored hashes: {NEWER} (no known release). Target: legacy-1.35 (v0.1.0-alpha.11)." in said


def test_a_wrong_from_is_told_the_right_one(site: Site, invoke: Invoke) -> None:
    """The scheme is found and named, although the set is refused."""
    assert site.replicas == 1
    (refusal, *_) = invoke("plan", *TO, "--from", "v0.1.0-alpha.9", "-o", "json").json["refusals"]
    assert refusal["remedy"] == f"leave out --from, or give --from {NEWER}"


def test_no_release_of_the_table_is_newer(site: Site, invoke: Invoke) -> None:
    """The first look does not offer the way back to an older operator as an upgrade."""
    assert site.replicas == 1
    said = invoke("plan").out
    assert "No newer release that changes the hashes is known." in said
    assert said.endswith("next      grove-migrator releases\n")
