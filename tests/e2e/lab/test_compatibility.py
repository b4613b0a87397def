"""docs/compatibility.md says what the matrix has shown, and nothing else."""

from __future__ import annotations

import json

from tests.e2e.lab import compatibility
from tests.e2e.lab.matrix import BY_CHART, ON_KIND, PAIRS, SOAK_SECONDS

RESULTS, KIND_RESULTS = (
    json.loads(path.read_text(encoding="utf-8")) for path in (compatibility.RESULTS, compatibility.KIND_RESULTS)
)


def test_the_page_is_current() -> None:
    """The page has the tables that the results give."""
    text = compatibility.TARGET.read_text(encoding="utf-8")
    current = compatibility.page(text, RESULTS, KIND_RESULTS)
    assert text == current, "run python -m tests.e2e.lab.compatibility --write"


def test_every_result_is_of_a_pair_and_shows_what_it_must() -> None:
    """Every result is of a pair of today; without the tool the pair recreated pods, with it none."""
    for results, pairs in ((RESULTS, PAIRS), (KIND_RESULTS, ON_KIND)):
        known = {pair.name: pair for pair in pairs}
        for name, result in results.items():
            pair = known[name.removesuffix(BY_CHART)]
            assert result["with_tool"] == 0, name
            assert name.endswith(BY_CHART) or (result["without"] > 0) is pair.recreates, name
            assert result["soak_seconds"] >= SOAK_SECONDS or results is KIND_RESULTS, name


def test_a_pair_without_a_result_is_said_not_to_have_been_run() -> None:
    """A row is never filled with figures that nobody measured."""
    page = compatibility.page(compatibility.TARGET.read_text(encoding="utf-8"), {}, {})
    assert page.count("| not run: no binary |") == len(PAIRS)
    assert page.count("| not run |") == 2 * len(ON_KIND)
