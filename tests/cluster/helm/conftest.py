"""A cluster that Helm installs into, with a kubelet for what it installs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.helm.cluster import Cluster
from tests.cluster.manifests.audit import audit
from tests.cluster.manifests.site import Site, add_namespace, started
from tests.support.pods.kubelet import Kubelet
from tests.support.pods.own_image import own_image

__all__ = ["audit"]


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An API server with controllers and Grove's CRDs, and without anything of ours."""
    with started(tmp_path_factory.mktemp("helm")) as found:
        found.prepare()
        yield found


@pytest.fixture
def namespace() -> str:
    """Where Helm installs the operator of `cluster`; a module may say otherwise."""
    return "dynamo-system"


@pytest.fixture
def kubelet(site: Site, namespace: str, tmp_path: Path) -> Iterator[Kubelet]:
    """A kubelet that runs our image as this repository's command line."""
    with Kubelet(site.server, tmp_path / "pods", own_image, namespace=namespace) as running:
        yield running


@pytest.fixture
def cluster(site: Site, namespace: str, tmp_path: Path, kubelet: Kubelet) -> Iterator[Cluster]:
    """The cluster, without any release; afterwards nothing of one is left."""
    del kubelet
    there = replace(site, namespace=namespace, planted=[])
    add_namespace(there.admin, namespace)
    there.clear()
    found = Cluster(there, tmp_path)
    yield found
    found.clear()
