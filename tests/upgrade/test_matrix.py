"""Upgrades of real operators: without the tool pods are recreated, with it not one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upgrade import photo
from tests.upgrade.lab import Lab
from tests.upgrade.matrix import PAIRS, Pair, Result, change_template, record, soak, with_tool, without_tool
from tests.upgrade.photo import Photo

pytestmark = pytest.mark.upgrade


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_an_upgrade_recreates_no_pod_with_the_tool_and_all_without(pair: Pair, tmp_path: Path) -> None:
    """Of each pair the same sets lose their pods without the tool and keep them with it, and work on afterwards."""
    if pair.missing():
        pytest.skip(f"not run: no binary of {', '.join(pair.missing())}")
    with Lab(tmp_path / "without") as lab:
        before, outdated, without = without_tool(lab, pair)
    assert outdated
    assert without == (outdated if pair.recreates else set())
    with Lab(tmp_path / "with") as lab:
        before, after, figures = with_tool(lab, pair)
        _scale_out_rolls_nobody(lab, pair, after)
        _a_change_rolls_what_it_should(lab)
    result = Result(
        sets=len(before.of(photo.SET)),
        pods=len(before.pods()),
        without=len(without),
        with_tool=len(before.pods().keys() - after.pods().keys()),
        patches=figures["patches"],
        run_seconds=figures["run"],
        downtime_seconds=figures["downtime"],
        soak_seconds=soak(),
    )
    record(pair, result)


def _scale_out_rolls_nobody(lab: Lab, pair: Pair, before: Photo) -> None:
    """New pods carry the target's hash, and the others stay."""
    lab.scale_group("disagg-0-workers", 3)
    after = lab.settle(lambda now: len(now.pods()) == len(before.pods()) + 4)
    assert before.pods().items() <= after.pods().items()
    expected = lab.hashes(pair.builds[1].scheme)["disagg"]["podTemplateHashes"]
    added = [pod for pod in after.of(photo.POD) if pod["metadata"]["uid"] not in before.pods()]
    hashes = {pod["metadata"]["labels"][photo.HASH] for pod in added}
    assert hashes == {expected["prefill"], expected["decode"]}


def _a_change_rolls_what_it_should(lab: Lab) -> None:
    """A change of one clique's template replaces the pods of that clique, and no others."""
    before = lab.settle()
    gang = (photo.SET, "gang")
    change_template(lab, "gang", 0, "2")
    after = lab.settle(lambda now: now.updates().get(gang) != before.updates().get(gang))
    gone = {before.pods()[uid] for uid in before.pods().keys() - after.pods().keys()}
    assert gone == {name for name in before.pods().values() if name.startswith("gang-0-pc-a-")}
