"""Leader election of real operators: what a fence can rely on."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import operator_installation as installation
from tests.upgrade import photo, samples
from tests.upgrade.builds import BUILDS, Build, need
from tests.upgrade.lab import Lab
from tests.upgrade.matrix import TWO, Pair, prepare

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


@pytest.mark.parametrize("pair", TWO, ids=lambda pair: pair.name)
def test_without_leader_election_an_operator_that_is_started_in_mid_run_is_stopped_at_once(
    pair: Pair, tmp_path: Path
) -> None:
    """It is scaled up among the writes; no pod is recreated, and the run ends with 0."""
    source, target = pair.need()
    with Lab(tmp_path / "lab", elects=False) as lab:
        before = prepare(lab, source)
        with lab.diary() as diary:
            with lab.in_mid_run(before, target) as run:
                lab.start_operator()
            assert (run.process.returncode, diary.deleted) == (0, []), run.log[-3000:]
            assert "leader election" in run.log
            lab.install(target)
            after = lab.settle()
        assert (diary.deleted, after.pods()) == ([], before.pods())


@pytest.mark.parametrize("pair", TWO, ids=lambda pair: pair.name)
def test_without_leader_election_a_rerun_beside_the_next_operator_ends_well(pair: Pair, tmp_path: Path) -> None:
    """A run was killed, somebody upgraded; the rerun ends with 0, and deletes no pod."""
    source, target = pair.need()
    with Lab(tmp_path / "lab", elects=False) as lab:
        lab.install(source)
        lab.create_set(samples.busybox())
        before = lab.settle(lambda now: now.of(photo.SET))
        with lab.diary() as diary:
            with lab.in_mid_run(before, target, pods=len(before.pods())) as run:
                run.process.kill()
            lab.install(target)
            # alpha.11 does not end an update that replaces nothing (Grove #671), so there is something left to write.
            lab.settle(unrest=None, quiet=10)
            rerun = lab.tool("run", *target.target, "--stop-operator")
            assert rerun.code == 0, rerun.err[-3000:]
            lab.install(target)
            after = lab.settle()
        assert (diary.deleted, after.pods()) == ([], before.pods())


def _holder(lab: Lab) -> str:
    [lease] = lab.client.list("coordination.k8s.io/v1", "Lease", installation.NAMESPACE)
    assert lease["metadata"]["name"] == installation.LEASE
    return str(lease["spec"].get("holderIdentity") or "")
