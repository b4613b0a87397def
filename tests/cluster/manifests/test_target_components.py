"""The Job reads the target from an image volume: kustomize builds it, and the API server takes it."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from testbed.controlplane.client import Client, Object
from testbed.controlplane.options import Options
from testbed.controlplane.server import ControlPlane
from testbed.helm import PROGRAMS
from tests.cluster.manifests.site import MANIFESTS, add_namespace, by_name, documents, made, of_kind

NAMESPACE = "restricted"
# Minors of Kubernetes: from which on "restricted" admits image volumes, and from which on they need no feature gate.
_ADMITTED, _BY_DEFAULT = 33, 35
_REFUSED = 'restricted volume types (volume "target" uses restricted volume type "unknown")'


def minor_of(client: Client) -> int:
    """The minor version of an API server."""
    return int(client.request("GET", "/version").body["minor"])


@pytest.fixture
def built(tmp_path: Path) -> list[Object]:
    """What kustomize builds of the manifest with the component."""
    shutil.copy(MANIFESTS / "job.yaml", tmp_path)
    shutil.copytree(MANIFESTS / "components" / "target-image", tmp_path / "target-image")
    (tmp_path / "kustomization.yaml").write_text("resources: [job.yaml]\ncomponents: [target-image]\n")
    command = [str(PROGRAMS["kustomize"].binary()), "build", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


def test_the_component_changes_the_target_and_adds_a_volume(built: list[Object]) -> None:
    """The Job has --to-binary in place of --to, and a volume mounted at /target, read-only; nothing else differs."""
    with_it = by_name(built)
    spec = with_it["Job", "grove-migrator"]["spec"]["template"]["spec"]
    [container], [volume] = spec["containers"], spec.pop("volumes")
    assert container.pop("volumeMounts") == [{"name": volume["name"], "mountPath": "/target", "readOnly": True}]
    assert container["args"][1] == "--to-binary=/target/grove-operator"
    container["args"][1] = "--to=v0.1.0-alpha.11"
    assert with_it == by_name(documents("job.yaml"))


@pytest.mark.controlplane
def test_the_pod_is_admitted_where_pods_are_restricted(built: list[Object], tmp_path: Path) -> None:
    """The API server validates Job and pod strictly, keeps the volume, and Pod Security admits it.

    Where image volumes are alpha, Pod Security refuses the pod because of its volume, and of nothing else.
    """
    [job] = of_kind(built, "Job")
    spec = job["spec"]["template"]["spec"]
    job["metadata"]["namespace"] = NAMESPACE
    body = made("v1", "Pod", "x", NAMESPACE, spec=spec)
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    options = Options(feature_gates="ImageVolume=true")
    with ControlPlane(tmp_path / "server", options) as server, closing(server.client()) as admin:
        add_namespace(admin, NAMESPACE, labels={"pod-security.kubernetes.io/enforce": "restricted"}, account=True)
        for path, item in ((f"/api/v1/namespaces/{NAMESPACE}/pods", body), (admin.kind_of(job).path(NAMESPACE), job)):
            answer = admin.request("POST", path, item, query=query)
            if minor_of(admin) < _ADMITTED:
                assert answer.body["message"].endswith(_REFUSED)
                return
            assert answer.status == 201, answer.body
            assert "Warning" not in answer.headers
            kept = answer.body["spec"] if item is body else answer.body["spec"]["template"]["spec"]
            volume = next(one for one in kept["volumes"] if one["name"] == "target")
            assert volume.keys() == spec["volumes"][0].keys()


@pytest.mark.controlplane
def test_the_volume_is_kept_by_default_from_1_35_on_and_dropped_before(built: list[Object], tmp_path: Path) -> None:
    """An API server before 1.35 takes the Job and leaves volume and mount out, by default; a later one keeps both."""
    [job] = of_kind(built, "Job")
    job["metadata"]["namespace"] = "default"
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    with ControlPlane(tmp_path / "server") as server, closing(server.client()) as client:
        minor = minor_of(client)
        answer = client.request("POST", client.kind_of(job).path("default"), job, query=query)
    assert answer.status == 201, answer.body
    spec = answer.body["spec"]["template"]["spec"]
    kept = ("volumes" in spec, "volumeMounts" in spec["containers"][0])
    assert kept == ((True, True) if minor >= _BY_DEFAULT else (False, False))
