"""What the Job controller makes of our exit codes, by the podFailurePolicy of the manifest."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final

import pytest

from testbed.controlplane.client import Object, eventually
from tests.cluster.manifests.container import Container, Ended
from tests.cluster.manifests.kubelet import Kubelet
from tests.cluster.manifests.site import Site, documents, of_kind

pytestmark = pytest.mark.controlplane

#: By the name of a Job: how the first of its pods ends. Every later one ends well.
FIRST: Final = {
    "done": Ended(0),
    "cluster-away": Ended(1),
    "usage": Ended(2),
    "refused": Ended(3),
    "race-lost": Ended(4),
    "reverted": Ended(5),
    "interrupted": Ended(6),
    "killed": Ended(137),
    "terminated": Ended(143),
    "evicted": Ended(137, disrupted=True),
    "evicted-and-interrupted": Ended(6, disrupted=True),
    "evicted-and-refused": Ended(3, disrupted=True),
    "evicted-and-reverted": Ended(5, disrupted=True),
}
NAMESPACE: Final = "job-controller"


@pytest.fixture(scope="module")
def jobs(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Object]]:
    """The manifest's Job once for each way in which its first pod can end, after all of them are over."""
    left = dict(FIRST)

    def end(container: Container) -> Ended:
        return left.pop(container.pod["metadata"]["labels"]["job-name"], Ended(0))

    site.admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    account = of_kind(documents("base/serviceaccount.yaml"), "ServiceAccount")[0]
    site.admin.apply(_moved(account, account["metadata"]["name"]))
    [job] = of_kind(documents("base/job.yaml"), "Job")
    with Kubelet(site.server, NAMESPACE, tmp_path_factory.mktemp("pods"), {"grove-migrator": end}):
        for name in FIRST:
            site.admin.create(_moved(job, name))
        eventually(lambda: len(_over(site)) == len(FIRST), what="Jobs are not over", seconds=120)
        yield _over(site)
    site.admin.delete_namespace(NAMESPACE)


def _moved(item: Object, name: str) -> Object:
    moved = copy.deepcopy(item)
    moved["metadata"] |= {"name": name, "namespace": NAMESPACE}
    return moved


def _over(site: Site) -> dict[str, Object]:
    found = {}
    for job in site.admin.list("batch/v1", "Job", NAMESPACE):
        for condition in job["status"].get("conditions", ()):
            if condition["type"] in {"Complete", "Failed"} and condition["status"] == "True":
                found[job["metadata"]["name"]] = {**job["status"], "over": condition}
    return found


@pytest.mark.parametrize("name", ["usage", "refused", "reverted"])
def test_what_another_attempt_cannot_mend_fails_the_job_at_once(jobs: dict[str, Object], name: str) -> None:
    """After 2, 3 and 5 there is no second pod, and the Job says which exit code it was."""
    over = jobs[name]["over"]
    assert (over["type"], over["reason"], jobs[name]["failed"]) == ("Failed", "PodFailurePolicy", 1)
    assert f"exit code {FIRST[name].code}" in over["message"]
    assert "succeeded" not in jobs[name]


@pytest.mark.parametrize("name", ["cluster-away", "race-lost", "interrupted", "killed", "terminated"])
def test_what_another_attempt_may_mend_is_tried_again_and_counted(jobs: dict[str, Object], name: str) -> None:
    """After 1, 4, 6, SIGTERM and SIGKILL a second pod finishes the work, and one of the attempts is used up."""
    assert (jobs[name]["over"]["type"], jobs[name]["failed"], jobs[name]["succeeded"]) == ("Complete", 1, 1)


@pytest.mark.parametrize("name", ["evicted", "evicted-and-interrupted", "evicted-and-refused", "evicted-and-reverted"])
def test_a_disruption_neither_counts_nor_fails_the_job(jobs: dict[str, Object], name: str) -> None:
    """A pod that was drained or evicted is replaced, and no attempt is used up, whatever its exit code."""
    assert (jobs[name]["over"]["type"], jobs[name].get("failed", 0), jobs[name]["succeeded"]) == ("Complete", 0, 1)


def test_a_run_that_ends_well_is_one_pod(jobs: dict[str, Object]) -> None:
    """Exit 0 completes the Job."""
    assert (jobs["done"]["over"]["type"], jobs["done"].get("failed", 0), jobs["done"]["succeeded"]) == (
        "Complete",
        0,
        1,
    )
