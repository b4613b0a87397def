"""Counts of what a test run really did, so that an empty suite is not taken for a passing one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


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


def keep(variable: str, name: str, result: Mapping[str, Any]) -> None:
    """Add a result under its name to the JSON file that this variable of the environment names, if it does."""
    named = os.environ.get(variable)
    if not named:
        return
    path = Path(named)
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**results, name: result}, indent=2) + "\n", encoding="utf-8")
