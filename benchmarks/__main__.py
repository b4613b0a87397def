"""Measure what docs/how-it-works.md shows: ``python -m benchmarks [--pods N] [--only PART]`` prints it as a table."""

from __future__ import annotations

import argparse
import compileall
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks import hashing, memory, run
from benchmarks.processes import Row

_PODS: Final = (1_000, 10_000)
_MIGRATOR: Final = Path(__file__).resolve().parents[1] / "migrator"


def main(arguments: Sequence[str]) -> int:
    """Measure the parts that were asked for; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parts = ("hashing", "memory", "run")
    parser.add_argument("--pods", type=int, nargs="+", default=_PODS, help="pods of the runs' clusters")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts, metavar="PART", help=", ".join(parts))
    asked = parser.parse_args(arguments)
    compileall.compile_dir(_MIGRATOR, quiet=1)  # as installed; otherwise each start might compile it
    measured: dict[str, Callable[[], list[Row]]] = {
        "hashing": hashing.measure,
        "memory": memory.measure,
        "run": lambda: [row for pods in asked.pods for row in run.measure(pods)],
    }
    rows = [row for part in parts if part in asked.only for row in measured[part]()]
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {cores} cores, load average at the end {load:.1f}\n")
    print("\n".join(table(rows)))
    return int(any(row.is_reached is False for row in rows))


def table(rows: Iterable[Row]) -> Iterator[str]:
    """The figures in Markdown."""
    yield "| figure | grove-migrator | reference | unit | ratio | goal | reached |"
    yield "|---|---:|---:|---|---:|---|---|"
    for row in rows:
        reference = "" if row.reference is None else _number(row.reference)
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        verdict = {None: "", True: "yes", False: "**no**"}[row.is_reached]
        yield f"| {row.figure} | {_number(row.ours)} | {reference} | {row.unit} | {ratio} | {row.goal} | {verdict} |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
