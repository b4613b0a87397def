"""The API server with a kind of our own, and the cluster in memory that stands for it elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from migrator.errors import NotFound
from migrator.stores.kube import store as kube_store
from migrator.stores.kube.store import KubeStore
from testbed.controlplane.server import ControlPlane
from tests.support.memory_store import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, MemoryStore
from tests.support.things import ABSENT, NAMESPACE, THINGS, Both


@pytest.fixture(scope="package")
def cluster(control_plane: ControlPlane) -> Iterator[KubeStore]:
    """The API server, with a kind of our own and an empty namespace."""
    store = kube_store.connect(kubeconfig=str(control_plane.kubeconfig), context=None)
    versions = {
        "name": THINGS.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    crd = {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {"name": THINGS.qualified_name},
        "spec": {
            "group": THINGS.group,
            "scope": "Namespaced",
            "names": {"plural": THINGS.plural, "singular": "thing", "kind": THINGS.kind},
            "versions": [versions],
        },
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for resource, body in ((CUSTOM_RESOURCE_DEFINITIONS, crd), (NAMESPACES, namespace)):
        store.create(resource, "", body)
    for _ in range(100):
        try:
            store.list(THINGS, str)
        except NotFound:
            time.sleep(0.1)
        else:
            break
    yield store
    for resource, name in ((CUSTOM_RESOURCE_DEFINITIONS, THINGS.qualified_name), (NAMESPACES, NAMESPACE)):
        store.delete(resource, "", name, store.get(resource, "", name)["metadata"]["uid"])


@pytest.fixture(params=["cluster", "memory"])
def store(cluster: KubeStore, request: pytest.FixtureRequest) -> Both:
    """The API server, and the cluster in memory that stands for it elsewhere."""
    return cluster if request.param == "cluster" else MemoryStore(without=[ABSENT])
