"""From a tree's plan to its table: what a revert must leave, and what verification compares with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from migrator.planning.model import SetHashes
from migrator.planning.planner import template_digest
from migrator.run.record import pod_id, pods_of, table_of
from tests.support.builders import LATER, World


def hashes(world: World, scheme: str) -> SetHashes:
    """What a scheme gives the set."""
    found = world.hashes(scheme)
    return SetHashes(found.generation_hash, found.pod_template_hashes)


def test_the_table_has_both_schemes_hashes_and_the_spec() -> None:
    """All that a rerun or a revert needs, even if the spec changes."""
    world = World().grow(namespace="ns")
    world.pcs["metadata"]["generation"] = world.pcs["status"]["observedGeneration"] = 3
    plan = world.decide()
    table = table_of(plan)
    assert (table.namespace, table.name, table.uid, table.generation) == ("ns", "web", plan.tree.ref.uid, 3)
    assert (table.source, table.target) == ("legacy-1.34", "legacy-1.35")
    assert (table.source_hashes, table.target_hashes) == (hashes(world, table.source), hashes(world, table.target))
    assert table.template_digest == template_digest(plan.tree.pcs)


def test_values_that_were_the_targets_before_are_kept() -> None:
    """They are not ours to turn back; values of the source, and what both schemes give alike, are not listed."""
    world = World().grow()
    new = hashes(world, "legacy-1.35")
    world.of("Pod", "web-0-front-1")["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] = new.templates["front"]
    world.pcs["status"]["currentGenerationHash"] = new.generation
    kept = table_of(world.decide()).kept
    assert [(value.ref.kind, value.ref.name, value.field, value.value) for value in kept] == [
        ("Pod", "web-0-front-1", "/metadata/labels/grove.io~1pod-template-hash", new.templates["front"]),
        ("PodCliqueSet", "web", "/status/currentGenerationHash", new.generation),
    ]
    pod = world.of("Pod", "web-0-front-1")["metadata"]
    assert [value.ref.uid for value in kept] == [pod["uid"], world.pcs["metadata"]["uid"]]


def test_the_pods_that_live_are_recorded_by_their_uids() -> None:
    """Per PodClique: 8 bytes of each non-terminating pod's uid, sorted; a PodClique without one is there too."""
    world = World().grow(pods=3)
    world.of("Pod", "web-0-front-1")["metadata"]["deletionTimestamp"] = LATER
    found = pods_of(world.snapshot().trees[0])["web-0-front"]
    assert found == tuple(sorted(pod_id(world.of("Pod", f"web-0-front-{n}")["metadata"]["uid"]) for n in (0, 2)))
    assert [len(one) for one in found] == [16, 16]
    world.objects = [item for item in world.objects if item["kind"] != "Pod"]
    assert pods_of(world.snapshot().trees[0])["web-0-front"] == ()


@pytest.mark.parametrize("leaves", [("PodClique", "web-0-sg-1-work"), ("PodCliqueScalingGroup", "web-0-sg")])
def test_pods_that_go_whatever_happens_are_not_recorded(leaves: tuple[str, str]) -> None:
    """A PodClique that is being deleted takes its pods along, alone or with its scaling group."""
    world = World().grow().put(*leaves, "/metadata/deletionTimestamp", LATER)
    (tree,) = world.snapshot().trees
    found = set(pods_of(tree))
    assert "web-0-front" in found
    assert "web-0-sg-1-work" not in found


def test_a_tree_without_a_source_has_no_table() -> None:
    """Nothing explains it, so nothing of it can be translated."""
    with pytest.raises(ValueError, match="no source"):
        table_of(replace(World().grow().decide(), source=None))
