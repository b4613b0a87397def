"""The model of an operator does what Grove's operators do, and a plan counts what it replaces: K1 to K3 by both."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest

from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from migrator.planning.model import SetState
from testbed.trees import Object
from tests.faults import cluster
from tests.faults.cluster import Key
from tests.faults.operators import ALPHA_9, ALPHA_11, ALPHA_12_RC1, MAIN, Line, Operator, would_roll
from tests.support.builders import ENDED, OLD, World, clique


@pytest.fixture
def objects() -> dict[Key, Object]:
    """Three sets as the old operator leaves them."""
    return cluster.by_key(cluster.grown())


def pod_clique(objects: dict[Key, Object], name: str) -> Object:
    return objects["PodClique", "default", name]


def pods(objects: dict[Key, Object], prefix: str) -> list[Object]:
    return [item for key, item in objects.items() if key[0] == "Pod" and key[2].startswith(prefix)]


def names(objects: dict[Key, Object], prefix: str) -> frozenset[str]:
    return frozenset(pod["metadata"]["name"] for pod in pods(objects, prefix))


def test_an_edit_replaces_the_pods_of_its_clique(objects: dict[Key, Object]) -> None:
    """K3: of a standalone clique just its pods, though the whole set is updated."""
    cluster.edit(objects["PodCliqueSet", "default", "web"], "router")
    assert would_roll(objects, cluster.SOURCE, ALPHA_9) == names(objects, "web-0-router")


def test_an_edit_replaces_whole_replicas_of_a_scaling_group(objects: dict[Key, Object]) -> None:
    """K7: one label that differs takes all PodCliques of that replica with it."""
    cluster.edit(objects["PodCliqueSet", "default", "disagg"], "decode")
    assert would_roll(objects, cluster.SOURCE, ALPHA_9) == names(objects, "disagg-0-workers")


@pytest.mark.parametrize(("line", "heals"), [(ALPHA_9, False), (ALPHA_11, False), (ALPHA_12_RC1, True), (MAIN, True)])
def test_a_template_hash_that_was_left_behind(objects: dict[Key, Object], line: Line, *, heals: bool) -> None:
    """K4, K5: up to alpha.11 an old current hash stays, and no pod counts as updated; later the label decides."""
    found = pod_clique(objects, "web-0-frontend")
    found["status"]["currentPodTemplateHash"] = "0dd"
    Operator(objects, cluster.SOURCE, line).settle()
    assert (found["status"]["currentPodTemplateHash"] != "0dd") == heals
    assert found["status"]["updatedReplicas"] == (2 if heals else 0)


def test_a_scale_in_takes_odd_pods_first(objects: dict[Key, Object]) -> None:
    """K14: of two pods the one whose hash is not the expected one goes, and counts as no replacement."""
    odd = pods(objects, "web-0-frontend")[0]
    odd["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] = "0dd"
    pod_clique(objects, "web-0-frontend")["spec"]["replicas"] = 1
    operator = Operator(objects, cluster.SOURCE, ALPHA_9)
    assert operator.settle() == []
    (pod,) = pods(objects, "web-0-frontend")
    assert pod["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] != "0dd"


def test_a_scaling_group_grows_and_shrinks(objects: dict[Key, Object]) -> None:
    """New replicas get PodCliques and pods of the present template, surplus ones go, and nothing is replaced."""
    group = objects["PodCliqueScalingGroup", "default", "disagg-0-workers"]
    group["spec"]["replicas"] = 2
    operator = Operator(objects, cluster.SOURCE, ALPHA_9)
    assert operator.settle() == []
    new, old = (pods(objects, f"disagg-0-workers-{index}-decode") for index in (1, 0))
    assert {pod["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] for pod in new} == {
        pod["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] for pod in old
    }
    assert len(new) == 2
    group["spec"]["replicas"] = 1
    assert operator.settle() == []
    assert not pods(objects, "disagg-0-workers-1")


def test_an_operator_that_is_stopped_has_begun_no_more(objects: dict[Key, Object]) -> None:
    """One that may replace one pod leaves an update in flight, which the next one ends."""
    cluster.edit(objects["PodCliqueSet", "default", "web"], "frontend")
    operator = Operator(objects, cluster.SOURCE, ALPHA_9)
    assert len(operator.reconcile(1)) == 1
    status = objects["PodCliqueSet", "default", "web"]["status"]
    assert "updateEndedAt" not in status["updateProgress"]
    assert len(operator.settle()) == 1
    assert "updateEndedAt" in status["updateProgress"]


#: What a place may hold: a hash of a scheme, one of an older template, or nothing.
_VALUES: Final = (cluster.SOURCE, cluster.TARGET, OLD, None)


@pytest.mark.parametrize(
    ("target", "line"),
    [("v0.1.0-alpha.11", ALPHA_11), ("v0.1.0-alpha.12-rc1", ALPHA_12_RC1), ("main-fcc3b3bb", MAIN)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_plan_counts_every_pod_that_the_operator_replaces(target: str, line: Line) -> None:
    """Whatever a set, its standalone PodClique and a pod hold: without the migration, and with it and overrides."""
    for state in product((cluster.SOURCE, cluster.TARGET, "", None), *[_VALUES] * 3):
        world = _world(*state)
        plan = world.decide(target=target, allow=("GM-101", "GM-102"))
        assert plan.disruption.pods >= _replaced(world, line), state
        if plan.state is not SetState.REFUSED:
            world.apply(plan.changes)
            assert plan.remaining.pods == _replaced(world, line), state


def _world(of_set: str | None, of_clique: str | None, of_update: str | None, of_pod: str | None) -> World:
    """Two pods of one clique under the source, one of them finished, in which some places hold something else."""
    world = World().grow(cliques=[clique("front")], groups={}, progress=(), scheme=cluster.SOURCE)
    hashes = {scheme: world.hashes(scheme) for scheme in (cluster.SOURCE, cluster.TARGET)}

    def generation(value: str | None) -> str | None:
        return hashes[value].generation if value in hashes else value

    def template(value: str | None) -> str | None:
        return hashes[value].templates["front"] if value in hashes else value

    status = world.of("PodClique", "web-0-front")["status"]
    world.pcs["status"]["currentGenerationHash"] = generation(of_set)
    status["currentPodCliqueSetGenerationHash"] = generation(of_clique)
    status["currentPodTemplateHash"] = template(of_clique)
    if of_update is not None:
        found = {"podCliqueSetGenerationHash": generation(of_update), "podTemplateHash": template(of_update)}
        status["updateProgress"] = {**ENDED, **found}
    world.of("Pod", "web-0-front-0")["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] = template(of_pod) or ""
    world.of("Pod", "web-0-front-1")["status"] = {"phase": "Succeeded"}
    return world


def _replaced(world: World, line: Line) -> int:
    objects = {(o["kind"], o["metadata"]["namespace"], o["metadata"]["name"]): o for o in world.objects}
    return len(would_roll(objects, cluster.TARGET, line))
