"""What becomes of the Job when the node of its pod is lost: nobody reports how the pod ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from testbed.controlplane.client import Object, eventually
from tests.cluster.helm.reader import shell
from tests.cluster.manifests.site import Site, add_namespace, job_of, started
from tests.repo.pages import blocks
from tests.support.pods.container import Program
from tests.support.pods.kubelet import Kubelet

pytestmark = pytest.mark.controlplane

NAMESPACE: Final = "lost-node"
#: What a lost node needs beside the Job controller: pods of nodes that are out of service are given up.
CONTROLLERS: Final = (
    "job-controller,pod-garbage-collector-controller,serviceaccount-controller,namespace-controller,"
    "garbage-collector-controller,root-ca-certificate-publisher-controller"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An API server whose controllers give up pods of nodes that are out of service."""
    with started(tmp_path_factory.mktemp("lost-node"), controllers=CONTROLLERS) as found:
        found.namespace = NAMESPACE
        yield found


@pytest.fixture
def home(site: Site) -> Iterator[Site]:
    """A namespace with the Job's account."""
    add_namespace(site.admin, NAMESPACE, account=True)
    yield site
    site.admin.delete_namespace(NAMESPACE)
    path = f"/api/v1/namespaces/{NAMESPACE}"
    eventually(lambda: site.admin.request("GET", path).status == 404, what="the namespace is still there")


def lose(home: Site, directory: Path, **spec: object) -> Object:
    """Run the Job's first pod on a node that is lost then, and delete the pod as the node's taint does; the pod."""
    job = job_of(namespace=NAMESPACE)
    job["spec"] |= spec
    with Kubelet(home.server, directory, lambda _: None, namespace=NAMESPACE):
        home.admin.create(job)
        eventually(lambda: [pod["status"]["phase"] for pod in _pods(home)] == ["Running"], what="no pod runs")
    [pod] = _pods(home)
    path = home.admin.kind_of(pod).path(NAMESPACE, pod["metadata"]["name"])
    home.admin.call("DELETE", path, {"gracePeriodSeconds": 300})
    return pod


def type_in(home: Site, number: int, directory: Path, **variables: str) -> None:
    """Run one of the page's blocks for this case."""
    block = blocks("upgrade", "When the Job is cut off")[number]
    shell(block, directory, KUBECONFIG=str(home.server.kubeconfig), HOME=str(directory), **variables)


def test_the_job_waits_for_a_lost_pod_and_force_does_not_help(home: Site, tmp_path: Path) -> None:
    """No other pod starts while the lost one is Terminating; deleted by force it stays, for the Job has a finalizer."""
    pod = lose(home, tmp_path / "lost")
    for _ in range(2):
        eventually(lambda: _job(home).get("terminating") == 1, what="the Job does not see that its pod is deleted")
        assert [found["metadata"]["uid"] for found in _pods(home)] == [pod["metadata"]["uid"]]
        assert (_job(home).get("active", 0), _conditions(home)) == (0, set())
        home.admin.delete(pod)  # with a grace period of 0


def test_a_node_out_of_service_lets_another_pod_finish(home: Site, tmp_path: Path) -> None:
    """With the taint of a node that is out of service the lost pod is given up, and counts as one attempt."""
    lose(home, tmp_path / "lost")
    node = home.admin.get("v1", "Node", "node")
    not_ready = [{"type": "Ready", "status": "False"}]
    assert home.admin.patch(node, {"status": {"conditions": not_ready}}, subresource="status").status == 200
    type_in(home, 0, tmp_path, NODE="node")
    try:
        eventually(lambda: _job(home).get("failed") == 1, what="the lost pod is not given up")
        with Kubelet(home.server, tmp_path / "next", lambda _: Program(("true",)), namespace=NAMESPACE):
            eventually(lambda: "Complete" in _conditions(home), what="the Job is not complete")
    finally:
        home.admin.delete(node)
    assert (_job(home)["failed"], _job(home)["succeeded"]) == (1, 1)


def test_the_job_made_anew_does_not_wait(home: Site, tmp_path: Path) -> None:
    """Deleted and created again, as Helm does at the next upgrade, the Job gets its pod beside the lost one."""
    lost = lose(home, tmp_path / "lost")
    type_in(home, 1, tmp_path, NAMESPACE=NAMESPACE)
    home.admin.create(job_of(namespace=NAMESPACE))
    eventually(lambda: _job(home).get("active") == 1, what="there is no other pod")
    assert lost["metadata"]["uid"] in [pod["metadata"]["uid"] for pod in _pods(home)]


def test_the_deadline_does_not_end_a_job_that_waits_for_a_lost_pod(home: Site, tmp_path: Path) -> None:
    """At its deadline the Job is about to fail, and has failed only when the pod has ended: Helm waits until then."""
    pod = lose(home, tmp_path / "lost", activeDeadlineSeconds=1)
    eventually(lambda: "FailureTarget" in _conditions(home), what="the deadline has no effect")
    assert "Failed" not in _conditions(home)
    assert len(_pods(home)) == 1
    assert home.admin.patch(pod, {"status": {"phase": "Failed"}}, subresource="status").status == 200
    eventually(lambda: "Failed" in _conditions(home), what="the Job has not failed")


def _pods(home: Site) -> list[Object]:
    return home.admin.list("v1", "Pod", NAMESPACE)


def _job(home: Site) -> Object:
    status: Object = home.job()["status"]
    return status


def _conditions(home: Site) -> set[str]:
    return {found["type"] for found in _job(home).get("conditions", ()) if found["status"] == "True"}
