"""What KindCluster does with an API server: stand-ins take the place of kind, helm and kubectl."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from testbed.crds.lines import load
from tests.cluster.manifests.site import NAMESPACE, NEW, OLD, Site, started
from tests.support.pods.kubelet import Kubelet
from tests.support.pods.own_image import own_image
from tests.upgrade.builds import BUILDS
from tests.upgrade.kind.cluster import KindCluster
from tests.upgrade.kind.stand_in import StandIn

pytestmark = pytest.mark.controlplane

IMAGE = "grove-migrator:stand-in"
_CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


@dataclass(frozen=True)
class Stage:
    """A KindCluster before an API server of our own, with sets as alpha.9 leaves them."""

    cluster: KindCluster
    site: Site


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """An API server with controllers, a kubelet for our image, and KindCluster in front of both."""
    directory = tmp_path_factory.mktemp("stage")
    with (
        started(directory / "server") as site,
        Kubelet(site.server, directory / "pods", own_image, namespace=NAMESPACE) as kubelet,
    ):
        site.prepare()
        site.grant()
        machine = StandIn(site.server, kubelet.log)
        with KindCluster(directory / "kind", IMAGE, run=machine) as cluster:
            site.fill()
            yield Stage(cluster, site)
        machine.close()


def test_a_run_is_the_job_with_its_exit_code_and_log(stage: Stage) -> None:
    """A run of KindCluster is manifests/job.yaml applied: it returns how the Job's pod ended, and what it logged."""
    with stage.cluster.diary() as diary:
        ran = stage.cluster.tool("run", "--to", NEW, "--stop-operator")
    assert ran.code == 0, ran.err + ran.out
    summary = next(found for found in map(json.loads, ran.err.splitlines()) if found["event"] == "summary")
    assert summary["patches"] > 0
    assert diary.created == diary.deleted == []
    [job] = stage.site.admin.list("batch/v1", "Job", NAMESPACE)
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == IMAGE
    assert stage.cluster.ended(BUILDS[OLD]) > 0
    unknown = stage.cluster.tool("run", "--to", "v9.9.9", "--stop-operator")
    assert unknown.code == 2
    assert "v9.9.9" in unknown.err + unknown.out


def test_crds_come_from_the_chart_of_the_line(stage: Stage) -> None:
    """``apply_crds`` puts the CRDs of the release's chart in force, and takes none away."""
    before = {crd["metadata"]["name"] for crd in stage.site.admin.list(*_CRD)}
    stage.cluster.apply_crds("alpha.9")
    sets = stage.site.admin.get(*_CRD, "podcliquesets.grove.io")
    [expected] = [crd for crd in load("alpha.9") if crd["metadata"]["name"] == "podcliquesets.grove.io"]
    assert sets["spec"]["versions"][0]["schema"] == expected["spec"]["versions"][0]["schema"]
    assert {crd["metadata"]["name"] for crd in stage.site.admin.list(*_CRD)} == before
