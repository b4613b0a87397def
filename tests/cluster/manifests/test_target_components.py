"""The two ways in which the Job gets the next operator's binary: kustomize builds them, the API server takes them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from testbed.controlplane.client import Client, Object
from testbed.controlplane.options import Options
from testbed.controlplane.server import ControlPlane
from tests.cluster.manifests.site import MANIFESTS, add_namespace, by_name, made, of_kind
from tests.cluster.manifests.test_rendered import build

COMPONENTS = {"target-image": "--to-binary=/target", "target-scheme": "--to-binary=/target/scheme.json"}
NAMESPACE = "restricted"
# Minors of Kubernetes: from which on "restricted" admits image volumes, and from which on they need no feature gate.
_ADMITTED, _BY_DEFAULT = 33, 35
_REFUSED = 'restricted volume types (volume "target" uses restricted volume type "unknown")'


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """An API server with image volumes, as it is by default from 1.35 on, and a namespace of restricted pods."""
    options = Options(feature_gates="ImageVolume=true")
    with ControlPlane(tmp_path_factory.mktemp("volumes"), options) as server, closing(server.client()) as client:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        add_namespace(client, NAMESPACE, labels=labels, account=True)
        yield client


def minor_of(client: Client) -> int:
    """The minor version of an API server."""
    return int(client.request("GET", "/version").body["minor"])


def overlay(directory: Path, component: str) -> list[Object]:
    """What kustomize builds of the base with a component."""
    base, part = (os.path.relpath(MANIFESTS / name, directory) for name in ("base", f"components/{component}"))
    (directory / "kustomization.yaml").write_text(f"resources: [{base}]\ncomponents: [{part}]\n")
    return build(directory)


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_changes_the_target_and_adds_a_volume(component: str, tmp_path: Path) -> None:
    """Beside the base, the Job has --to-binary in place of --to, and a volume mounted at /target, read-only."""
    with_it, base = by_name(overlay(tmp_path, component)), by_name(build(MANIFESTS / "base"))
    spec = with_it["Job", "grove-migrator"]["spec"]["template"]["spec"]
    [container], [volume] = spec["containers"], spec.pop("volumes")
    assert container.pop("volumeMounts") == [{"name": volume["name"], "mountPath": "/target", "readOnly": True}]
    assert container["args"][1] == COMPONENTS[component]
    container["args"][1] = "--to=v0.1.0-alpha.11"
    assert with_it == base


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.controlplane
def test_the_pod_is_admitted_where_pods_are_restricted(component: str, admin: Client, tmp_path: Path) -> None:
    """The API server validates the Job and its pod strictly, keeps the volume, and Pod Security admits it.

    Where image volumes are alpha, Pod Security refuses the pod because of its volume, and of nothing else.
    """
    [job] = of_kind(overlay(tmp_path, component), "Job")
    spec = job["spec"]["template"]["spec"]
    job["metadata"]["namespace"] = NAMESPACE
    body = made("v1", "Pod", "x", NAMESPACE, spec=spec)
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    for path, item in ((f"/api/v1/namespaces/{NAMESPACE}/pods", body), (admin.kind_of(job).path(NAMESPACE), job)):
        answer = admin.request("POST", path, item, query=query)
        if component == "target-image" and minor_of(admin) < _ADMITTED:
            assert answer.body["message"].endswith(_REFUSED)
            return
        assert answer.status == 201, answer.body
        assert "Warning" not in answer.headers
        kept = answer.body["spec"] if item is body else answer.body["spec"]["template"]["spec"]
        volume = next(one for one in kept["volumes"] if one["name"] == "target")
        assert volume.keys() == spec["volumes"][0].keys()


@pytest.mark.controlplane
def test_the_volume_is_kept_by_default_from_1_35_on_and_dropped_before(tmp_path: Path) -> None:
    """An API server before 1.35 takes the Job and leaves volume and mount out, by default; a later one keeps both."""
    [job] = of_kind(overlay(tmp_path, "target-image"), "Job")
    job["metadata"]["namespace"] = "default"
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    with ControlPlane(tmp_path / "server") as server, closing(server.client()) as client:
        minor = minor_of(client)
        answer = client.request("POST", client.kind_of(job).path("default"), job, query=query)
    assert answer.status == 201, answer.body
    spec = answer.body["spec"]["template"]["spec"]
    kept = ("volumes" in spec, "volumeMounts" in spec["containers"][0])
    assert kept == ((True, True) if minor >= _BY_DEFAULT else (False, False))
