"""Upgrades of real operators: without the tool pods are recreated, with it not one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upgrade import photo
from tests.upgrade.lab import Lab
from tests.upgrade.matrix import (
    PAIRS,
    Pair,
    Result,
    a_change_rolls_what_it_should,
    record,
    scale_out_rolls_nobody,
    soak,
    with_tool,
    without_tool,
)

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
        scale_out_rolls_nobody(lab, pair, after)
        a_change_rolls_what_it_should(lab)
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
