"""What the Job controller makes of our exit codes, by the podFailurePolicy of the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import pytest

from testbed.controlplane.client import Object, eventually
from tests.cluster.manifests.site import Site, add_namespace, job_of
from tests.support.pods.container import Program
from tests.support.pods.kubelet import Kubelet
from tests.support.tables import table

pytestmark = pytest.mark.controlplane

#: By the name of a Job: the exit code of the first of its pods. Every later one ends well.
FIRST: Final = {
    "done": 0,
    "cluster-away": 1,
    "usage": 2,
    "refused": 3,
    "interrupted": 6,
    "killed": 137,
    "terminated": 143,
    "evicted": 137,
    "evicted-and-interrupted": 6,
    "evicted-and-refused": 3,
}
NAMESPACE: Final = "job-controller"


@pytest.fixture(scope="module")
def jobs(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Object]]:
    """The manifest's Job once for each way in which its first pod can end, after all of them are over."""
    left = dict(FIRST)

    def program(pod: Object) -> Program:
        name = pod["metadata"]["labels"]["job-name"]
        code = left.pop(name, None)
        if code is not None and name.startswith("evicted"):
            # Without a time the disruption controller takes it for an old one, and makes it False (Kubernetes 1.31).
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            disruption = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
            status = {"status": {"conditions": [{**disruption, "lastTransitionTime": now}]}}
            assert site.admin.patch(pod, status, subresource="status").status == 200
        return Program(("sh", "-c", f"exit {code or 0}"))

    add_namespace(site.admin, NAMESPACE, account=True)
    with Kubelet(site.server, tmp_path_factory.mktemp("pods"), program, namespace=NAMESPACE):
        for name in FIRST:
            site.admin.create(job_of(name=name, namespace=NAMESPACE))
        eventually(lambda: len(_over(site)) == len(FIRST), what="Jobs are not over", seconds=120)
        yield _over(site)
    site.admin.delete_namespace(NAMESPACE)


def _over(site: Site) -> dict[str, Object]:
    found = {}
    for job in site.admin.list("batch/v1", "Job", NAMESPACE):
        for condition in job["status"].get("conditions", ()):
            if condition["type"] in {"Complete", "Failed"} and condition["status"] == "True":
                found[job["metadata"]["name"]] = {**job["status"], "over": condition}
    return found


@pytest.mark.parametrize("name", ["usage", "refused"])
def test_what_another_attempt_cannot_mend_fails_the_job_at_once(jobs: dict[str, Object], name: str) -> None:
    """After 2 and 3 there is no second pod, and the Job names the exit code."""
    over = jobs[name]["over"]
    assert (over["type"], over["reason"], jobs[name]["failed"]) == ("Failed", "PodFailurePolicy", 1)
    assert f"exit code {FIRST[name]}" in over["message"]
    assert "succeeded" not in jobs[name]


AGAIN = "After 1, 6, SIGTERM and SIGKILL a second pod finishes the work, and one of the attempts is used up."
REPLACED = "A pod that was drained or evicted is replaced, and no attempt is used up, whatever its exit code."


@table(
    "name failed",
    *((AGAIN, (name, 1)) for name in ("cluster-away", "interrupted", "killed", "terminated")),
    *((REPLACED, (f"evicted{how}", 0)) for how in ("", "-and-interrupted", "-and-refused")),
    ("Exit 0 completes the Job.", ("done", 0)),
)
def test_what_another_attempt_may_mend_is_tried_again_and_counted(
    jobs: dict[str, Object], name: str, failed: int
) -> None:
    """The Job is complete after one pod that ended well, and counts the attempts that failed before it."""
    found = jobs[name]
    assert (found["over"]["type"], found.get("failed", 0), found["succeeded"]) == ("Complete", failed, 1)
