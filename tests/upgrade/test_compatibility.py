"""docs/compatibility.md says what the matrix has shown, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.node import scenarios, test_helm, test_job
from tests.upgrade import compatibility
from tests.upgrade.matrix import BY_CHART, ON_A_NODE, PAIRS, SOAK_SECONDS


def checked_in(path: Path) -> dict[str, Any]:
    """The results that are checked in."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


RESULTS, ON_NODE, ROWS = map(checked_in, (compatibility.RESULTS, compatibility.NODE_RESULTS, scenarios.FILE))


def test_the_page_is_current() -> None:
    """The page has the tables that the results give."""
    text = compatibility.TARGET.read_text(encoding="utf-8")
    current = compatibility.page(text, RESULTS, ON_NODE, ROWS)
    assert text == current, "run python -m tests.upgrade.compatibility --write"


def test_every_scenario_on_a_node_has_a_row_and_no_other() -> None:
    """The table has exactly the scenarios that there are, by the beginning of their tests' docstrings."""
    tests = {
        name: found
        for module in (test_helm, test_job)
        for name, found in vars(module).items()
        if name.startswith("test_")
    }
    assert ROWS.keys() == tests.keys()
    for name, test in tests.items():
        assert ROWS[name]["title"].startswith(str(test.__doc__).partition(":")[0]), name


def test_every_result_is_of_a_pair_and_shows_what_it_must() -> None:
    """Every result is of a pair of today; without the tool the pair recreated pods, with it none."""
    pairs = {pair.name: pair for pair in PAIRS}
    for name, result in RESULTS.items():
        assert (result["without"] > 0) is pairs[name].recreates, name
        assert result["with_tool"] == 0, name
        assert result["soak_seconds"] >= SOAK_SECONDS, name


def test_every_result_on_a_node_shows_what_it_must() -> None:
    """Without the tool pods were recreated where the hashes differ, and none with it."""
    pairs = {pair.name: pair for pair in ON_A_NODE}
    for name, result in ON_NODE.items():
        by_chart, pair = name.endswith(BY_CHART), pairs[name.removesuffix(BY_CHART)]
        assert by_chart or (result["without"] > 0) is pair.recreates, name
        assert result["with_tool"] == 0, name


def test_a_pair_without_a_result_is_said_not_to_have_been_run() -> None:
    """A row is never filled with figures that nobody measured."""
    page = compatibility.page(compatibility.TARGET.read_text(encoding="utf-8"), {}, {}, {})
    assert page.count("| not run: no binary |") == len(PAIRS)
    assert page.count("| not run |") == 2 * len(ON_A_NODE)
