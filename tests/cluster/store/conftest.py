"""The API server with a kind of our own, and the cluster in memory that stands for it elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from migrator.kube import store as kube_store
from migrator.kube.store import KubeCluster
from testbed.controlplane.client import Client
from testbed.controlplane.crds import put
from testbed.controlplane.server import ControlPlane
from tests.cluster.store.things import ABSENT, NAMESPACE, THINGS, Both
from tests.support.memory_store import MemoryCluster


@pytest.fixture(scope="package")
def cluster(control_plane: ControlPlane, api: Client) -> Iterator[KubeCluster]:
    """The API server, with a kind and a namespace of our own."""
    any_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": THINGS.version, "served": True, "storage": True, "subresources": {"status": {}}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": THINGS.qualified_name},
        "spec": {
            "group": THINGS.group,
            "scope": "Namespaced",
            "names": {"plural": THINGS.plural, "singular": "thing", "kind": THINGS.kind},
            "versions": [{**version, "schema": {"openAPIV3Schema": any_object}}],
        },
    }
    put(api, [crd])
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield kube_store.connect(kubeconfig=str(control_plane.kubeconfig), context=None)
    api.empty_namespace(NAMESPACE)


@pytest.fixture(params=["cluster", "memory"])
def store(cluster: KubeCluster, request: pytest.FixtureRequest) -> Both:
    """The API server, and the cluster in memory that stands for it elsewhere."""
    return cluster if request.param == "cluster" else MemoryCluster(without=[ABSENT])
