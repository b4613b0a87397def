"""Real operators without leader election: no Lease keeps them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.lab import photo, samples
from tests.e2e.lab.lab import Lab
from tests.e2e.lab.matrix import TWO, Pair, prepare

pytestmark = pytest.mark.upgrade


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
