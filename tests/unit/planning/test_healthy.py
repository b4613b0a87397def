"""Healthy sets of every shape and in every ordinary state: none refuses, to any target."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from migrator.planning.model import SetState
from tests.support.builders import LATER, OLD, World, clique, refusals

SHAPES: dict[str, dict[str, Any]] = {
    "one clique": {"cliques": [clique("one", gpus=1)], "groups": {}},
    "standalone": {"groups": {}},
    "disaggregated": {},
    "groups only": {"groups": {"sg": ["front", "work"]}},
}
STARTUP = (None, "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit")


def at_rest(_: World) -> None:
    """As the operator leaves it."""


def one_at_zero(world: World) -> None:
    """A clique that an autoscaler took to zero, and the update that never ends because of it."""
    world.at_zero(world.all("PodClique")[-1]["metadata"]["name"])
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
    world.all("PodClique")[0]["spec"]["replicas"] += 1


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


STATES = (at_rest, one_at_zero, all_at_zero, scaled_out, never_ready, failed_pods, behind)


@pytest.mark.parametrize("target", ["v0.1.0-alpha.3", "v0.1.0-alpha.9", "v0.1.0-alpha.12-rc1"])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_healthy_set_refuses(shape: str, target: str) -> None:
    """Whatever the startup type, history, strategy and state: no refusal, and the set can be migrated or is done."""
    for startup, progress, state in itertools.product(STARTUP, (("updateProgress",), ()), STATES):
        for on_delete in (False, True) if startup is None and progress else (False,):
            world = World().grow(**SHAPES[shape], startup=startup, progress=progress, on_delete=on_delete)
            state(world)
            plan = world.plan(target=target)
            case = (startup, progress, on_delete, state)
            assert refusals([*plan.findings, *plan.trees[0].findings]) == [], case
            assert plan.trees[0].state in {SetState.MIGRATE, SetState.DONE}, case
