"""Plans for families of any shape, under any two schemes, and in every ordinary state."""

from __future__ import annotations

import copy
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from migrator.hashing import schemes
from migrator.planning.model import SetState
from migrator.planning.planner import make_plan, plan_revert
from tests.support.builders import LATER, OLD, World, clique, options_of

SCHEMES = [scheme.name for scheme in schemes.all_schemes()]
ORDERS = st.permutations(["a", "b", "c"])


def one_at_zero(world: World) -> None:
    """A clique that an autoscaler took to zero, and the update that never ends because of it."""
    for one in world.all("PodClique")[-1:]:
        world.at_zero(one["metadata"]["name"])
    world.pcs["status"]["updateProgress"] = {"updateStartedAt": LATER, "currentlyUpdating": []}


def all_at_zero(world: World) -> None:
    """Everything at zero for the night: groups without PodCliques, standalone PodCliques without pods."""
    for group in world.all("PodCliqueScalingGroup"):
        group["spec"]["replicas"] = 0
    world.remove(*(one["metadata"]["name"] for one in world.all("Pod")))
    for one in world.all("PodClique"):
        name = one["metadata"]["name"]
        world.remove(name) if "-sg-" in name else world.at_zero(name)


def scaled_out(world: World) -> None:
    """An autoscaler wants one pod more, which is not there yet."""
    for one in world.all("PodClique")[:1]:
        one["spec"]["replicas"] += 1


def never_ready(world: World) -> None:
    """Pods that wait for GPUs since the set was made: no current hashes yet."""
    for one in world.all("PodClique"):
        one["status"] |= {"currentPodCliqueSetGenerationHash": None, "readyReplicas": 0}
        del one["status"]["currentPodTemplateHash"]
    for pod in world.all("Pod"):
        pod["status"] = {"phase": "Pending"}


def failed_pods(world: World) -> None:
    """Evicted pods that nobody has removed."""
    for pod in world.all("Pod")[:2]:
        pod["status"] = {"phase": "Failed"}


def behind(world: World) -> None:
    """alpha.9 leaves the generation hash of grouped PodCliques behind (all PodCliques, where there are no groups)."""
    cliques = world.all("PodClique")
    for one in [one for one in cliques if "-sg-" in one["metadata"]["name"]] or cliques:
        one["status"]["currentPodCliqueSetGenerationHash"] = OLD


#: Ordinary states of a healthy set, none of which refuses; first that in which the operator leaves it.
STATES = (lambda _: None, one_at_zero, all_at_zero, scaled_out, never_ready, failed_pods, behind)


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
        startup=draw(st.sampled_from([None, "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"])),
        maps=draw(st.booleans()),
    )
    draw(st.sampled_from(STATES))(world)
    if world.pcs["spec"].get("updateStrategy"):
        for pod in world.all("Pod"):
            if draw(st.integers(0, 3)) == 0:
                pod["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] = OLD
    changes = world.decide(source, target).changes[:-1]
    world.apply(change for change in changes if draw(st.integers(0, 4)) == 0)
    return world, source, target


def examples(number: int) -> settings:
    return settings(max_examples=number, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@examples(40)
@given(families(), st.data())
def test_a_migration_can_stop_anywhere_and_be_finished_or_undone(
    family: tuple[World, str, str], data: st.DataObject
) -> None:
    """After any part of the changes, in order, a rerun plans just the rest and a revert restores the original."""
    world, source, target = family
    before = world.values()
    plan = world.decide(source, target)
    assert plan.state in {SetState.MIGRATE, SetState.DONE}, plan.findings
    for change in plan.changes:
        assert change.old == before[change.ref.kind, change.ref.name, change.field]
        assert change.new != change.old
    written = data.draw(st.integers(0, len(plan.changes)))
    world.apply(plan.changes[:written])

    undone, old = world.copy(), world.hashes(source)
    for found in undone.revert(source, target).set_plans:
        undone.apply(found.changes)
        assert set(undone.values().values()) <= {OLD, old.generation, *old.templates.values()}

    rerun = world.decide(source, target)
    assert rerun.changes == plan.changes[written:]
    world.apply(rerun.changes)
    finished = world.decide(source, target)
    assert finished.state == SetState.DONE
    assert finished.changes == ()
    new = world.hashes(target)
    assert set(world.values().values()) <= {OLD, new.generation, *new.templates.values()}
    touched = {(c.ref.kind, c.ref.name, c.field) for c in plan.changes}
    assert {key for key, value in world.values().items() if value != before[key]} == touched


@examples(10)
@given(families())
def test_planning_changes_nothing(family: tuple[World, str, str]) -> None:
    """A plan is a function of what was read: the same twice, and the objects stay as they are."""
    world, source, target = family
    raw, snapshot = copy.deepcopy(world.objects), world.snapshot()
    options = options_of(source=source, target=target)
    first = make_plan(snapshot, options)
    assert first == make_plan(replace(snapshot), options)
    plan_revert(snapshot, options, None)
    assert world.objects == raw
