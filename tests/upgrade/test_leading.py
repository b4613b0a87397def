"""Leader election of real operators: what a fence can rely on."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import operator_installation as installation
from tests.upgrade import photo, samples
from tests.upgrade.builds import BUILDS, Build, need
from tests.upgrade.lab import Lab

pytestmark = pytest.mark.upgrade

ALPHA_3 = BUILDS["v0.1.0-alpha.3"]


def test_alpha_3_elects_no_leader_whatever_its_configuration_says(tmp_path: Path) -> None:
    """With leader election switched on, and no rights on Leases, it works nevertheless, and takes no Lease.

    ``operator/api/config/v1alpha1/types.go:OperatorConfiguration`` of v0.1.0-alpha.3 gives the field LeaderElection no
    JSON name, and names are compared exactly, so ``leaderElection`` in the configuration is not read.
    """
    need(ALPHA_3.name)
    with Lab(tmp_path / "lab") as lab:
        lab.install(ALPHA_3)  # its chart switches leader election on, and grants no rights on Leases
        assert lab.client.list("coordination.k8s.io/v1", "Lease", installation.NAMESPACE) == []


@pytest.mark.parametrize("build", [build for build in BUILDS.values() if build.leads], ids=lambda build: build.name)
def test_later_releases_hold_the_lease_and_give_it_back(build: Build, tmp_path: Path) -> None:
    """An operator that works holds the Lease that its configuration names, and nobody does once it was stopped."""
    need(build.name)
    with Lab(tmp_path / "lab") as lab:
        lab.install(build)
        lab.client.create(samples.busybox())
        lab.settle(lambda now: now.of(photo.SET))  # its first process ends for a certificate, without giving it back
        assert _holder(lab)
        lab.stop_operator()
        assert not _holder(lab)


def _holder(lab: Lab) -> str:
    [lease] = lab.client.list("coordination.k8s.io/v1", "Lease", installation.NAMESPACE)
    assert lease["metadata"]["name"] == installation.LEASE
    return str(lease["spec"].get("holderIdentity") or "")
