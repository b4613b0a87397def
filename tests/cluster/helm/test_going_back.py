"""Back to the old release: manifests/revert.yaml by hand, then ``helm rollback``. No hook does it for anybody."""

from __future__ import annotations

from typing import Final

import pytest

from testbed.controlplane.client import eventually
from tests.cluster.helm.release import NAME, Release, Way
from tests.cluster.manifests.site import NAMESPACE, NEW, OLD, documents, of_kind

pytestmark = pytest.mark.controlplane

HELM: Final = Way("helm4")


@pytest.fixture
def upgraded(release: Release) -> Release:
    """A release that the Job has migrated, with the new operator running."""
    release.install(HELM, OLD)
    release.site.plant()
    carry_out(release, "job.yaml")
    release.upgrade_to(HELM, NEW)
    release.wait_for_pods()
    return release


def carry_out(release: Release, manifest: str) -> None:
    """Apply a manifest, and wait until its Job is complete."""
    objects = documents(manifest)
    for item in objects:
        release.site.admin.apply(item)
    [job] = of_kind(objects, "Job")
    name = job["metadata"]["name"]
    eventually(lambda: "Complete" in _conditions(release, name), what=f"{name} is not complete", seconds=180)


def roll_back(release: Release) -> None:
    """``helm rollback`` to the revision before, with the old operator running afterwards."""
    done = release.helm.run(HELM.program, "rollback", NAME)
    assert done.returncode == 0, done.stderr
    deployment = release.deployment()["spec"]
    [container] = deployment["template"]["spec"]["containers"]
    assert (deployment["replicas"], container["image"]) == (2, f"example.test/grove-operator:{OLD}")
    release.wait_for_pods()


def test_the_reverse_job_before_the_rollback_brings_every_hash_back(upgraded: Release) -> None:
    """The Job stops the new operator and translates everything back; the rollback then starts the old one."""
    site = upgraded.site
    migrated = site.objects()
    carry_out(upgraded, "revert.yaml")
    assert site.objects() == site.expected(migrated, NEW, OLD) != migrated
    assert (upgraded.deployment()["spec"]["replicas"], site.operators()) == (0, [])
    roll_back(upgraded)
    assert site.objects() == site.expected(migrated, NEW, OLD)


@pytest.mark.slow
def test_a_rollback_alone_gives_the_new_hashes_to_the_old_operator(upgraded: Release) -> None:
    """The negative control: Helm goes back without a word, and every stored hash is one that alpha.9 does not compute.

    This is what ``--atomic``, ``--rollback-on-failure`` and a remediation of Flux do by themselves.
    """
    site = upgraded.site
    migrated = site.objects()
    roll_back(upgraded)
    assert site.objects() == migrated
    stored = [item["status"]["currentGenerationHash"] for (kind, _), item in migrated.items() if kind == "PodCliqueSet"]
    old = site.expected(migrated, NEW, OLD)
    computed = [item["status"]["currentGenerationHash"] for (kind, _), item in old.items() if kind == "PodCliqueSet"]
    assert len(stored) == 2
    assert not set(stored) & set(computed)


def _conditions(release: Release, name: str) -> set[str]:
    status = release.site.admin.get("batch/v1", "Job", name, NAMESPACE)["status"]
    return {condition["type"] for condition in status.get("conditions", ()) if condition["status"] == "True"}
