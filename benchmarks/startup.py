"""Starting: ``--help`` and ``releases`` beside a Python that imports Click and nothing else.

The programs take turns, and of each the best CPU time counts, so that a busy machine spoils neither.
"""

from __future__ import annotations

import sys
from typing import Final

from benchmarks.processes import spend
from benchmarks.rows import Row

ROUNDS: Final = 15
_PROGRAMS: Final = {
    "click": ["-c", "import click"],
    "--help": ["-m", "migrator", "--help"],
    "releases": ["-m", "migrator", "releases"],
}


def measure() -> list[Row]:
    """CPU milliseconds of each command, from its start to its end."""
    best = dict.fromkeys(_PROGRAMS, float("inf"))
    for _ in range(ROUNDS):
        for name, arguments in _PROGRAMS.items():
            best[name] = min(best[name], spend([sys.executable, *arguments]).cpu)
    return [
        Row(f"grove-migrator {name}", best[name] * 1000, best["click"] * 1000, "ms of CPU", "<= 2")
        for name in ("--help", "releases")
    ]
