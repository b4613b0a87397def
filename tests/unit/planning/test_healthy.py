"""Healthy sets of every shape and in every ordinary state: none refuses, to any target."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from migrator.grove import parse
from migrator.grove.assemble import Objects, build
from migrator.hashing import podcliqueset, schemes
from migrator.planning.model import Plan, SetState
from migrator.planning.options import PlanOptions
from migrator.planning.planner import make_plan
from testbed import workloads
from testbed.trees import Object, State, grow, of_kind
from tests.support.builders import NOW, OLD, refusals

SOURCE = schemes.by_name("legacy-1.34")

SHAPES: dict[str, Callable[..., Object]] = {
    "one clique": lambda **o: workloads.pod_clique_set("one", [workloads.clique("one", gpus=1)], **o),
    "standalone": workloads.standalone,
    "disaggregated": workloads.disaggregated,
    "groups only": lambda **o: workloads.pod_clique_set(
        "groups",
        [workloads.clique("leader", gpus=8), workloads.clique("worker", gpus=8)],
        groups=[{"name": "gang", "cliqueNames": ["leader", "worker"], "replicas": 2, "minAvailable": 1}],
        **o,
    ),
}
STARTUP = (None, "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit")


def at_rest(_: list[Object]) -> None:
    """As the operator leaves it."""


def one_at_zero(objects: list[Object]) -> None:
    """A clique that an autoscaler took to zero, and the update that never ends because of it."""
    clique = of_kind(objects, "PodClique")[-1]
    objects[:] = [o for o in objects if _owner(o) != clique["metadata"]["uid"]]
    clique["spec"]["replicas"] = 0
    clique["status"] |= dict.fromkeys(("replicas", "readyReplicas", "scheduledReplicas", "updatedReplicas"), 0)
    _open(of_kind(objects, "PodCliqueSet"))


def all_at_zero(objects: list[Object]) -> None:
    """Everything at zero for the night: groups without PodCliques, standalone PodCliques without pods."""
    for group in of_kind(objects, "PodCliqueScalingGroup"):
        group["spec"]["replicas"] = 0
    gone = {o["metadata"]["uid"] for o in of_kind(objects, "PodClique") if _grouped(o)}
    objects[:] = [o for o in objects if o["kind"] != "Pod" and o["metadata"]["uid"] not in gone]
    for clique in of_kind(objects, "PodClique"):
        clique["spec"]["replicas"] = 0
        clique["status"]["replicas"] = 0


def scaled_out(objects: list[Object]) -> None:
    """An autoscaler wants one pod more, which is not there yet."""
    clique = of_kind(objects, "PodClique")[0]
    clique["spec"]["replicas"] += 1
    clique["metadata"]["generation"] = 2


def never_ready(objects: list[Object]) -> None:
    """Pods that wait for GPUs since the set was made: no current hashes yet."""
    for clique in of_kind(objects, "PodClique"):
        clique["status"]["readyReplicas"] = 0
        clique["status"].pop("currentPodTemplateHash")
        clique["status"].pop("currentPodCliqueSetGenerationHash")
    for pod in of_kind(objects, "Pod"):
        pod["status"] = {"phase": "Pending"}


def failed_pods(objects: list[Object]) -> None:
    """Evicted pods that nobody has removed."""
    for pod in of_kind(objects, "Pod")[:2]:
        pod["status"] = {"phase": "Failed"}


def behind(objects: list[Object]) -> None:
    """alpha.9 leaves the generation hash of grouped PodCliques behind (all PodCliques, where there are no groups)."""
    cliques = of_kind(objects, "PodClique")
    for clique in [c for c in cliques if _grouped(c)] or cliques:
        clique["status"]["currentPodCliqueSetGenerationHash"] = OLD


STATES = (at_rest, one_at_zero, all_at_zero, scaled_out, never_ready, failed_pods, behind)


def _open(items: list[Object]) -> None:
    for item in items:
        item["status"]["updateProgress"] = {"updateStartedAt": "2026-02-01T00:00:00Z", "currentlyUpdating": []}


def _grouped(clique: Object) -> bool:
    return "grove.io/podcliquescalinggroup" in clique["metadata"]["labels"]


def _owner(item: Object) -> str | None:
    owners = item["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners), None)


CASES = [
    (shape, startup, updated, on_delete, state)
    for shape, startup, updated, state in itertools.product(SHAPES, STARTUP, (True, False), STATES)
    for on_delete in ((False, True) if startup is None and updated else (False,))
]


def planned(objects: list[Object], target: str) -> Plan:
    """The plan for these objects, as on a cluster."""
    read: dict[str, Any] = {
        "sets": parse.pod_clique_set,
        "groups": parse.scaling_group,
        "cliques": parse.pod_clique,
        "pods": parse.pod,
    }
    kinds = dict(zip(read, ("PodCliqueSet", "PodCliqueScalingGroup", "PodClique", "Pod"), strict=True))
    parts = {key: tuple(project(o) for o in of_kind(objects, kinds[key])) for key, project in read.items()}
    return make_plan(build(Objects(**parts), is_cluster=True), PlanOptions(target=target), now=NOW)


def test_the_corpus_is_large_enough() -> None:
    """At least sixty states, all of them different."""
    assert len(set(CASES)) == len(CASES) >= 60


@pytest.mark.parametrize("target", ["v0.1.0-alpha.3", "v0.1.0-alpha.9", "v0.1.0-alpha.12-rc1"])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_healthy_set_refuses(shape: str, target: str) -> None:
    """Whatever the shape, startup type, history and state: no refusal, and the set can be migrated or is done."""
    for case in CASES:
        if case[0] != shape:
            continue
        _, startup, updated, on_delete, state = case
        pcs = SHAPES[shape](startup=startup, on_delete=on_delete)
        objects = grow(pcs, podcliqueset.hash_pod_clique_set(pcs, SOURCE), State(updated=updated))
        state(objects)
        plan = planned(objects, target)
        found = [*plan.findings, *plan.trees[0].findings]
        assert refusals(found) == [], case
        assert plan.trees[0].state in {SetState.MIGRATE, SetState.DONE}, case
