"""Reading a cluster: which pods count as Grove's."""

from __future__ import annotations

import pytest

from migrator.resources import PODS
from migrator.run.snapshot import read_snapshot
from tests.support.builders import World
from tests.support.memory_store import MemoryStore

LABEL, MANAGED = "/metadata/labels/grove.io~1podclique", "/metadata/labels/app.kubernetes.io~1managed-by"


def cluster_of(world: World) -> MemoryStore:
    """These objects in a cluster."""
    store = MemoryStore()
    for item in world.objects:
        store.put(item)
    return store


@pytest.mark.parametrize("gone", [MANAGED, LABEL])
def test_a_pod_is_groves_by_its_pod_clique_whatever_else_its_labels_say(gone: str) -> None:
    """Grove finds pods by their controller from alpha.9 on, so one that lacks a label is read like any other."""
    world = World().grow().take("Pod", "web-0-front-0", gone)
    (tree,) = read_snapshot(cluster_of(world)).trees
    assert {pod.ref.name for clique in tree.pod_cliques for pod in clique.pods} == {
        pod["metadata"]["name"] for pod in world.all("Pod")
    }


@pytest.mark.parametrize(("counted", "lists"), [(2, 1), (3, 2)])
def test_pods_without_the_label_are_looked_for_only_where_some_are_missing(counted: int, lists: int) -> None:
    """A count that is late, because a pod has just gone, costs one list more and refuses nothing."""
    world = World().grow().put("PodClique", "web-0-front", "/status/replicas", counted)
    store = cluster_of(world)
    (tree,) = read_snapshot(store).trees
    assert sum(request.resource == PODS for request in store.requests) == lists
    assert sum(len(clique.pods) for clique in tree.pod_cliques) == len(world.all("Pod"))
