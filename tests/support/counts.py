"""Counts of what a test run really did, for whoever must not take an empty suite for a passing one."""

from __future__ import annotations

import json
import os
from pathlib import Path


def record(name: str, n: int) -> None:
    """Append one line `{"name": ..., "n": ...}` to the file that `GROVE_MIGRATOR_COUNTS` names, if it does.

    A name may be recorded more than once, by several processes: its count is the sum.
    """
    target = os.environ.get("GROVE_MIGRATOR_COUNTS")
    if not target:
        return
    line = json.dumps({"name": name, "n": n}) + "\n"
    # One short append is atomic, so that parallel test processes do not mix their lines.
    with Path(target).open("a", encoding="utf-8", buffering=len(line) + 1) as counts:
        counts.write(line)


def totals(text: str) -> dict[str, int]:
    """Sum the lines of a counts file by name."""
    sums: dict[str, int] = {}
    for line in text.splitlines():
        entry = json.loads(line)
        sums[entry["name"]] = sums.get(entry["name"], 0) + int(entry["n"])
    return sums
