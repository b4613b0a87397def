"""Upgrades of real operators: without the tool pods are recreated, with it not one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upgrade.lab import Lab
from tests.upgrade.matrix import PAIRS, Pair, record, upgrade_twice

pytestmark = pytest.mark.upgrade


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_an_upgrade_recreates_no_pod_with_the_tool_and_all_without(pair: Pair, tmp_path: Path) -> None:
    """Of each pair the same sets lose their pods without the tool and keep them with it, and work on afterwards."""
    pair.need()
    record(pair.name, upgrade_twice(pair, lambda name: Lab(tmp_path / name)))
