"""Counts of what a test run really did, so that an empty suite is not taken for a passing one."""

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
