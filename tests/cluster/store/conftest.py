"""The API server with a kind of our own, and the cluster in memory that stands for it elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from migrator.kube import store as kube_store
from migrator.kube.store import KubeCluster
from testbed.controlplane.client import Client
from testbed.controlplane.crds import put
from testbed.controlplane.server import ControlPlane
from testbed.crds import without_schema
from tests.cluster.store.things import ABSENT, NAMESPACE, THINGS, Both
from tests.support.memory_store import MemoryCluster


@pytest.fixture(scope="package")
def cluster(control_plane: ControlPlane, api: Client) -> Iterator[KubeCluster]:
    """The API server, with a kind and a namespace of our own."""
    put(api, [without_schema(THINGS.group, THINGS.version, THINGS.plural, THINGS.kind)])
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield kube_store.connect(kubeconfig=str(control_plane.kubeconfig), context=None)
    api.empty_namespace(NAMESPACE)


@pytest.fixture(params=["cluster", "memory"])
def store(cluster: KubeCluster, request: pytest.FixtureRequest) -> Both:
    """The API server, and the cluster in memory that stands for it elsewhere."""
    return cluster if request.param == "cluster" else MemoryCluster(without=[ABSENT])
