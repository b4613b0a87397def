"""Properties of plans for families of any shape, under any two schemes."""

from __future__ import annotations

import copy
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from migrator.hashing import schemes
from migrator.planning.model import SetState
from migrator.planning.options import PlanOptions
from migrator.planning.planner import make_plan, make_revert
from tests.support.builders import OLD, World, clique

SCHEMES = [scheme.name for scheme in schemes.all_schemes()]
ORDERS = st.permutations(["a", "b", "c"])


@st.composite
def families(draw: st.DrawFn) -> tuple[World, str, str]:
    """A family of any shape under any scheme, some of whose values are the target's already, and both schemes."""
    source = draw(st.sampled_from(SCHEMES))
    target = draw(st.sampled_from([name for name in SCHEMES if name != source]))
    names = draw(st.sampled_from([["a"], ["a", "b"], ["a-front", "work", "front"]]))
    grouped = [name for name in names if draw(st.booleans())]
    world = World().grow(
        cliques=[clique(name, containers=draw(ORDERS)) for name in names],
        groups={"sg": grouped} if grouped else {},
        scheme=source,
        replicas=draw(st.integers(0, 2)),
        group_replicas=draw(st.integers(0, 2)),
        pods=draw(st.integers(0, 2)),
        progress=draw(st.sampled_from([(), ("updateProgress",), ("rollingUpdateProgress", "updateProgress")])),
        on_delete=draw(st.booleans()),
        startup=draw(st.sampled_from([None, "CliqueStartupTypeInOrder"])),
        maps=draw(st.booleans()),
    )
    if world.pcs["spec"].get("updateStrategy"):
        for pod in world.all("Pod"):
            if draw(st.integers(0, 3)) == 0:
                pod["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] = OLD
    changes = world.decide(source, target).changes[:-1]
    world.apply(change for change in changes if draw(st.integers(0, 4)) == 0)
    return world, source, target


BOUNDED = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@BOUNDED
@given(families(), st.data())
def test_a_migration_can_stop_anywhere_and_be_finished_or_undone(
    family: tuple[World, str, str], data: st.DataObject
) -> None:
    """After any part of the changes, in order, a rerun plans just the rest and a revert restores the original."""
    world, source, target = family
    before, tables = world.values(), world.tables(source, target)
    plan = world.decide(source, target)
    assert plan.state in {SetState.MIGRATE, SetState.DONE}
    for change in plan.changes:
        assert change.old == before[change.ref.kind, change.ref.name, change.field]
        assert change.new != change.old
    written = data.draw(st.integers(0, len(plan.changes)))
    world.apply(plan.changes[:written])

    undone = world.copy()
    if tables:
        undone.apply(undone.revert(source, target, tables=tables).trees[0].changes)
        assert undone.values() == before

    rerun = world.decide(source, target, tables=tables)
    assert rerun.changes == plan.changes[written:]
    world.apply(rerun.changes)
    finished = world.decide(source, target, tables=tables)
    assert (finished.state, finished.changes) == (SetState.DONE, ())
    new = world.hashes(target)
    assert set(world.values().values()) <= {OLD, new.generation_hash, *new.pod_template_hashes.values()}
    touched = {(c.ref.kind, c.ref.name, c.field) for c in plan.changes}
    assert {key for key, value in world.values().items() if value != before[key]} == touched


@BOUNDED
@given(families())
def test_planning_changes_nothing(family: tuple[World, str, str]) -> None:
    """A plan is a function of what was read: the same twice, and the objects stay as they are."""
    world, source, target = family
    raw, snapshot = copy.deepcopy(world.objects), world.snapshot()
    options = PlanOptions(source=source, target=target)
    first = make_plan(snapshot, options)
    assert first == make_plan(replace(snapshot), options)
    make_revert(snapshot, options, tables={})
    assert world.objects == raw
