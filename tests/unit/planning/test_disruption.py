"""What the next operator recreates if nobody migrates.

``tests/faults/test_operator_model.py`` compares what is counted of a PodClique with the model of an operator.
"""

from __future__ import annotations

import pytest

from migrator.exact_json import JSONNumber
from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from migrator.planning.disruption import clique_gpus, whole_units
from migrator.planning.model import Disruption
from tests.support.builders import DELETION, LABEL, LATER, World, clique
from tests.support.tables import table

SET, GROUP, TO = ("PodCliqueSet", "web"), ("PodCliqueScalingGroup", "web-0-x"), "legacy-1.35"
PROGRESS, BEGAN = "/status/updateProgress", {"updateStartedAt": LATER}
A6, A11, RC1 = "v0.1.0-alpha.6", "v0.1.0-alpha.11", "v0.1.0-alpha.12-rc1"


def disruption(world: World) -> Disruption:
    """What an operator of the target recreates without the migration."""
    return world.plan(target=TO).cluster_disruption


def test_everything_is_recreated_by_another_scheme() -> None:
    """All pods of all cliques count, with the GPUs that the template gives each of them."""
    world = World().grow(cliques=[clique("front", gpus="1"), clique("work", gpus="4")], replicas=2, pods=3)
    assert disruption(world) == Disruption(pods=18, gpus=2 * 2 * (3 * 1 + 2 * 3 * 4))


def current(world: World, *names: str) -> World:
    """A world in which these PodCliques and pods have the target's hash already."""
    new = world.hashes("legacy-1.35").templates
    for name in names:
        (item,) = (one for one in world.objects if one["metadata"]["name"] == name)
        parts = item["metadata"]["name"].split("-")
        item["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] = new[next(part for part in parts[::-1] if part in new)]
    return world


def pair(other: str = "x") -> World:
    """Two cliques in one scaling group of two replicas, or in two."""
    groups = {"x": ["a", "b"]} if other == "x" else {"x": ["a"], other: ["b"]}
    return World().grow(cliques=[clique("a"), clique("b")], groups=groups)


def renamed() -> World:
    world = World().grow(cliques=[clique("front", gpus="1"), clique("work")])
    for entry in world.pcs["spec"]["template"]["cliques"]:
        entry["name"] += "-renamed"
    return world


@table(
    "world pods",
    ("The target's own sets are left alone.", (World().grow(scheme=TO), 0)),
    ("OnDelete waits for somebody.", (World().grow(on_delete=True), 0)),
    ("A set that is being deleted is over.", (World().grow().put(*SET, DELETION, LATER), 0)),
    (
        "Pods of a PodClique that is being deleted go whatever happens.",
        (World().grow().put("PodClique", "web-0-front", DELETION, LATER), 4),
    ),
    (
        "And so do those of a scaling group.",
        (World().grow().put("PodCliqueScalingGroup", "web-0-sg", DELETION, LATER), 2),
    ),
    ("A set without a hash just gets one.", (World().grow().take(*SET, "/status/currentGenerationHash"), 0)),
    ("Standalone pods count one by one.", (current(World().grow(), "web-0-front-1"), 5)),
    ("If a PodClique of a scaling group's replica differs, all pods of that replica go.", (pair(), 8)),
    ("Every one of them must be the target's.", (current(pair(), "web-0-x-0-a"), 8)),
    ("They are.", (current(pair(), "web-0-x-0-a", "web-0-x-0-b"), 4)),
    ("Replica 0 of one group is not replica 0 of another.", (current(pair("y"), "web-0-x-0-a"), 6)),
    ("Pods of a clique that the template lacks count, and have no GPUs.", (renamed(), 6)),
    ("Terminating pods do not count.", (World().grow().put("Pod", "web-0-front-0", DELETION, LATER), 5)),
)
def test_a_set_is_recreated_where_the_operator_finds_another_hash(world: World, pods: int) -> None:
    """Else all of it stays."""
    assert disruption(world) == Disruption(pods=pods)


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        ([{"nvidia.com/gpu": "4"}, {"nvidia.com/gpu": 4}], [], 8),
        ([{"nvidia.com/gpu": "1"}], [{"nvidia.com/gpu": "2"}, {"nvidia.com/gpu": "8"}], 8),
        ([{"nvidia.com/gpu": "8"}], [{"nvidia.com/gpu": "1"}], 8),
        ([{"nvidia.com/mig-1g.5gb": "3", "nvidia.com/mig-3g.20gb": "1"}], [], 4),
        ([{"amd.com/gpu": "2", "gpu.intel.com/i915": "1", "gpu.intel.com/xe": "1"}], [], 4),
        ([{"cpu": "64", "memory": "1Ti", "nvidia.com/gpumem": "80", "example.com/nvidia.com/gpu": "1"}], [], 0),
        ([{}, None], None, 0),
        (None, None, 0),
    ],
)
def test_gpus_of_a_pod(containers: list[object] | None, init: list[object] | None, expected: int) -> None:
    """The sum of limits over containers or the largest init container, whichever is more, over known resources."""
    ignored = {"requests": {"nvidia.com/gpu": "9"}}
    holders = {"containers": containers, "initContainers": init}
    pod_spec = {
        name: found and [{"resources": {"limits": x, **ignored}} for x in found] for name, found in holders.items()
    }
    assert clique_gpus({"spec": {"podSpec": pod_spec}}) == expected
    assert (
        clique_gpus({"spec": {"podSpec": {"containers": [{}]}}}) == clique_gpus({"spec": None}) == clique_gpus({}) == 0
    )


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        *(("8", 8), (8, 8), (JSONNumber("8.0"), 8), ("0", 0), ("000", 0), (None, 0), ("1k", 1000), ("1e3", 1000)),
        *(("2000m", 2), ("1500m", 2), ("2Ki", 2048), ("1.5Ki", 1536), ("1e1000000", 10**18), ("eight", 0)),
    ],
)
def test_quantities_are_whole_units(token: object, expected: int) -> None:
    """Any spelling of a quantity counts as its value rounded up, and absurd ones do no harm."""
    assert whole_units(token) == expected


def test_finished_pods_are_recreated_too() -> None:
    """The operator deletes Failed and Succeeded pods of an older hash as it deletes others: a job runs again."""
    world = World().grow(cliques=[clique("front", gpus="1")], groups={}, pods=4)
    world.finish("web-0-front-0", "web-0-front-1").put("Pod", "web-0-front-2", "/status", {"phase": "Pending"})
    assert disruption(world) == Disruption(pods=4, gpus=8)


def begun(*, open_: bool = True) -> World:
    """A set that the next operator has begun to roll, not migrated: one pod is the new one already."""
    world = current(World().grow(), "web-0-front", "web-0-front-1").put_generation_of(TO)
    return world.put(*SET, PROGRESS, BEGAN if open_ else None)


def lost_a_node() -> World:
    """A standalone clique beside a scaling group of three replicas, in the last of which a PodClique lost its pods."""
    cliques = [clique(name) for name in ("front", "a", "b")]
    world = World().grow(cliques=cliques, groups={"x": ["a", "b"]}, group_replicas=3)
    lost = ("PodClique", "web-0-x-2-a")
    world.put(*lost, "/status/scheduledReplicas", 0)
    return world.put(*lost, "/status/conditions", [{"type": "MinAvailableBreached", "status": "False"}])


def too_small(condition: tuple[str, str]) -> World:
    """The same, if the group needs all three and its status says so."""
    kind, status = condition
    world = lost_a_node().put(*GROUP, "/spec/minAvailable", 3).put(*GROUP, "/status/scheduledReplicas", 2)
    return world.put(*GROUP, "/status/conditions", [{"type": kind, "status": status}])


KNOWS = "Operators before alpha.7 do not know OnDelete, and roll the set."
ENDED = "From alpha.12-rc1 on a member at zero costs its replica, migrated or not; each pod counts once."


@table(
    "world target pods",
    *(
        (KNOWS, (World().grow(scheme="legacy-1.35", on_delete=True), *row))
        for row in ((A6, (6, 0)), ("v0.1.0-alpha.7", (0, 0)), ("legacy-1.33", (6, 0)))
    ),
    *(
        ("PR #566: a canonical operator accepts the legacy hash of its layout.", (World().grow(), target, (0, 0)))
        for target in ("canonical-1.34", "main-94a0105c")
    ),
    ("Over another layout it recreates everything.", (World().grow(), "canonical-1.35", (6, 0))),
    (
        "It accepts only a legacy hash of the current spec.",
        (World().grow().edit(), "canonical-1.34", (6, 6)),
    ),
    *((ENDED, (World().grow(replicas=2).at_zero("web-0-front"), to, (10, 4))) for to in (RC1, "legacy-1.36")),
    ("A replica that its scaling group can spare ends alone.", (lost_a_node(), RC1, (14, 4))),
    *(
        ("A scaling group that can spare none decides by its own state.", (too_small(condition), RC1, (14, pods)))
        for condition, pods in ((("MinAvailableBreached", "False"), 14), (("GangTerminationInProgress", "True"), 0))
    ),
    ("Older operators end none.", (World().grow(replicas=2).at_zero("web-0-front"), A11, (10, 0))),
    ("The source's hashes are migrated.", (World().grow(progress=()), RC1, (6, 0))),
    *(
        ("An update that the next operator has begun goes on with the rest.", (begun(), target, (5, 0)))
        for target in (A11, RC1, TO)
    ),
    (
        "A canonical operator begins none because of a hash that it accepts.",
        (World().grow().put_generation_of("canonical-1.34").put(*SET, PROGRESS, BEGAN), "canonical-1.34", (0, 0)),
    ),
    ("One that is over does not.", (begun(open_=False), A11, (0, 0))),
    (
        "One of an edit is the owner's, not the upgrade's.",
        (World().grow(scheme=TO).put(*SET, PROGRESS, BEGAN).put("Pod", "web-0-front-0", LABEL), A11, (0, 0)),
    ),
    (
        "From alpha.12-rc1 on the set's hash alone does not protect pods of standalone cliques.",
        (World().grow().put_generation_of(TO), RC1, (2, 0)),
    ),
    ("A scheme may mean an older release.", (World().grow().put_generation_of(TO), TO, (0, 0))),
    (
        "A gang that is ended loses finished pods too.",
        (World().grow().at_zero("web-0-front").finish(), RC1, (4, 4)),
    ),
)
def test_what_a_build_recreates_without_the_migration_and_with_it(
    world: World, target: str, pods: tuple[int, int]
) -> None:
    """Releases differ in what they do to a set that is idle."""
    plan = world.plan(target=target)
    assert (plan.cluster_disruption.pods, plan.remaining.pods) == pods
