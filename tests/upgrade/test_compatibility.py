"""docs/compatibility.md says what the matrix has shown, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.upgrade import compatibility
from tests.upgrade.matrix import BY_CHART, ON_KIND, PAIRS, SOAK_SECONDS


def checked_in(path: Path) -> dict[str, Any]:
    """The results that are checked in."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


RESULTS, KIND_RESULTS = map(checked_in, (compatibility.RESULTS, compatibility.KIND_RESULTS))


def test_the_page_is_current() -> None:
    """The page has the tables that the results give."""
    text = compatibility.TARGET.read_text(encoding="utf-8")
    current = compatibility.page(text, RESULTS, KIND_RESULTS)
    assert text == current, "run python -m tests.upgrade.compatibility --write"


def test_every_result_is_of_a_pair_and_shows_what_it_must() -> None:
    """Every result is of a pair of today; without the tool the pair recreated pods, with it none."""
    pairs = {pair.name: pair for pair in PAIRS}
    for name, result in RESULTS.items():
        assert (result["without"] > 0) is pairs[name].recreates, name
        assert result["with_tool"] == 0, name
        assert result["soak_seconds"] >= SOAK_SECONDS, name


def test_every_result_on_kind_shows_what_it_must() -> None:
    """Without the tool pods were recreated where the hashes differ, and none with it."""
    pairs = {pair.name: pair for pair in ON_KIND}
    for name, result in KIND_RESULTS.items():
        by_chart, pair = name.endswith(BY_CHART), pairs[name.removesuffix(BY_CHART)]
        assert by_chart or (result["without"] > 0) is pair.recreates, name
        assert result["with_tool"] == 0, name


def test_a_pair_without_a_result_is_said_not_to_have_been_run() -> None:
    """A row is never filled with figures that nobody measured."""
    page = compatibility.page(compatibility.TARGET.read_text(encoding="utf-8"), {}, {})
    assert page.count("| not run: no binary |") == len(PAIRS)
    assert page.count("| not run |") == 2 * len(ON_KIND)
