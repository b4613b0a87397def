"""The API server of the tests is a real one: what the migrator's safety rests on is shown here, fact by fact."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.controlplane.client import AnswerError, Client, Object
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.server import ControlPlane

pytestmark = pytest.mark.controlplane

GROVE = "grove.io/v1alpha1"
HASH = "grove.io/pod-template-hash"


def pod(namespace: str, name: str = "p", **labels: str) -> Object:
    """A small pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {HASH: "4f", **labels}},
        "spec": {"containers": [{"name": "main", "image": "example.test/main:1"}]},
    }


def pod_clique(namespace: str, **status: Any) -> Object:
    """A PodClique with a port that names no protocol."""
    container = {"name": "main", "image": "example.test/main:1", "ports": [{"containerPort": 80}]}
    return {
        "apiVersion": GROVE,
        "kind": "PodClique",
        "metadata": {"name": "a", "namespace": namespace, "labels": {HASH: "4f"}},
        "spec": {"roleName": "a", "replicas": 1, "podSpec": {"containers": [container]}},
        "status": {"currentPodTemplateHash": "4f", **status},
    }


@pytest.fixture
def grove(control_plane: ControlPlane) -> None:
    """The CRDs of alpha.9."""
    apply_crds(control_plane, "alpha.9")


@pytest.mark.usefixtures("grove")
def test_the_crds_defaults_show_on_read(api: Client, namespace: str) -> None:
    """What the CRD defaults is there when the object is read, at any depth of the pod spec and in status."""
    api.create(pod_clique(namespace))
    read = api.get(GROVE, "PodClique", "a", namespace)
    assert read["spec"]["podSpec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert read["status"]["scheduleGatedReplicas"] == 0


def test_progress_disappears_with_its_field(control_plane: ControlPlane, api: Client, namespace: str) -> None:
    """After a change of CRDs the older progress is gone on read at once, and back again with the older CRDs."""
    progress = {"podCliqueSetGenerationHash": "4f", "podTemplateHash": "4f"}
    apply_crds(control_plane, "alpha.6")
    created = api.create(pod_clique(namespace, rollingUpdateProgress=progress))
    assert created["status"]["rollingUpdateProgress"] == progress
    apply_crds(control_plane, "alpha.9")
    assert "rollingUpdateProgress" not in api.get(GROVE, "PodClique", "a", namespace)["status"]
    apply_crds(control_plane, "alpha.6")
    read = api.get(GROVE, "PodClique", "a", namespace)
    assert read["status"]["rollingUpdateProgress"] == progress
    assert read["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


def test_a_line_without_pod_gang_maps_has_none(control_plane: ControlPlane, api: Client) -> None:
    """Going back from the line with PodGangMaps removes them."""
    apply_crds(control_plane, "podgangmap")
    assert api.list(GROVE, "PodGangMap") == []
    apply_crds(control_plane, "alpha.11")
    assert api.request("GET", "/apis/grove.io/v1alpha1/podgangmaps").status == 404


def test_all_pages_have_the_first_ones_resource_version(api: Client, namespace: str) -> None:
    """A pod that is created between two pages is in neither, and both show one resourceVersion."""
    for number in range(5):
        api.create(pod(namespace, f"p{number}"))
    path = f"/api/v1/namespaces/{namespace}/pods"
    first = api.call("GET", path, query={"limit": "3"})
    api.create(pod(namespace, "p4b"))
    second = api.call("GET", path, query={"limit": "3", "continue": first["metadata"]["continue"]})
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    names = [item["metadata"]["name"] for page in (first, second) for item in page["items"]]
    assert names == [f"p{number}" for number in range(5)]


def test_a_removed_namespace_leaves_nothing(api: Client, namespace: str) -> None:
    """Removing a namespace removes its objects too, those with finalizers included."""
    held = pod(namespace)
    held["metadata"]["finalizers"] = ["example.test/held"]
    api.create(held)
    api.delete_namespace(namespace)
    with pytest.raises(AnswerError, match="404"):
        api.get("v1", "Namespace", namespace)
    assert not [item for item in api.list("v1", "Pod") if item["metadata"]["namespace"] == namespace]
