"""A pod of the Job that is asked to end: the Job goes on with another one, whatever the run was doing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.controlplane.client import Object, eventually
from tests.cluster.manifests.site import NAMESPACE, NEW, OLD, Site, arguments, job_of
from tests.support.pods.kubelet import Kubelet
from tests.support.pods.own_image import own_image

pytestmark = pytest.mark.controlplane

#: A run sends eight patches at once, and finishes every set that it has begun.
_SETS = 8


@pytest.fixture
def kubelet(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubelet]:
    """A cluster to migrate, with a kubelet that runs our image as this repository's command line."""
    site.fill()
    monkeypatch.setenv("PATCH_DELAY", "0.06")
    with Kubelet(site.server, tmp_path / "pods", own_image, namespace=NAMESPACE) as running:
        yield running
    site.admin.delete(_job())
    site.clear()


@pytest.mark.parametrize(("writes", "code"), [(False, 1), (True, 6)], ids=["nothing written yet", "half written"])
def test_a_pod_that_is_deleted_never_fails_the_job(site: Site, kubelet: Kubelet, code: int, *, writes: bool) -> None:
    """SIGTERM ends the run with 1 or 6, which uses up one attempt, and the next pod migrates everything."""
    if writes:
        site.plant(more=_SETS)
    before = site.objects()
    site.admin.create(_job())
    eventually(lambda: kubelet.containers and "preflight" in kubelet.containers[0].log, what="no run", seconds=120)
    if writes:
        eventually(lambda: site.objects() != before, what="nothing was written", seconds=120)
    path = site.admin.kind("v1", "Pod").path(NAMESPACE, kubelet.containers[0].name)
    site.admin.call("DELETE", path, {"gracePeriodSeconds": 300})
    eventually(lambda: site.job()["status"].get("succeeded"), what="the Job is not complete", seconds=180)
    codes = [span.code for container in kubelet.containers for span in container.spans]
    assert (site.job()["status"]["failed"], codes) == (1, [code, 0])
    assert site.objects() == site.expected(before, OLD, NEW)


def _job() -> Object:
    """The Job of the manifest, slower, so that there is a middle."""
    job = job_of()
    arguments(job).append("--concurrency=1")
    return job
