"""A cluster that Helm installs into, with a kubelet for what it installs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.controlplane.client import eventually
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.options import Options
from testbed.controlplane.server import ControlPlane
from testbed.gangs import MAPPED
from tests.cluster.helm.cluster import Cluster
from tests.cluster.helm.release import Helm, Release
from tests.cluster.manifests.audit import Audit
from tests.cluster.manifests.site import NAMESPACE, WORKLOADS, Site
from tests.support.pods.kubelet import Kubelet
from tests.support.pods.own_image import own_image


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An API server with controllers and Grove's CRDs, and without anything of ours."""
    directory = tmp_path_factory.mktemp("helm")
    server = ControlPlane(directory, Options(controller_manager=True, audit_log=directory / "audit.jsonl")).start()
    admin = server.client()
    found = Site(server, admin, directory)
    apply_crds(server, MAPPED)
    for name in (NAMESPACE, WORKLOADS):
        admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield found
    admin.close()
    server.stop()


@pytest.fixture
def kubelet(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    """A kubelet that runs our image as this repository's command line."""
    with Kubelet(site.server, tmp_path_factory.mktemp("pods"), own_image, namespace=NAMESPACE) as running:
        yield running


@pytest.fixture
def audit(site: Site) -> Audit:
    """What our account asks of the API server from now on."""
    return Audit(site.directory / "audit.jsonl")


@pytest.fixture
def release(site: Site, kubelet: Kubelet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """A release that is not installed yet; afterwards it is gone, and all that a run left too."""
    site.clear()
    found = Release(site, kubelet, Helm(site.server.kubeconfig, tmp_path_factory.mktemp("helm-home")))
    yield found
    found.uninstall()
    for job in site.admin.list("batch/v1", "Job", NAMESPACE):  # hooks do not belong to a release
        site.admin.delete(job)
    eventually(lambda: not site.admin.list("v1", "Pod", NAMESPACE), what="pods of the release are still there")


@pytest.fixture
def namespace() -> str:
    """Where Helm installs the operator of `cluster`; a module may say otherwise."""
    return "dynamo-system"


@pytest.fixture
def cluster(site: Site, namespace: str, tmp_path: Path) -> Iterator[Cluster]:
    """The cluster, without any release; afterwards nothing of one is left."""
    there = replace(site, namespace=namespace, planted=[])
    there.admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    there.clear()
    home = tmp_path / "home"
    home.mkdir()
    with Kubelet(site.server, tmp_path / "pods", own_image, namespace=namespace):
        found = Cluster(there, Helm(site.server.kubeconfig, home), tmp_path)
        yield found
        found.clear()
