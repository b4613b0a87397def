"""Back to the old release: manifests/revert.yaml by hand, then ``helm rollback``. No hook does it for anybody."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from testbed.controlplane.client import Object, eventually
from tests.cluster.helm.cluster import Cluster
from tests.cluster.manifests.site import NAMESPACE, NEW, OLD, documents, job_of

pytestmark = pytest.mark.controlplane


@pytest.fixture
def namespace() -> str:
    """That of the manifests."""
    return NAMESPACE


@pytest.fixture
def upgraded(cluster: Cluster) -> Cluster:
    """A release that the Job has migrated, with the new operator running."""
    cluster.install(OLD)
    carry_out(cluster, "job.yaml")
    cluster.upgrade_to(NEW)
    cluster.running(2)
    return cluster


def carry_out(cluster: Cluster, manifest: str) -> None:
    """Apply a manifest, and wait until its Job is complete."""
    for item in documents(manifest):
        cluster.site.admin.apply(item)
    name = job_of(manifest)["metadata"]["name"]
    eventually(lambda: cluster.site.ended(name) == "Complete", what=f"{name} is not complete", seconds=180)


def roll_back(cluster: Cluster) -> None:
    """``helm rollback`` to the revision before, with the old operator running afterwards."""
    cluster.succeed("rollback", "grove")
    assert (cluster.site.replicas(), cluster.image()) == (2, f"example.test/grove-operator:{OLD}")
    cluster.running(2)


def test_the_reverse_job_before_the_rollback_brings_every_hash_back(upgraded: Cluster) -> None:
    """The Job stops the new operator and translates everything back; the rollback then starts the old one."""
    site = upgraded.site
    migrated = site.objects()
    carry_out(upgraded, "revert.yaml")
    assert site.objects() == site.expected(migrated, NEW, OLD) != migrated
    assert (site.replicas(), site.operators()) == (0, [])
    roll_back(upgraded)
    assert site.objects() == site.expected(migrated, NEW, OLD)


@pytest.mark.slow
def test_a_rollback_alone_gives_the_new_hashes_to_the_old_operator(upgraded: Cluster) -> None:
    """The negative control: Helm goes back without a word, and every stored hash is one that alpha.9 does not compute.

    This is what ``--atomic``, ``--rollback-on-failure`` and a remediation of Flux do by themselves.
    """
    site = upgraded.site
    migrated = site.objects()
    roll_back(upgraded)
    assert site.objects() == migrated
    stored, computed = _generation_hashes(migrated), _generation_hashes(site.expected(migrated, NEW, OLD))
    assert len(stored) == 2
    assert not stored & computed


def _generation_hashes(objects: Mapping[tuple[str, str], Object]) -> set[str]:
    return {item["status"]["currentGenerationHash"] for (kind, _), item in objects.items() if kind == "PodCliqueSet"}
