"""Back to the old release after a migration that nobody verified: by real operators."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upgrade import photo, samples
from tests.upgrade.lab import Lab
from tests.upgrade.matrix import Pair, change_template, compare

pytestmark = pytest.mark.upgrade

_PENDING = 10


def test_a_migration_back_beside_the_record_of_the_first_costs_no_pod(tmp_path: Path) -> None:
    """alpha.9 to alpha.11 without verify, then back: plan and run agree, and alpha.9 finds every pod its own."""
    pair = Pair("v0.1.0-alpha.9", "v0.1.0-alpha.11")
    pair.need()
    old, new = pair.builds
    with Lab(tmp_path / "lab") as lab:
        lab.install(old)
        for pcs in (samples.busybox(), samples.gang()):
            lab.create_set(pcs)
        before = lab.settle(lambda now: len(now.of(photo.SET)) == 2)
        with lab.diary() as diary:
            lab.migrate(new)
            lab.install(new)
            between = lab.settle()
            planned = lab.tool("plan", "--detailed-exitcode", *old.target)
            assert planned.code == _PENDING, planned.out + planned.err
            lab.migrate(old)
            lab.install(old)
            after = lab.settle()
        assert (diary.deleted, diary.created) == ([], [])
        assert before.pods() == between.pods() == after.pods()
        compare(between, after, old)
        change_template(lab, "gang", 0, "1")
        rolled = lab.settle(lambda now: not after.pods().keys() <= now.pods().keys())
        gone = {after.pods()[uid] for uid in after.pods().keys() - rolled.pods().keys()}
        assert gone == {name for name in after.pods().values() if name.startswith("gang-0-pc-a-")}
