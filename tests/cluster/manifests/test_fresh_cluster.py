"""Before Grove is there: the hook of Argo CD runs at every sync, so at the first one too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.controlplane.client import eventually
from tests.cluster.helm.wrapper import OURS, template
from tests.cluster.manifests.site import NAMESPACE, NEW, add_namespace, started
from tests.support.pods.kubelet import Kubelet
from tests.support.pods.own_image import own_image

pytestmark = pytest.mark.controlplane

WAVE = "argocd.argoproj.io/sync-wave"


def test_the_first_sync_ends_well(tmp_path: Path) -> None:
    """A cluster without CRDs: all is applied in the order of the waves, and the Job ends with 0 and says so.

    It leaves nothing behind.
    """
    with started(tmp_path / "server") as fresh:
        admin = fresh.admin
        assert admin.list("apiextensions.k8s.io/v1", "CustomResourceDefinition") == []
        add_namespace(admin, NAMESPACE)
        with Kubelet(fresh.server, tmp_path / "pods", own_image, namespace=NAMESPACE) as kubelet:
            objects = template("helm4", OURS, "mode=argocd", f"target={NEW}")
            for item in sorted(objects, key=lambda one: int(one["metadata"]["annotations"][WAVE])):
                admin.apply(item)
            eventually(fresh.ended, what="the Job is not over", seconds=180)
            assert fresh.ended() == "Complete", kubelet.containers[0].log
        [pod] = admin.list("v1", "Pod", NAMESPACE)
        state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (state["exitCode"], json.loads(state["message"])["patches"]) == (0, 0)
        assert [item["metadata"]["name"] for item in admin.list("v1", "ConfigMap", NAMESPACE)] == ["kube-root-ca.crt"]
        assert admin.list("coordination.k8s.io/v1", "Lease", NAMESPACE) == []
