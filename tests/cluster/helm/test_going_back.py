"""Back to the old release: manifests/revert.yaml by hand, then ``helm rollback``. No hook does it for anybody."""

from __future__ import annotations

from typing import Final

import pytest

from testbed.controlplane.client import eventually
from tests.cluster.helm.release import NAME, Release, Way, hooks
from tests.cluster.manifests.site import NAMESPACE, NEW, OLD, documents

pytestmark = pytest.mark.controlplane

HELM: Final = Way("helm4")


@pytest.fixture
def upgraded(release: Release) -> Release:
    """A release that the hook has migrated, with the new operator running."""
    release.hooks = hooks()
    release.install(HELM, OLD)
    release.site.plant()
    done = release.upgrade(HELM, NEW)
    assert done.returncode == 0, done.stderr
    release.wait_for_pods()
    return release


def roll_back(release: Release) -> None:
    """``helm rollback`` to the revision before, with the old operator running afterwards."""
    ran = len(release.kubelet.containers)
    done = release.helm.run(HELM.program, "rollback", NAME)
    assert done.returncode == 0, done.stderr
    deployment = release.deployment()["spec"]
    [container] = deployment["template"]["spec"]["containers"]
    assert (deployment["replicas"], container["image"]) == (2, f"example.test/grove-operator:{OLD}")
    release.wait_for_pods()
    assert len(release.kubelet.containers) == ran, "a rollback ran a hook"


def test_the_reverse_job_before_the_rollback_brings_every_hash_back(upgraded: Release) -> None:
    """The Job stops the new operator and translates everything back; the rollback then starts the old one."""
    site = upgraded.site
    migrated = site.objects()
    for item in documents("revert.yaml"):
        site.admin.apply(item)
    eventually(lambda: "Complete" in _conditions(upgraded), what="the reverse Job is not complete", seconds=180)
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


def _conditions(release: Release) -> set[str]:
    status = release.site.admin.get("batch/v1", "Job", "grove-migrator-revert", NAMESPACE)["status"]
    return {condition["type"] for condition in status.get("conditions", ()) if condition["status"] == "True"}
