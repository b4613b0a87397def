"""Before Grove is there: the hook of Argo CD runs at every sync, so at the first one too."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from testbed.controlplane.client import Client, eventually
from testbed.controlplane.options import Options
from testbed.controlplane.server import ControlPlane
from tests.cluster.helm.test_chart import template
from tests.cluster.helm.wrapper import OURS
from tests.cluster.manifests.site import NAMESPACE, NEW
from tests.support.pods.kubelet import Kubelet
from tests.support.pods.own_image import own_image

pytestmark = pytest.mark.controlplane

WAVE = "argocd.argoproj.io/sync-wave"


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster that nobody has touched: no CRDs, no operator, and nothing of ours but the namespace."""
    server = ControlPlane(tmp_path_factory.mktemp("fresh"), Options(controller_manager=True)).start()
    yield server
    server.stop()


def test_the_first_sync_ends_well(fresh: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Everything is applied in the order of the waves; the Job ends with 0, says so, and leaves nothing behind."""
    admin = fresh.client()
    assert admin.list("apiextensions.k8s.io/v1", "CustomResourceDefinition") == []
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    with Kubelet(fresh, tmp_path_factory.mktemp("pods"), own_image, namespace=NAMESPACE) as kubelet:
        objects = template("helm4", OURS, "mode=argocd", f"target={NEW}")
        for item in sorted(objects, key=lambda one: int(one["metadata"]["annotations"][WAVE])):
            admin.apply(item)
        eventually(lambda: _conditions(admin) & {"Complete", "Failed"}, what="the Job is not over", seconds=180)
        assert "Complete" in _conditions(admin), kubelet.containers[0].log
    [pod] = admin.list("v1", "Pod", NAMESPACE)
    state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], json.loads(state["message"])["patches"]) == (0, 0)
    assert [item["metadata"]["name"] for item in admin.list("v1", "ConfigMap", NAMESPACE)] == ["kube-root-ca.crt"]
    assert admin.list("coordination.k8s.io/v1", "Lease", NAMESPACE) == []
    admin.close()


def _conditions(admin: Client) -> set[str]:
    status = admin.get("batch/v1", "Job", "grove-migrator", NAMESPACE)["status"]
    return {condition["type"] for condition in status.get("conditions", ()) if condition["status"] == "True"}
