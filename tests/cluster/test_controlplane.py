"""The API server of the tests is a real one: what the migrator's safety rests on is shown here, fact by fact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client as official
from kubernetes import config
from kubernetes.config.incluster_config import InClusterConfigLoader

from testbed.controlplane.client import MERGE_PATCH, AnswerError, Client, Object, eventually
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.options import Options, tls
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


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane that a test may kill."""
    server = ControlPlane(tmp_path / "own")
    server.start()
    yield server
    server.stop()


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
    api.create_all([pod(namespace, f"p{number}") for number in range(5)])
    path = f"/api/v1/namespaces/{namespace}/pods"
    first = api.call("GET", path, query={"limit": "3"})
    api.create(pod(namespace, "p4b"))
    second = api.call("GET", path, query={"limit": "3", "continue": first["metadata"]["continue"]})
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    names = [item["metadata"]["name"] for page in (first, second) for item in page["items"]]
    assert names == [f"p{number}" for number in range(5)]


def test_scaling_to_zero_leaves_no_owner_of_replicas(api: Client, namespace: str) -> None:
    """After /scale to 0 nobody owns spec.replicas, so the next server-side apply restores it without a conflict."""
    labels = {"app": "x"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "operator", "namespace": namespace},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod(namespace)["spec"]},
        },
    }
    applied = api.apply(deployment, manager="helm")
    patch = [
        {"op": "test", "path": "/spec/replicas", "value": 1},
        {"op": "replace", "path": "/spec/replicas", "value": 0},
    ]
    assert api.patch(applied, patch, subresource="scale").status == 200
    stopped = api.get("apps/v1", "Deployment", "operator", namespace)
    assert stopped["spec"]["replicas"] == 0
    owners = [entry["manager"] for entry in stopped["metadata"]["managedFields"] if "f:replicas" in str(entry)]
    assert owners == []
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/operator"
    again = api.request(
        "PATCH", path, deployment, query={"fieldManager": "helm"}, content_type="application/apply-patch+yaml"
    )
    assert (again.status, again.body["spec"]["replicas"]) == (200, 1)


def test_a_service_account_is_held_to_rbac(
    control_plane: ControlPlane, api: Client, namespace: str, tmp_path: Path
) -> None:
    """A token from TokenRequest works through the official client's in-cluster configuration, within its role."""
    role: Object = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "reader", "namespace": namespace},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
    }
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": namespace}})
    api.create(role)
    api.create({**role, "kind": "RoleBinding", "rules": None, "roleRef": reference, "subjects": [subject]})
    token = api.service_account_token(namespace, "reader")
    environment = control_plane.in_cluster(tmp_path / "sa", token=token, namespace=namespace)
    configuration = official.Configuration()
    loader: Any = InClusterConfigLoader
    files = {"token_filename": tmp_path / "sa" / "token", "cert_filename": tmp_path / "sa" / "ca.crt"}
    loader(**files, environ=environment).load_and_set(configuration)
    with official.ApiClient(configuration) as inside:
        inside.rest_client.pool_manager.connection_pool_kw["ssl_context"] = tls(control_plane.ca)
        core = official.CoreV1Api(inside)
        assert core.list_namespaced_pod(namespace).items == []
        with pytest.raises(official.ApiException, match="403"):
            core.list_namespaced_config_map(namespace)


def test_a_killed_server_comes_back_with_its_data(own: ControlPlane) -> None:
    """After SIGKILL and a restart the address, the token and every object are those of before."""
    before = own.client()
    created = before.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}
    )
    url = own.url
    own.kill()
    own.restart()
    assert own.url == url
    after = before.get("v1", "ConfigMap", "c", "default")
    assert after["metadata"] == created["metadata"]
    before.close()


def test_the_kubeconfig_is_the_administrators(control_plane: ControlPlane) -> None:
    """The kubeconfig alone is enough to do everything."""
    connect: Any = config.new_client_from_config
    with connect(str(control_plane.kubeconfig)) as administrator:
        administrator.rest_client.pool_manager.connection_pool_kw["ssl_context"] = tls(control_plane.ca)
        names = [str(item.metadata) for item in official.CoreV1Api(administrator).list_namespace().items]
    assert any("kube-system" in name for name in names)


def test_a_removed_namespace_leaves_nothing(api: Client, namespace: str) -> None:
    """Removing a namespace removes its objects too, those with finalizers included."""
    held = pod(namespace)
    held["metadata"]["finalizers"] = ["example.test/held"]
    api.create(held)
    api.delete_namespace(namespace)
    with pytest.raises(AnswerError, match="404"):
        api.get("v1", "Namespace", namespace)
    assert not [item for item in api.list("v1", "Pod") if item["metadata"]["namespace"] == namespace]


def test_controllers_run_where_they_are_wanted(managed_control_plane: ControlPlane) -> None:
    """With kube-controller-manager a Deployment gets its pods, a deleted owner takes them along, namespaces end."""
    client = managed_control_plane.client()
    name = "managed"
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    eventually(lambda: client.count("v1", "ServiceAccount", name), what="no ServiceAccount default")
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": pod(name)["spec"]}
    deployment = client.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d", "namespace": name},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
        }
    )
    eventually(lambda: client.count("v1", "Pod", name) == 2, what="the Deployment has not two pods")
    client.delete(deployment)
    eventually(lambda: client.count("v1", "Pod", name) == 0, what="the pods outlive their Deployment")
    client.request("DELETE", f"/api/v1/namespaces/{name}")
    eventually(lambda: client.request("GET", f"/api/v1/namespaces/{name}").status == 404, what="the namespace stays")
    client.close()


def test_every_request_is_in_the_audit_log(tmp_path: Path) -> None:
    """With an audit log each request is one line with its verb and its user."""
    log = tmp_path / "audit.jsonl"
    server = ControlPlane(tmp_path / "audited", Options(audit_log=log))
    server.start()
    try:
        client = server.client()
        missing = client.request("PATCH", "/api/v1/namespaces/default/pods/none", {}, content_type=MERGE_PATCH)
        client.close()
    finally:
        server.stop()
    lines = [line for line in log.read_text(encoding="utf-8").splitlines() if "/pods/none" in line]
    assert missing.status == 404
    assert len(lines) == 1
    assert yaml.safe_load(lines[0])["verb"] == "patch"
