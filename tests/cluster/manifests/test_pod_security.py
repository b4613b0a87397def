"""The Job's pod is admitted where Pod Security is restricted, and by no more than it needs for that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from testbed.controlplane.client import Answer, Object, eventually
from tests.cluster.manifests.site import Site, add_namespace, job_of, made

pytestmark = pytest.mark.controlplane

NAMESPACE: Final = "restricted"
ENFORCE: Final = "pod-security.kubernetes.io/enforce"
JOBS: Final = ("job.yaml", "revert.yaml")

#: Where the pod's settings for the restricted level are.
NEEDED: Final = (
    ("securityContext", "runAsNonRoot"),
    ("securityContext", "seccompProfile"),
    ("containers", 0, "securityContext", "allowPrivilegeEscalation"),
    ("containers", 0, "securityContext", "capabilities"),
)


@pytest.fixture(scope="module")
def restricted(site: Site) -> Iterator[Site]:
    """A namespace that admits restricted pods only, with the Job's account."""
    labels = {ENFORCE: "restricted", f"{ENFORCE}-version": "latest"}
    add_namespace(site.admin, NAMESPACE, labels=labels, account=True)
    yield site
    site.admin.delete_namespace(NAMESPACE)


def ask(site: Site, spec: Object) -> Answer:
    """Whether the server would create a pod."""
    body = made("v1", "Pod", "x", NAMESPACE, spec=spec)
    return site.admin.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body, query={"dryRun": "All"})


@pytest.mark.parametrize("name", JOBS)
def test_the_job_controller_gets_its_pod(restricted: Site, name: str) -> None:
    """The Job is created without a warning of Pod Security, and the controller creates its pod."""
    job = job_of(name, namespace=NAMESPACE)
    path = restricted.admin.kind_of(job).path(NAMESPACE)
    created = restricted.admin.request("POST", path, job)
    assert created.status == 201, created.body
    assert "Warning" not in created.headers
    selector = f"job-name={job['metadata']['name']}"
    eventually(lambda: restricted.admin.list("v1", "Pod", NAMESPACE, selector=selector), what="there is no pod")
    restricted.admin.delete(job)
    eventually(lambda: not restricted.admin.list("v1", "Pod", NAMESPACE), what="the pod is still there")


@pytest.mark.parametrize("needed", NEEDED, ids=lambda path: str(path[-1]))
def test_each_setting_is_needed(restricted: Site, needed: tuple[Any, ...]) -> None:
    """Without any one of them the same pod is refused: it is really this level that is enforced."""
    spec = job_of()["spec"]["template"]["spec"]
    assert ask(restricted, spec).status == 201
    *way, last = needed
    holder = spec
    for step in way:
        holder = holder[step]
    del holder[last]
    refused = ask(restricted, spec)
    assert refused.status == 403
    assert "restricted" in refused.body["message"]
    assert str(last) in refused.body["message"]


def test_the_pod_is_stricter_than_restricted() -> None:
    """Nothing to write to, a number for its user, memory that it cannot exceed, no sidecar, no Service variables."""
    for name in JOBS:
        template = job_of(name)["spec"]["template"]
        [container] = template["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert template["spec"]["securityContext"]["runAsUser"] > 0
        assert container["resources"]["limits"]["memory"] == container["resources"]["requests"]["memory"]
        assert template["spec"]["enableServiceLinks"] is False
        assert template["metadata"]["labels"]["sidecar.istio.io/inject"] == "false"
        assert template["metadata"]["annotations"]["linkerd.io/inject"] == "disabled"
        assert not {"volumes", "hostNetwork", "hostPID", "hostIPC"} & set(template["spec"])
