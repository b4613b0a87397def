"""What the next operator recreates if nobody migrates."""

from __future__ import annotations

import pytest

from migrator.errors import DecodeError
from migrator.exact_json import JSONNumber
from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from migrator.hashing import schemes
from migrator.planning import detect
from migrator.planning.detect import Pair
from migrator.planning.disruption import clique_gpus, disruption_of, live_pods, whole_units
from migrator.planning.model import Disruption
from migrator.render.summary import recreated_with_migration
from tests.support.builders import DELETION, LABEL, LATER, World, clique
from tests.support.tables import table

SET = ("PodCliqueSet", "web")
RC1, MAIN = "v0.1.0-alpha.12-rc1", "main-fcc3b3bb"


def disruption(world: World, source: str = "legacy-1.34", target: str = "legacy-1.35") -> Disruption:
    """What an operator of the target recreates of the only tree without the migration."""
    (tree,) = world.snapshot().trees
    hashes = detect.hashes_of(tree.pcs)
    before, after = schemes.by_name(source), schemes.by_name(target)
    pair = Pair(hashes(before), hashes(after), on_delete=tree.pcs.on_delete)
    return disruption_of(tree, pair, source=before, target=after)[0]


def counted(world: World, target: str) -> tuple[int, int]:
    """The pods that a named build recreates, without the migration and with it."""
    plan = world.plan(target=target)
    return plan.cluster_disruption.pods, recreated_with_migration(plan).pods


def test_everything_is_recreated_by_another_scheme() -> None:
    """All pods of all cliques count, with the GPUs that the template gives each of them."""
    world = World().grow(cliques=[clique("front", gpus="1"), clique("work", gpus="4")], replicas=2, pods=3)
    assert disruption(world) == Disruption(pods=18, gpus=2 * 2 * (3 * 1 + 2 * 3 * 4), running=18)


def with_generation_of(scheme: str) -> World:
    """A set at rest, but for its generation hash."""
    world = World().grow()
    return world.put(*SET, "/status/currentGenerationHash", world.hashes(scheme).generation_hash)


def edited() -> World:
    """A set of which a clique was edited since."""
    world = World().grow()
    world.edit("front", "app:2")
    return world


@table(
    "world target pods",
    ("The target's own sets are left alone.", (World().grow(scheme="legacy-1.35"), "legacy-1.35", 0)),
    ("With its generation hash no pod label starts an update.", (with_generation_of("legacy-1.35"), "legacy-1.35", 0)),
    ("OnDelete waits for somebody.", (World().grow(on_delete=True), "legacy-1.35", 0)),
    ("A set that is being deleted is over.", (World().grow().put(*SET, DELETION, LATER), "legacy-1.35", 0)),
    (
        "Pods of a PodClique that is being deleted go whatever happens.",
        (World().grow().put("PodClique", "web-0-front", DELETION, LATER), "legacy-1.35", 4),
    ),
    (
        "And so do those of a scaling group.",
        (World().grow().put("PodCliqueScalingGroup", "web-0-sg", DELETION, LATER), "legacy-1.35", 2),
    ),
    (
        "A set without a hash just gets one.",
        (World().grow().take(*SET, "/status/currentGenerationHash"), "legacy-1.35", 0),
    ),
    ("PR #566: a canonical operator accepts the legacy hash of its layout.", (World().grow(), "canonical-1.34", 0)),
    ("Over another layout it recreates everything.", (World().grow(), "canonical-1.35", 6)),
    ("It accepts no hash that is not a legacy hash of the current spec.", (edited(), "canonical-1.34", 6)),
)
def test_a_set_is_recreated_where_the_operator_finds_another_hash(world: World, target: str, pods: int) -> None:
    """Else all of it stays."""
    assert disruption(world, target=target) == Disruption(pods=pods, running=pods)


def test_standalone_pods_count_one_by_one() -> None:
    """Of a standalone clique only pods whose label differs from the target's are recreated."""
    world = World().grow(cliques=[clique("front")], groups={}, pods=3)
    new = world.hashes("legacy-1.35").pod_template_hashes["front"]
    world.of("Pod", "web-0-front-1")["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] = new
    assert disruption(world).pods == 2
    del world.of("Pod", "web-0-front-1")["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH]
    assert disruption(world).pods == 3


def test_a_scaling_group_replica_counts_as_one() -> None:
    """If any PodClique of a scaling group's replica differs, all pods of that replica are recreated."""
    world = World().grow(cliques=[clique("a"), clique("b")], groups={"sg": ["a", "b"]}, group_replicas=2, pods=2)
    new = world.hashes("legacy-1.35").pod_template_hashes
    for name in ("a", "b"):
        world.of("PodClique", f"web-0-sg-0-{name}")["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] = new[name]
    assert disruption(world).pods == 4
    world.of("PodClique", "web-0-sg-1-a")["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] = new["a"]
    assert disruption(world).pods == 4
    world.of("PodClique", "web-0-sg-1-b")["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] = new["b"]
    assert disruption(world).pods == 0


def test_replicas_of_two_groups_are_kept_apart() -> None:
    """Replica 0 of one scaling group is not replica 0 of another."""
    world = World().grow(cliques=[clique("a"), clique("b")], groups={"x": ["a"], "y": ["b"]}, group_replicas=1, pods=2)
    new = world.hashes("legacy-1.35").pod_template_hashes
    world.of("PodClique", "web-0-x-0-a")["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] = new["a"]
    assert disruption(world).pods == 2


def test_a_clique_that_the_template_lacks_is_not_kept() -> None:
    """Pods of an unknown clique have no hash of the target's, so they count."""
    world = World().grow(cliques=[clique("front", gpus="1"), clique("work")], groups={"sg": ["work"]}, pods=1)
    world.pcs["spec"]["template"]["cliques"][0]["name"] = "renamed"
    world.pcs["spec"]["template"]["cliques"][1]["name"] = "renamed-too"
    assert disruption(world) == Disruption(pods=3, gpus=0, running=3)


def test_pods_on_their_way_out_do_not_count() -> None:
    """Terminating pods are neither alive nor recreated."""
    world = World().grow().put("Pod", "web-0-front-0", DELETION, LATER).put("Pod", "web-0-sg-1-work-0", DELETION, LATER)
    assert disruption(world).pods == live_pods(world.snapshot().trees[0]) == 4


def test_an_empty_generation_hash_is_not_an_absent_one() -> None:
    """Every operator compares it, and updates the set; pods whose labels are the target's by then are kept."""
    world = World().grow().put("PodCliqueSet", "web", "/status/currentGenerationHash", "")
    assert counted(world, "v0.1.0-alpha.11") == (6, 0)


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
        *(("2000m", 2), ("1500m", 2), ("2Ki", 2048), ("1.5Ki", 1536), ("1e1000000", 10**18)),
    ],
)
def test_quantities_are_whole_units(token: object, expected: int) -> None:
    """Any spelling of a quantity counts as its value rounded up, and absurd ones do no harm."""
    assert whole_units(token) == expected
    with pytest.raises(DecodeError):
        whole_units("eight")


def test_pods_that_have_ended_hold_no_gpus() -> None:
    """Failed and Succeeded pods do not live; Pending ones do, and do not run."""
    world = World().grow(cliques=[clique("front", gpus="1")], groups={}, pods=4)
    for number, phase in enumerate(("Failed", "Succeeded", "Pending", "Running")):
        world.of("Pod", f"web-0-front-{number}")["status"] = {"phase": phase}
    assert disruption(world) == Disruption(pods=2, gpus=4, running=1)


@pytest.mark.parametrize(("target", "pods"), [("v0.1.0-alpha.6", 6), ("v0.1.0-alpha.9", 0), ("legacy-1.33", 6)])
def test_on_delete_protects_from_operators_that_know_it(target: str, pods: int) -> None:
    """Operators before alpha.7 do not know the strategy, and roll the set."""
    world = World().grow(scheme="legacy-1.35", on_delete=True)
    assert world.plan(target=target).cluster_disruption.pods == pods


def test_a_stray_pod_is_deleted_at_the_start_of_alpha_12_rc1() -> None:
    """Under a standalone PodClique that was never updated, with the migration too: it is not ours to relabel."""
    assert counted(World().grow(progress=()), RC1) == (6, 0)  # the source's hashes are migrated
    world = World().grow(scheme="legacy-1.35", progress=()).put("Pod", "web-0-front-0", LABEL)
    assert counted(world, RC1) == (1, 1)
    assert [counted(world, target) for target in ("v0.1.0-alpha.11", MAIN)] == [(0, 0), (0, 0)]
    generation = world.hashes("legacy-1.35").generation_hash
    progress = {"updateEndedAt": LATER, "podCliqueSetGenerationHash": generation}
    world.put("PodClique", "web-0-front", "/status/updateProgress", progress)
    assert counted(world, RC1) == (0, 0)


@pytest.mark.parametrize("progress", [[], ["updateProgress"]])
@pytest.mark.parametrize("stored", [None, "legacy-1.35"])
def test_a_generation_hash_alone_does_not_protect_standalone_pods(stored: str | None, progress: list[str]) -> None:
    """From alpha.12-rc1 on each PodClique is compared with the set's hash, even with one that the operator just made.

    So a set whose hash was removed, or patched by hand, loses the pods of its standalone cliques.
    """
    world = World().grow(progress=progress)
    world.pcs["status"].pop("currentGenerationHash")
    if stored is not None:
        world.pcs["status"]["currentGenerationHash"] = world.hashes(stored).generation_hash
    assert [counted(world, target) for target in (RC1, MAIN)] == [(2, 0), (2, 0)]
    assert counted(world, "v0.1.0-alpha.11") == counted(world, "legacy-1.35") == (0, 0)


@pytest.mark.parametrize("value", ["4445566677788899", {}, ["x"]])
@pytest.mark.parametrize(("progress", "field"), [([], "current"), (["updateProgress"], "updateProgress/podClique")])
def test_a_stray_pod_under_a_podclique_of_another_generation_is_deleted(
    progress: list[str], field: str, value: object
) -> None:
    """An idle set's operator begins the update that was missed; a value of neither scheme stays as it is."""
    world = World().grow(scheme="legacy-1.35", progress=progress).put("Pod", "web-0-front-0", LABEL)
    name = "PodCliqueSetGenerationHash" if field == "current" else "SetGenerationHash"
    world.put("PodClique", "web-0-front", f"/status/{field}{name}", value)
    assert [counted(world, target) for target in (RC1, MAIN)] == [(1, 1), (1, 1)]
    assert counted(world, "v0.1.0-alpha.11") == (0, 0)


def test_a_gang_that_is_ended_at_zero_counts_each_pod_once() -> None:
    """From alpha.12-rc1 on a member at zero costs its replica, whether the set is migrated or not."""
    world = World().grow(replicas=2).at_zero("web-0-front")
    plan = world.plan(target="v0.1.0-alpha.12-rc1")
    for found, pods in ((plan.cluster_disruption, 10), (recreated_with_migration(plan), 4)):
        assert (found.pods, found.running) == (pods, pods)
    assert recreated_with_migration(world.plan(target="v0.1.0-alpha.11")).pods == 0
