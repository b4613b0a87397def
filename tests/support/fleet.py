"""A cluster of 37 PodCliqueSets as `kubectl get` prints it: what reports are judged by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from testbed.trees import Object, State, grow, of_kind
from testbed.workloads import clique, disaggregated, pod_clique_set, standalone
from tests.support.builders import hashes_of

SETS: Final = 37
SOURCE: Final = "legacy-1.34"

#: As long as Grove lets names of sets be, and with a name that looks like another's prefix.
LONG: Final = "retrieval-augmented-summariser-eu-west"

DELETED: Final = "2026-03-01T00:00:00Z"

_NAMESPACES: Final = ("inference", "search", "training-platform-production", "evaluation")
_MODELS: Final = ("llama-70b", "mixtral", "embedder", "reranker", "whisper", "diffusion", "guard", "planner")


def fleet(*, troubled: bool = False) -> list[Object]:
    """Every object, set by set; ``troubled`` makes every eighth set or so refuse or warn."""
    grown = [grow(pcs, hashes_of(pcs, SOURCE), _state(pcs)) for pcs in _sets()]
    if troubled:
        for number, objects in enumerate(grown):
            _trouble(number, objects)
    return [item for objects in grown for item in objects]


def _sets() -> Iterator[Object]:
    for number in range(SETS):
        namespace = _NAMESPACES[number % len(_NAMESPACES)]
        name = LONG if number == SETS - 1 else f"{_MODELS[number % len(_MODELS)]}-{number:02}"
        options = {"namespace": namespace, "on_delete": number == 20}
        if number % 5 == 0:
            yield standalone(name, **options)
        elif number % 5 == 1:
            yield pod_clique_set(name, [clique("leader", gpus=8), clique("worker", replicas=7, gpus=8)], **options)
        else:
            yield disaggregated(name, scale=2 + number % 3, **options)


def _state(pcs: Object) -> State:
    leftovers = {"frontend": "5d7fb85fdf4d77b4f494"} if pcs["spec"].get("updateStrategy") else {}
    return State(("updateProgress",), leftovers)


def _trouble(number: int, objects: Sequence[Object]) -> None:
    """What is wrong with the set of that number, if anything."""
    pcs, *others = objects
    pod_cliques, pods = of_kind(others, "PodClique"), of_kind(others, "Pod")
    if number == 3:
        del pcs["status"]["updateProgress"]["updateEndedAt"]
    if number in {3, SETS - 1}:
        _in_flight(pod_cliques)
        pods[0]["metadata"]["labels"]["grove.io/pod-template-hash"] = "6f9c88d5bb4f7d5c9f"
    elif number == 8:
        pcs["status"]["currentGenerationHash"] = "77f4b9cd5d88f7c6bd"
    elif number == 16:
        for item in pod_cliques[-2:]:
            item["metadata"]["labels"]["grove.io/pod-template-hash"] = "6f9c88d5bb4f7d5c9f"
    elif number == 30:
        pcs["metadata"]["deletionTimestamp"] = DELETED
    elif number % 4 == 1:
        pcs["metadata"]["generation"] = 2
        for item in pods[:2]:
            item["metadata"]["deletionTimestamp"] = DELETED


def _in_flight(pod_cliques: Sequence[Object]) -> None:
    for item in pod_cliques:
        del item["status"]["updateProgress"]["updateEndedAt"]
