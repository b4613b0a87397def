"""A pod of the Job that is asked to end: the Job goes on with another one, whatever the run was doing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.manifests.container import Container
from tests.cluster.manifests.kubelet import Kubelet
from tests.cluster.manifests.site import NAMESPACE, NEW, OLD, Site, documents, of_kind
from tests.support.controlplane.client import Object, eventually

pytestmark = pytest.mark.controlplane

#: The event of the log after which the pod is deleted, and the exit code of the run: nothing written yet, or half.
MOMENTS: Final = {'"stage": "preflight"': 1, '"event": "patched"': 6}


@pytest.fixture
def kubelet(site: Site, tmp_path: Path) -> Iterator[Kubelet]:
    """A cluster to migrate, with a kubelet that runs our image as this repository's command line."""
    site.fill()
    with Kubelet(site.server, NAMESPACE, tmp_path / "pods", {"grove-migrator": Container.run}) as running:
        yield running
    site.admin.delete(_job())
    site.clear()


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_pod_that_is_deleted_never_fails_the_job(site: Site, kubelet: Kubelet, moment: str) -> None:
    """SIGTERM ends the run with 1 or 6, which uses up one attempt, and the next pod migrates everything."""
    before = site.objects()
    site.admin.create(_job())
    eventually(lambda: kubelet.containers and moment in kubelet.containers[0].log, what=moment, seconds=120)
    path = site.admin.kind("v1", "Pod").path(NAMESPACE, kubelet.containers[0].name)
    site.admin.call("DELETE", path, {"gracePeriodSeconds": 300})
    eventually(lambda: _status(site).get("succeeded"), what="the Job is not complete", seconds=180)
    assert (_status(site)["failed"], [found.code for found in kubelet.ended]) == (1, [MOMENTS[moment], 0])
    assert site.objects() == site.expected(before, OLD, NEW)


def _job() -> Object:
    """The Job of the manifest, slower, so that there is a middle."""
    [job] = of_kind(documents("job.yaml"), "Job")
    [container] = job["spec"]["template"]["spec"]["containers"]
    container["args"].append("--qps=10")
    return job


def _status(site: Site) -> Object:
    status: Object = site.admin.get("batch/v1", "Job", "grove-migrator", NAMESPACE)["status"]
    return status
