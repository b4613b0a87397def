"""Hashing, beside the Go oracle's hash of the same templates on one core.

Fresh processes of ours and runs of the oracle take turns; of each figure the best round counts, so that a busy
machine spoils neither. Both are CPU time, and decoding is left out on both sides.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter
from typing import Any, Final

from benchmarks.rows import Row
from benchmarks.templates import dynamo, mix, small
from migrator.hashing.schemes import all_schemes
from tests.oracle.build import oracle_binary
from tests.oracle.client import line
from tests.support.go_programs import GoProgramError

ROUNDS: Final = 5
_MINOR: Final = "1.35"
_SECONDS: Final = "0.3"
_COUNT: Final = 1000
_MICROSECONDS: Final = 1e6


def measure() -> list[Row]:
    """The figures of hashing. Without Go there is no reference."""
    repeated = {"small": small(), "dynamo": dynamo()}
    questions = {"mix": mix(_COUNT), **{name: [template] for name, template in repeated.items()}}
    templates = {
        "mix": questions["mix"],
        "unseen": mix(_COUNT // 2, start=_COUNT),
        "repeated": repeated,
    }
    ours: list[Mapping[str, float]] = []
    every: list[Mapping[str, float]] = []
    reference: list[Mapping[str, float]] = []
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "templates.json"
        path.write_text(json.dumps(templates), encoding="utf-8")
        for _ in range(ROUNDS):
            ours.append(_fresh(path, [f"legacy-{_MINOR}"]))
            every.append(_fresh(path, [scheme.name for scheme in all_schemes()]))
            reference.append({name: _oracle(asked) for name, asked in questions.items()} if _has_oracle() else {})
    return _rows(_best(ours), _best(every), _best(reference))


def _rows(ours: Mapping[str, float], every: Mapping[str, float], reference: Mapping[str, float]) -> list[Row]:
    def rate(figure: str, name: str, against: str, goal: str) -> Row:
        return Row(
            figure,
            1 / ours[name],
            1 / reference[against] if against in reference else None,
            "templates/s",
            goal,
        )

    def beside_one(figure: str, name: str) -> Row:
        return Row(figure, every[name] * _MICROSECONDS, ours[name] * _MICROSECONDS, "µs/template", "<= 2")

    return [
        rate("hash the mix in a fresh process, its start included", "cold", "mix", ">= 1.0"),
        rate("hash more of the mix, never seen before", "unseen", "mix", ">= 1.0"),
        rate("hash one small template again and again", "small", "small", ""),
        rate("hash one Dynamo-like template again and again", "dynamo", "dynamo", ""),
        beside_one("all schemes beside one: the mix in a fresh process", "cold"),
        beside_one("all schemes beside one: more of the mix, never seen before", "unseen"),
        Row("start a process and hash its first template", ours["start"] * 1000, None, "ms", ""),
    ]


def _fresh(templates: Path, schemes: Sequence[str]) -> Mapping[str, float]:
    command = [sys.executable, "-m", "benchmarks.fresh", str(templates), *schemes]
    # As installed: compiled once, in the first round.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    printed = subprocess.run(command, check=True, capture_output=True, cwd=Path(__file__).parents[1], env=environment)
    found: Mapping[str, float] = json.loads(printed.stdout)
    return found


def _has_oracle() -> bool:
    try:
        oracle_binary(_MINOR)
    except GoProgramError as error:
        print(f"no reference for hashing: {error}", file=sys.stderr)
        return False
    return True


def _oracle(templates: list[dict[str, Any]]) -> float:
    """CPU seconds of one legacy hash: the time that the oracle measured, less the share in which it had no core."""
    asked = b"\n".join(line(str(n), "input", json.dumps(item).encode()) for n, item in enumerate(templates))
    command = [str(oracle_binary(_MINOR)), "bench", f"-seconds={_SECONDS}"]
    before, began = getrusage(RUSAGE_CHILDREN), perf_counter()
    printed = subprocess.run(
        command, input=asked + b"\n", check=True, capture_output=True, env={**os.environ, "GOMAXPROCS": "1"}
    )
    elapsed, after = perf_counter() - began, getrusage(RUSAGE_CHILDREN)
    busy = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / elapsed
    return float(json.loads(printed.stdout)["legacyNanosecondsPerTemplate"]) / 1e9 * min(busy, 1)


def _best(rounds: list[Mapping[str, float]]) -> Mapping[str, float]:
    return {name: min(found[name] for found in rounds) for name in rounds[0]}


if __name__ == "__main__":
    for row in measure():
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        theirs = "" if row.reference is None else f"{row.reference:,.0f}"
        print(f"{row.figure:70} {row.ours:>12,.0f} {theirs:>12} {row.unit:12} {ratio:>6} {row.goal}")
