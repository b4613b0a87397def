"""From trees to a plan: what changes, what is left alone, and what is at stake."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.errors import InputError
from migrator.planning.model import Disruption, SetState
from migrator.planning.options import Selection
from migrator.planning.planner import template_digest
from tests.support.builders import DELETION, LATER, World, refusals, warnings


def test_no_sets_make_an_empty_plan() -> None:
    """Without PodCliqueSets nothing is planned, found or at stake, on a dump neither."""
    for is_cluster in (True, False):
        plan = World().plan(is_cluster=is_cluster)
        assert (plan.trees, plan.findings, plan.cluster_disruption) == ((), (), Disruption())


# --- one tree ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("legacy-1.33", "legacy-1.34"),
        ("legacy-1.34", "legacy-1.35"),
        ("legacy-1.35", "legacy-1.34"),
        ("legacy-1.34", "canonical"),
        ("canonical-1.35", "legacy-1.35"),
    ],
)
def test_every_stored_hash_is_translated(source: str, target: str) -> None:
    """After its changes a tree is what the target's operator would have stored, in every place."""
    shape: dict[str, Any] = {"replicas": 2, "maps": True, "progress": ("updateProgress", "rollingUpdateProgress")}
    world = World().grow(scheme=source, **shape)
    decided = world.decide("auto", target)
    concrete = target.replace("canonical", f"canonical-{source[-4:]}") if target == "canonical" else target
    assert (decided.state, decided.source, decided.target) == (SetState.MIGRATE, source, concrete)
    world.apply(decided.changes)
    assert world.values() == World().grow(scheme=concrete, **shape).values()
    again = world.decide("auto", target)
    assert (again.state, again.source, again.changes, again.disruption) == (SetState.DONE, concrete, (), Disruption())


def test_entries_of_a_map_carry_what_identifies_them() -> None:
    """A change of a PodGangMap entry tells the epoch that must stand at its position."""
    entries = [c.identity for c in World().grow(maps=True).decide().changes if c.ref.kind == "PodGangMap"]
    assert entries == [
        ("/spec/entries/0/epoch", "1767323045000000000"),
        ("/spec/entries/1/epoch", "1767323045000000001"),
    ]


def test_a_set_being_deleted_is_skipped() -> None:
    """A terminating set is left alone with its children, and nothing of it is at stake."""
    decided = World().grow().put("PodCliqueSet", "web", "/metadata/deletionTimestamp", LATER).decide()
    assert (decided.state, decided.source, decided.target) == (SetState.SKIPPED, None, "legacy-1.35")
    assert (decided.changes, decided.findings, decided.disruption) == ((), (), Disruption())


def test_a_set_that_was_never_reconciled_is_skipped() -> None:
    """A set without hashes and children gets the next operator's own; its target is concrete all the same."""
    world = World().grow()
    world.objects = [world.pcs]
    world.pcs["status"] = {}
    decided = world.decide("auto", "canonical")
    assert (decided.state, decided.source, decided.target) == (SetState.SKIPPED, None, "canonical-1.35")
    assert decided.findings == ()


def test_a_template_that_go_cannot_decode_is_named() -> None:
    """A value that the operator could not decode ends the plan with the set and the path of the value."""
    world = World().grow().put("PodCliqueSet", "web", "/spec/template/cliques/0/spec/podSpec/containers/0/image", 5)
    with pytest.raises(InputError, match=r"PodCliqueSet default/web: .*cliques\[0\]\.spec\.podSpec\.containers\[0\]"):
        world.plan()


def reorder(template: dict[str, Any]) -> None:
    """Move a container's first key to its end."""
    container = template["cliques"][0]["spec"]["podSpec"]["containers"][0]
    key = next(iter(container))
    container[key] = container.pop(key)


@pytest.mark.parametrize(
    ("edit", "moves"),
    [
        (lambda t: t["cliques"][0]["spec"]["podSpec"]["containers"][0].update(image="x"), True),
        (lambda t: t["cliques"][0].update(labels={"a": "b"}), True),
        (lambda t: t["cliques"][0].update(annotations={"a": "b"}), True),
        (lambda t: t["cliques"][0].update(name="x"), True),
        (lambda t: t["cliques"].reverse(), True),
        (lambda t: t.update(priorityClassName="x"), True),
        (lambda t: t.update(cliqueStartupType="CliqueStartupTypeInOrder"), True),
        (lambda t: t.update(terminationDelay="1h0m0s"), False),
        (lambda t: t["cliques"][0]["spec"].update(replicas=9), False),
        (reorder, False),
    ],
)
def test_the_digest_covers_what_is_hashed(edit: Any, *, moves: bool) -> None:
    """A rerun sees every edit of what is hashed, under any scheme, and no other."""
    world = World().grow()
    before = template_digest(world.snapshot().trees[0].pcs)
    edit(world.pcs["spec"]["template"])
    assert (template_digest(world.snapshot().trees[0].pcs) != before) is moves


# --- the whole cluster ------------------------------------------------------------------------------------------------


def two() -> World:
    """One set that can be migrated, in namespace ``a``, and one that must not, in namespace ``b``."""
    world = World().grow("good", namespace="a").grow("bad", namespace="b")
    world.of("PodCliqueSet", "bad")["status"]["currentRevision"] = "bad-1"
    return world


def test_the_disruption_counts_the_whole_cluster() -> None:
    """What is at stake does not depend on the selection."""
    plan = two().plan(selection=Selection(namespace="a"))
    assert [p.tree.ref.name for p in plan.trees] == ["good"]
    assert (plan.trees[0].disruption.pods, plan.cluster_disruption.pods) == (6, 12)


def test_a_narrowed_plan_names_the_others_that_need_it() -> None:
    """The operator serves the whole cluster, so sets left out by -n or -l are counted."""
    plan = two().plan(selection=Selection(namespace="a"))
    (finding,) = plan.findings
    assert warnings([finding]) == [("GM-201", "bad", None)]
    assert finding.message.startswith("1 PodCliqueSet outside the selection also needs this migration")


def test_a_narrowed_plan_names_nobody_when_the_others_are_done() -> None:
    """Sets that are done, or skipped, need nothing."""
    world = World().grow("good", namespace="a").grow("done", namespace="b", scheme="legacy-1.35").grow("gone")
    world.put("PodCliqueSet", "gone", DELETION, LATER)
    assert world.plan(selection=Selection(namespace="a")).findings == ()


def test_refused_sets_can_be_skipped() -> None:
    """--skip-refused leaves refused sets wholly alone, keeps what is at stake, and migrates the others."""
    plan = two().plan(skip_refused=True)
    by_name = {p.tree.ref.name: p for p in plan.trees}
    assert {name: p.state for name, p in by_name.items()} == {"good": SetState.MIGRATE, "bad": SetState.SKIPPED}
    bad = by_name["bad"]
    assert (bad.changes, refusals(bad.findings), bad.disruption.pods) == ((), [], 6)
    assert warnings(bad.findings) == [("GM-120", "bad", "/status/currentRevision")]


def test_on_a_dump_what_needs_a_cluster_is_not_checked() -> None:
    """A dump says which guards could not be asked."""
    plan = World().grow().plan(is_cluster=False)
    assert [unchecked.code for unchecked in plan.not_checked] == ["GM-116", "GM-122", "GM-202", "GM-205"]
    assert plan.findings == ()


def test_trees_may_have_different_sources() -> None:
    """Each set is explained by itself."""
    world = World().grow("new", scheme="legacy-1.35").grow("old", scheme="legacy-1.33")
    assert [(p.tree.ref.name, p.source, p.state) for p in world.plan().trees] == [
        ("new", "legacy-1.35", SetState.DONE),
        ("old", "legacy-1.33", SetState.MIGRATE),
    ]
