"""An upgrade with Helm starts the operator again that a run has stopped: no field of its Deployment is ours."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from testbed.controlplane.client import JSON_PATCH
from tests.cluster.helm.cluster import Cluster
from tests.cluster.manifests.site import NAMESPACE, NEW, OLD

pytestmark = pytest.mark.controlplane

#: A helm, and its flags.
HELM_3: Final = ("helm3",)
SERVER_SIDE: Final = ("helm4", "--server-side=true")
CLIENT_SIDE: Final = ("helm4", "--server-side=false")
WAYS: Final = [
    pytest.param((HELM_3, HELM_3), id="helm 3"),
    pytest.param((SERVER_SIDE, SERVER_SIDE), id="helm 4 server-side"),
    pytest.param((CLIENT_SIDE, CLIENT_SIDE), id="helm 4 client-side"),
    pytest.param((HELM_3, ("helm4",)), id="helm 4 after helm 3"),
    pytest.param((HELM_3, SERVER_SIDE), id="helm 4 server-side after helm 3", marks=pytest.mark.slow),
]


def go(cluster: Cluster, way: tuple[str, ...]) -> Cluster:
    """Use this helm with these flags from now on."""
    cluster.program, *flags = way
    cluster.flags = tuple(flags)
    return cluster


def replicas_owners(cluster: Cluster) -> list[tuple[str, str]]:
    """Who owns ``spec.replicas`` of the Deployment: field managers and their operations."""
    return [
        (entry["manager"], entry["operation"])
        for entry in cluster.site.deployment()["metadata"]["managedFields"]
        if "f:replicas" in entry["fieldsV1"].get("f:spec", {})
    ]


def stop_operator(cluster: Cluster, subresource: str | None) -> None:
    """Set the operator's replicas to zero as `grove-migrator` does it, or on the Deployment itself."""
    admin = cluster.site.admin
    path = admin.kind("apps/v1", "Deployment").path(cluster.site.namespace, "grove-operator", subresource)
    body = [{"op": "replace", "path": "/spec/replicas", "value": 0}]
    admin.call("PATCH", path, body, query={"fieldManager": "grove-migrator"}, content_type=JSON_PATCH)


def migrate(cluster: Cluster, *flags: str) -> None:
    """``grove-migrator run`` as an administrator at a terminal starts it."""
    where = ("--kubeconfig", str(cluster.site.server.kubeconfig))
    command = [sys.executable, "-m", "migrator", "run", "--to", NEW, *where, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def namespace() -> str:
    """Where `grove-migrator run` looks for the operator unless told otherwise."""
    return NAMESPACE


@pytest.mark.parametrize("way", WAYS)
def test_the_upgrade_after_a_run_brings_the_operator_back(
    cluster: Cluster, way: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    """A run stops two replicas and leaves no trace in the Deployment's managedFields; the upgrade starts two again."""
    first, second = way
    go(cluster, first).install(OLD)
    migrate(cluster, "--stop-operator")
    assert (cluster.site.replicas(), cluster.site.operators()) == (0, [])
    assert replicas_owners(cluster) == []
    assert "grove-migrator" not in cluster.managers()
    go(cluster, second).upgrade_to(NEW)
    assert (cluster.site.replicas(), cluster.image()) == (2, f"example.test/grove-operator:{NEW}")
    assert "grove-migrator" not in cluster.managers()
    cluster.running(2)


def test_a_zero_on_the_deployment_itself_would_conflict_server_side(cluster: Cluster) -> None:
    """The negative control: the same zero, written past ``/scale``, is owned, and Helm 4 stops at it."""
    go(cluster, SERVER_SIDE).install(OLD)
    stop_operator(cluster, None)
    assert ("grove-migrator", "Update") in replicas_owners(cluster)
    upgraded = cluster.upgrade(NEW)
    assert upgraded.returncode != 0
    assert 'conflict with "grove-migrator"' in upgraded.stderr
    assert ".spec.replicas" in upgraded.stderr
    assert cluster.site.replicas() == 0


def test_a_zero_through_scale_does_not_conflict(cluster: Cluster) -> None:
    """The same request through ``/scale``, and nothing else in between: Helm 4 takes it back."""
    go(cluster, SERVER_SIDE).install(OLD)
    stop_operator(cluster, "scale")
    assert replicas_owners(cluster) == []
    cluster.upgrade_to(NEW)
    assert cluster.site.replicas() == 2


@pytest.mark.slow
def test_two_helm_steps_need_nobody_else_to_touch_the_deployment(cluster: Cluster) -> None:
    """The runbook's other way: Helm itself scales to zero with the old chart, and back with the new one."""
    before = go(cluster, SERVER_SIDE).install(OLD)
    cluster.upgrade_to(OLD, "--set", "replicaCount=0")
    cluster.running(0)
    generation = cluster.site.deployment()["metadata"]["generation"]
    migrate(cluster)
    assert cluster.site.objects() == cluster.site.expected(before, OLD, NEW)
    assert cluster.site.deployment()["metadata"]["generation"] == generation
    cluster.upgrade_to(NEW)
    assert (cluster.site.replicas(), cluster.image()) == (2, f"example.test/grove-operator:{NEW}")
