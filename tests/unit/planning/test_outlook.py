"""One plan for each scheme that a release speaks, and sets that somebody else wrote."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migrator.planning.model import SetState, Severity
from migrator.planning.options import PlanOptions
from migrator.planning.planner import Target, make_plan, outlook
from tests.support.builders import LABEL, NOW, World, clique, hashes_of, refusals


def targets(world: World, running: str | None = None) -> list[Target]:
    """Every possible target."""
    return list(outlook(world.snapshot(), PlanOptions(describes=True), now=NOW, running=running))


def test_every_scheme_that_a_release_speaks_is_planned_for() -> None:
    """Three rows, without the schemes of builds that nobody runs; the one that runs is marked."""
    found = targets(World().grow(), running="v0.1.0-alpha.9")
    assert [(t.scheme.name, t.releases[0], t.releases[-1], t.running) for t in found] == [
        ("legacy-1.33", "v0.1.0-alpha.1", "v0.1.0-alpha.3", False),
        ("legacy-1.34", "v0.1.0-alpha.4", "v0.1.0-alpha.9", True),
        ("legacy-1.35", "v0.1.0-alpha.10", "v0.1.0-alpha.12-rc1", False),
    ]
    assert [t.plan.cluster_disruption.pods for t in found] == [6, 0, 6]


@pytest.mark.parametrize(("source", "target"), [("v0.1.0-alpha.3", "v0.1.0-alpha.11"), ("legacy-1.35", "legacy-1.35")])
def test_a_wrong_source_is_one_line(source: str, target: str) -> None:
    """What the sets do hold is named, nothing else is reported, and no pod is to be deleted."""
    world = World().grow("one").grow("two").put("PodCliqueSet", "one", "/metadata/generation", 2)
    plan = world.plan(source, target)
    for tree in plan.trees:
        (finding,) = tree.findings
        assert (finding.code, finding.severity, tree.state) == ("GM-101", Severity.REFUSAL, SetState.REFUSED)
        assert "holds the hashes of legacy-1.34 (v0.1.0-alpha.4 to v0.1.0-alpha.9)" in finding.message
        assert finding.remedy == "leave out --from, or give --from legacy-1.34"
        assert (tree.source, tree.changes, tree.disruption.pods, tree.remaining.pods) == (None, (), 6, 6)
    assert world.plan("v0.1.0-alpha.9", "v0.1.0-alpha.11").trees[1].findings == ()


def test_a_source_that_nothing_contradicts_is_believed() -> None:
    """Where no scheme explains the set, its own findings are reported."""
    world = World().grow()
    world.edit("front", "app:2")
    tree = world.decide("v0.1.0-alpha.9", "v0.1.0-alpha.11")
    assert ("GM-101", "web", "/status/currentGenerationHash") in refusals(tree.findings)
    assert "holds the hashes of" not in tree.findings[0].message


@pytest.mark.parametrize("source", ["auto", "v0.1.0-alpha.11"])
def test_nothing_refuses_between_releases_that_hash_alike(source: str) -> None:
    """alpha.11 to alpha.12-rc1 in mid-update: there is nothing to write, so there is nothing to hide."""
    world = World().grow(scheme="legacy-1.35", maps=True)
    del world.pcs["status"]["updateProgress"]["updateEndedAt"]
    world.put("Pod", "web-0-front-0", LABEL)
    world.put("PodClique", "web-0-sg-0-work", LABEL)
    world.of("PodClique", "web-0-sg-1-work")["metadata"]["deletionTimestamp"] = "2026-01-02T04:00:00Z"
    (tree,) = world.plan(source, "v0.1.0-alpha.12-rc1").trees
    assert (tree.state, tree.changes, refusals(tree.findings)) == (SetState.DONE, (), [])
    assert {finding.code for finding in tree.findings} == {"GM-101", "GM-102"}
    for finding in tree.findings:
        assert finding.message.endswith("; nothing is written to this set, so this only warns")


# --- what nobody knows of ---------------------------------------------------------------------------------------------


def hidden(world: World, place: str) -> None:
    """Keep the source's hash of clique ``front`` where no known operator does."""
    hashes = hashes_of(world.of("PodCliqueSet", "web"), "legacy-1.34")
    value = hashes.pod_template_hashes["front"]
    if place == "pod":
        world.put("Pod", "web-0-front-0", "/metadata/annotations", {"grove.io/template": value})
    elif place == "set":
        world.put("PodCliqueSet", "web", "/status/history", [{"hash": hashes.generation_hash}])
    else:
        labels = {"app.kubernetes.io/part-of": "web"} if place == "owned" else {}
        meta = {"name": "r", "namespace": "default", "uid": "u-r", "labels": labels}
        world.objects.append({"kind": "PodCliqueRevision", "metadata": meta, "data": {"hash": value}})


@pytest.mark.parametrize(
    ("place", "field"),
    [
        ("pod", "/metadata/annotations/grove.io~1template"),
        ("set", "/status/history/0/hash"),
        ("owned", "/data/hash"),
        ("nobody's", "/data/hash"),
    ],
)
def test_a_hash_in_an_unknown_place_refuses_its_set(place: str, field: str) -> None:
    """An operator that nobody has read cannot be migrated half: object and JSON Pointer are named."""
    world = World().grow().grow("other", cliques=[clique("front", image="other:1"), clique("work", image="other:1")])
    hidden(world, place)
    plan = world.plan()
    by_name = {tree.tree.ref.name: tree for tree in plan.trees}
    assert [(code, found) for code, _, found in refusals(by_name["web"].findings)] == [("GM-136", field)]
    assert by_name["other"].state is SetState.MIGRATE
    assert world.plan(target="legacy-1.34").trees[1].state is SetState.DONE, "nothing is written, so nothing refuses"


def test_a_hash_of_another_sets_object_refuses_that_set_only() -> None:
    """Two sets of one template have the same hashes: what is labelled as one's does not refuse the other."""
    world = World().grow("one").grow("two")
    value = hashes_of(world.of("PodCliqueSet", "one"), "legacy-1.34").pod_template_hashes["front"]
    world.of("Pod", "one-0-front-0")["metadata"]["annotations"] = {"grove.io/template": value}
    states = {tree.tree.ref.name: tree.state for tree in world.plan().trees}
    assert states == {"one": SetState.REFUSED, "two": SetState.MIGRATE}


@pytest.mark.parametrize("describes", [True, False])
def test_a_kind_that_may_not_be_listed_refuses_a_run(*, describes: bool) -> None:
    """What could not be searched refuses a run, unless it is allowed, and warns in a plan."""
    snapshot = replace(World().grow().snapshot(), unlisted=("podgangs.scheduler.grove.io",))
    plan = make_plan(snapshot, PlanOptions(target="legacy-1.35", describes=describes), now=NOW)
    (finding,) = plan.findings
    assert (finding.code, finding.severity is Severity.REFUSAL) == ("GM-137", not describes)
    allowed = PlanOptions(target="legacy-1.35", allow=frozenset({"GM-137"}))
    assert refusals(make_plan(snapshot, allowed, now=NOW).findings) == []
    assert make_plan(snapshot, PlanOptions(target="legacy-1.34"), now=NOW).findings == ()
