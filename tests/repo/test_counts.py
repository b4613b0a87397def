"""The counts by which a run that did its work differs from one that did nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_counts import totals
from tests.support import counts


def test_counts_add_up_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that was recorded twice counts the sum, and the file keeps one line for each."""
    target = tmp_path / "counts.jsonl"
    monkeypatch.setenv("GROVE_MIGRATOR_COUNTS", str(target))
    for name, n in (("a", 2), ("b", 5), ("a", 3)):
        counts.record(name, n)
    assert totals(target.read_text(encoding="utf-8")) == {"a": 5, "b": 5}


def test_nothing_is_counted_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without GROVE_MIGRATOR_COUNTS a test run leaves no file behind."""
    monkeypatch.delenv("GROVE_MIGRATOR_COUNTS", raising=False)
    monkeypatch.chdir(tmp_path)
    counts.record("a", 1)
    assert list(tmp_path.iterdir()) == []
