"""The imitated kubelet does what scheduler and kubelet do, as far as operators and Jobs can tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.controlplane.client import Client, Object, eventually, job_end
from testbed.controlplane.server import ControlPlane
from tests.support.pods.container import Program, image_of
from tests.support.pods.kubelet import Kubelet
from tests.upgrade.builds import need

pytestmark = pytest.mark.upgrade

NAMESPACE = "kubelet"
TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.fixture
def client(managed_control_plane: ControlPlane) -> Iterator[Client]:
    """The administrator's client, and a namespace to work in."""
    need()
    found = managed_control_plane.client()
    found.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})

    def exists(kind: str, name: str) -> bool:
        return found.request("GET", found.kind("v1", kind).path(NAMESPACE, name)).status == 200

    eventually(lambda: exists("ServiceAccount", "default"), what="the namespace has no ServiceAccount")
    eventually(lambda: exists("ConfigMap", "kube-root-ca.crt"), what="the namespace has no CA")
    yield found
    found.delete_namespace(NAMESPACE)
    found.close()


@pytest.fixture
def kubelet(managed_control_plane: ControlPlane, client: Client, tmp_path: Path) -> Iterator[Kubelet]:
    """A kubelet for which images that begin with "script:" are shell scripts; it ends before the namespace does."""
    del client

    def programs(pod: Object) -> Program | None:
        return Program(("sh", "-c")) if image_of(pod).startswith("script:") else None

    with Kubelet(managed_control_plane, tmp_path / "pods", programs) as found:
        yield found


def pod_spec(script: str, **rest: object) -> Object:
    """A pod whose one container is a shell script."""
    return {"containers": [{"name": "main", "image": "script:1", "args": [script]}], **rest}


def deployment(name: str, spec: Object) -> Object:
    """A Deployment of one such pod."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }


def scale(client: Client, name: str, replicas: int) -> None:
    """Scale a Deployment, and wait until so many pods are there."""
    found = client.get("apps/v1", "Deployment", name, NAMESPACE)
    assert client.patch(found, {"spec": {"replicas": replicas}}, subresource="scale").status == 200
    eventually(lambda: client.count("v1", "Pod", NAMESPACE) == replicas, what=f"there are not {replicas} pods")


def test_a_container_finds_its_token_and_is_stopped_by_scaling_to_zero(client: Client, kubelet: Kubelet) -> None:
    """A Deployment's process has the in-cluster files, and scaling to zero ends it by SIGTERM."""
    script = (
        f"cat {TOKENS}/namespace; echo; head -c 27 {TOKENS}/ca.crt; echo; wc -c < {TOKENS}/token; "
        "echo $KUBERNETES_SERVICE_HOST; trap 'echo told to end; exit 0' TERM; while :; do sleep 0.1; done"
    )
    client.create(deployment("tidy", pod_spec(script)))
    eventually(lambda: "127.0.0.1" in kubelet.log("tidy"), what="the script does not run")
    namespace, ca, size, host = kubelet.log("tidy").split("\n")[:4]
    assert (namespace, ca, host) == (NAMESPACE, "-----BEGIN CERTIFICATE-----", "127.0.0.1")
    assert int(size) > 100
    scale(client, "tidy", 0)
    assert kubelet.log("tidy").endswith("told to end\n")
    assert [span.code for span in kubelet.spans("script:1")] == [0]
    assert not Path(TOKENS).exists()


def test_a_process_that_does_not_end_is_killed_after_the_grace_period(client: Client, kubelet: Kubelet) -> None:
    """SIGTERM alone is not enough for some; the pod goes nevertheless."""
    script = "trap '' TERM; echo up; while :; do sleep 0.1; done"
    client.create(deployment("stubborn", pod_spec(script, terminationGracePeriodSeconds=1)))
    eventually(lambda: "up" in kubelet.log("stubborn"), what="the script does not run")
    scale(client, "stubborn", 0)
    assert [span.code for span in kubelet.spans("script:1")] == [137]


def test_a_container_that_ends_is_started_again(client: Client, kubelet: Kubelet) -> None:
    """Under a Deployment a process that exits is restarted, in the same pod."""
    client.create(deployment("restless", pod_spec("exit 3")))
    eventually(lambda: len(kubelet.spans("script:1")) > 1, what="it was not started again")
    [pod] = client.list("v1", "Pod", NAMESPACE)

    def restarts() -> int:
        status = client.get("v1", "Pod", pod["metadata"]["name"], NAMESPACE)["status"]
        return int(status["containerStatuses"][0]["restartCount"])

    eventually(restarts, what="no restart is reported")


@pytest.mark.parametrize(("code", "condition"), [(0, "Complete"), (3, "Failed")])
def test_a_job_learns_how_its_pod_ended(client: Client, kubelet: Kubelet, code: int, condition: str) -> None:
    """Exit code and termination message become the pod's status, and the Job succeeds or fails by them."""
    del kubelet
    script = f"echo the reason > /dev/termination-log; exit {code}"
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"ends-with-{code}", "namespace": NAMESPACE},
        "spec": {"backoffLimit": 0, "template": {"spec": pod_spec(script, restartPolicy="Never")}},
    }
    client.create(job)

    def end() -> tuple[str, str]:
        return job_end(client.get("batch/v1", "Job", f"ends-with-{code}", NAMESPACE)) or ("", "")

    eventually(lambda: end()[0] == condition, what=f"the Job is not {condition}")
    [pod] = client.list("v1", "Pod", NAMESPACE)
    state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["message"]) == (code, "the reason\n")


def test_a_workload_pod_is_bound_and_reported_ready_once_its_gates_are_gone(client: Client, kubelet: Kubelet) -> None:
    """A pod with a scheduling gate waits; without it, it is bound and becomes Ready, and deletion removes it."""
    del kubelet
    spec: Object = {"containers": [{"name": "main", "image": "busybox:1.36"}]}
    gates = [{"name": "example.test/gate"}]
    metadata = {"name": "gated", "namespace": NAMESPACE}
    kind = {"apiVersion": "v1", "kind": "Pod"}
    pod = client.create({**kind, "metadata": metadata, "spec": {**spec, "schedulingGates": gates}})
    client.create({**kind, "metadata": {**metadata, "name": "free"}, "spec": spec})

    def ready(name: str) -> bool:
        conditions = client.get("v1", "Pod", name, NAMESPACE)["status"].get("conditions") or ()
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    eventually(lambda: ready("free"), what="the pod without gates is not ready")
    assert "nodeName" not in client.get("v1", "Pod", "gated", NAMESPACE)["spec"]
    assert client.patch(pod, [{"op": "remove", "path": "/spec/schedulingGates"}]).status == 200
    eventually(lambda: ready("gated"), what="the pod is not ready")
    client.call("DELETE", client.kind("v1", "Pod").path(NAMESPACE, "gated"))
    eventually(lambda: client.count("v1", "Pod", NAMESPACE) == 1, what="the pod is still there")
