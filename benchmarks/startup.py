"""Starting: ``--help`` and ``releases`` beside a Python that imports Click and nothing else.

The programs take turns, and of each the best CPU time counts, so that a busy machine spoils neither.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks.rows import Row

ROUNDS: Final = 15
_ROOT: Final = Path(__file__).resolve().parents[1]
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
            best[name] = min(best[name], _cpu(arguments))
    return [
        Row(f"grove-migrator {name}", best[name] * 1000, best["click"] * 1000, "ms of CPU", "<= 2")
        for name in ("--help", "releases")
    ]


def _cpu(arguments: list[str]) -> float:
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{arguments} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime
