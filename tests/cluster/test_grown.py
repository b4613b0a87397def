"""Grown trees are named and joined as Grove names and joins its objects; this needs no API server."""

from __future__ import annotations

import pytest

from migrator.hashing.podcliqueset import hash_pod_clique_set
from migrator.hashing.schemes import by_name
from testbed import workloads
from testbed.trees import Object, State, grow, of_kind


def grown(state: State) -> list[Object]:
    """Two replicas with a frontend and three replicas of a scaling group whose first two are guaranteed."""
    pcs = workloads.disaggregated("d", replicas=2, scale=3)
    pcs["spec"]["template"]["podCliqueScalingGroups"][0]["minAvailable"] = 2
    return grow(pcs, hash_pod_clique_set(pcs, by_name("legacy-1.34")), state)


def test_names_are_those_of_grove() -> None:
    """Standalone PodCliques carry set and replica, those of a scaling group also the group and its replica."""
    objects = grown(State())
    names = {item["metadata"]["name"] for item in of_kind(objects, "PodClique")}
    groups = {item["metadata"]["name"] for item in of_kind(objects, "PodCliqueScalingGroup")}
    assert groups == {"d-0-workers", "d-1-workers"}
    assert {name for name in names if name.startswith("d-1-")} == {
        "d-1-frontend",
        *(f"d-1-workers-{index}-{clique}" for index in range(3) for clique in ("prefill", "decode")),
    }


@pytest.mark.parametrize(
    ("line", "base", "beyond"),
    [
        ("alpha.9", "d-1", "d-1-workers-0"),
        ("podgangmap", "d-1-1767323045000000000", "d-1-1767323045000000001-workers-2"),
    ],
)
def test_replicas_beyond_the_guaranteed_have_their_own_pod_gang(line: str, base: str, beyond: str) -> None:
    """Up to minAvailable a scaling group's replicas are in the base PodGang, each later one is in one of its own."""
    objects = grown(State(line, pod_gangs=True))
    labels = {item["metadata"]["name"]: item["metadata"]["labels"] for item in of_kind(objects, "PodClique")}
    assert labels["d-1-frontend"]["grove.io/podgang"] == base
    assert labels["d-1-workers-1-decode"]["grove.io/podgang"] == base
    assert labels["d-1-workers-2-decode"]["grove.io/podgang"] == beyond
    assert labels["d-1-workers-2-decode"]["grove.io/base-podgang"] == base
    assert "grove.io/base-podgang" not in labels["d-1-workers-1-decode"]
    assert {base, beyond} < {item["metadata"]["name"] for item in of_kind(objects, "PodGang")}


def test_pods_carry_the_labels_of_their_pod_clique() -> None:
    """A pod has all labels of its PodClique, and is owned by it."""
    objects = grown(State())
    cliques = {item["metadata"]["uid"]: item for item in of_kind(objects, "PodClique")}
    pods = of_kind(objects, "Pod")
    assert len(pods) == 2 * (1 + 3 * 4)
    for pod in pods:
        owner = cliques[pod["metadata"]["ownerReferences"][0]["uid"]]
        assert owner["metadata"]["labels"].items() <= pod["metadata"]["labels"].items()
        assert pod["metadata"]["labels"]["grove.io/podclique"] == owner["metadata"]["name"]
