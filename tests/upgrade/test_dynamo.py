"""The upgrade that Dynamo 1.3 to 1.4 is for Grove, by real operators, on the sets of examples/."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.controlplane.client import eventually
from tests.simulation.tree import PART_OF
from tests.upgrade import dynamo_cluster, photo
from tests.upgrade.builds import BUILDS, need
from tests.upgrade.lab import Lab

pytestmark = pytest.mark.upgrade


@pytest.mark.parametrize("migrated", [True, False], ids=["with", "without"])
def test_a_dynamo_graph_keeps_its_pods(tmp_path: Path, *, migrated: bool) -> None:
    """alpha.8 to alpha.12-rc1: with the tool every pod of a disaggregated graph stays; without it every set rolls."""
    target = BUILDS["v0.1.0-alpha.12-rc1"]
    need(dynamo_cluster.OPERATOR.name, target.name)
    with Lab(tmp_path / "lab") as lab:
        dynamo_cluster.fill(lab)
        before = _pods(lab)
        if migrated:
            lab.migrate(target)
        else:
            lab.stop_operator()
        lab.install(target)
        if migrated:
            done = lab.tool("verify", *target.target, "--after-upgrade", "--settle", "60s")
            assert done.code == 0, done.err
            assert _pods(lab) == before
        else:
            sets = {*before.values()}
            eventually(
                lambda: {name for uid, name in before.items() if uid not in _pods(lab)} == sets,
                what="not every set loses pods",
                seconds=180,
            )


def _pods(lab: Lab) -> dict[str, str]:
    """The pods of all sets: uid and set."""
    return {pod["metadata"]["uid"]: pod["metadata"]["labels"][PART_OF] for pod in lab.photo().of(photo.POD)}
