"""docs/performance.md holds what was measured, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as bench
from benchmarks import page
from benchmarks.rows import Row

SIZES = [
    {"pods": pods, "patches": 2 * pods + 1, "snapshotSeconds": pods / 1e4, "planSeconds": pods / 2e4, "peakKiB": 50_000}
    for pods in (1_000, 10_000, 100_000)
]
#: Measured on the machine of the newest result.
DOCUMENT: dict[str, Any] = {
    **json.loads(page.newest().read_text(encoding="utf-8")),
    "rows": [
        {"figure": "fast", "ours": 99.0, "reference": 100.0, "unit": "1/s", "goal": ">= 0.95", "ratio": 0.99},
        {"figure": "slow", "ours": 50.0, "reference": 100.0, "unit": "1/s", "goal": ">= 0.95", "ratio": 0.5},
        {"figure": "small", "ours": 70.0, "reference": None, "unit": "MiB", "goal": "<= 100", "ratio": None},
    ],
    "growth": SIZES,
    "passes": [
        {
            "shape": "small sets",
            "pass": "run",
            "seconds": 5.0,
            "cpu": 1.0,
            "server_cpu": 3.0,
            "peak_kib": 51200,
            "stages": {"execute": 3.5},
        }
    ],
}


def test_the_page_is_made_from_the_newest_result() -> None:
    """Page and plot are what `python -m benchmarks.page` writes: figures are measured, never typed."""
    source = page.newest()
    document = json.loads(source.read_text(encoding="utf-8"))
    assert page.PAGE.read_text(encoding="utf-8") == page.page(document, source.name)
    assert page.PLOT.read_text(encoding="utf-8") == page.plot(document)


@pytest.mark.parametrize(
    ("goal", "ours", "ratio", "verdict"),
    [
        ("", 1.0, 1.0, None),
        (">= 0.95", 1.0, 0.95, True),
        (">= 0.95", 1.0, 0.94, False),
        ("<= 1.15", 9.0, 1.15, True),
        ("<= 1.15", 0.1, 1.16, False),
        ("<= 100", 99.0, None, True),
        ("<= 100", 101.0, None, False),
    ],
)
def test_a_goal_speaks_of_the_ratio_where_there_is_one(
    goal: str, ours: float, ratio: float | None, verdict: object
) -> None:
    """Without a reference it speaks of our own figure; without a goal nothing is judged."""
    assert page.reached(goal, ours, ratio) is verdict


def test_a_goal_that_was_missed_is_named_first() -> None:
    """The page begins with what was not reached, and only with that."""
    text = page.page(DOCUMENT, "some.json")
    before, _, _ = text.partition("## Figures")
    assert "- slow: 0.50, and the goal is >= 0.95\n" in before
    assert "- fast" not in before
    assert "- small" not in before
    assert "| slow | 50 | 100 | 1/s | 0.50 | >= 0.95 | **no** |" in text
    assert "| small sets | run | 5.00 | 1.00 | 3.00 | 50 | execute 3.5 |" in text


def test_what_grows_in_step_with_the_pods_is_plotted_as_a_straight_line() -> None:
    """Equal factors are equal distances on both axes."""
    svg = page.plot(DOCUMENT)
    points = svg.split('<path d="M')[-2 if svg.count("<path") > 1 else -1].split('"')[0]
    (x1, y1), (x2, y2), (x3, y3) = (tuple(map(float, point.split())) for point in points.split("L"))
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)
    assert y2 - y1 == pytest.approx(y3 - y2, abs=0.2)
    assert y1 > y3


def test_a_part_that_fails_does_not_lose_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result has what was measured, and names what is left out and why; the page does too."""

    def fail() -> list[Row]:
        raise RuntimeError("a patch failed\nand more")

    monkeypatch.setattr(bench.startup, "measure", fail)
    monkeypatch.setattr(bench.hashing, "measure", lambda: [Row("hashing", 2.0, 1.0, "1/s", ">= 1")])
    out = tmp_path / "result.json"
    assert bench.main(["--only", "startup", "hashing", "--out", str(out)]) == 1
    document = json.loads(out.read_text(encoding="utf-8"))
    assert [row["figure"] for row in document["rows"]] == ["hashing"]
    assert document["leftOut"]["startup"] == "RuntimeError: a patch failed"
    assert "- `startup` is not part of this measurement: RuntimeError: a patch failed\n" in page.page(
        document, "x.json"
    )
