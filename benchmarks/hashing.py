"""Hashing, compared with the Go oracle's hash of the same templates on one core.

Fresh processes of ours and runs of the oracle take turns, mix by mix; the round with the middle ratio counts, because
on a busy machine single figures of either are better or worse by a half. Both are CPU time, and decoding is left out
on both sides. Every mix starts cold: our start, and the tables of texts that recur, are part of the figure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from itertools import islice
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter
from typing import Final

from benchmarks.mixes import MIXES
from benchmarks.processes import Row, printed
from testbed.oracle import oracle

ROUNDS: Final = 3
_MINOR: Final = "1.35"
_SECONDS: Final = "0.3"

#: Go remembers nothing, so as many templates of a mix are enough for it.
_ASKED: Final = 1_000


def measure() -> list[Row]:
    """The figures of hashing, the worst mix first."""
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "templates.jsonl"
        for name, (make, count) in MIXES.items():
            with path.open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(make(number)) + "\n" for number in range(count))
            rounds = [(1 / _fresh(path), 1 / _oracle(path)) for _ in range(ROUNDS)]
            ours, reference = sorted(rounds, key=lambda pair: pair[0] / pair[1])[ROUNDS // 2]
            rows.append(Row(f"hashing, {name}", ours, reference, "templates/s"))
    worst = min(rows, key=lambda row: row.ratio or 0)
    return [replace(worst, figure=f"hashing, the worst of {len(MIXES)} mixes", goal=">= 0.4"), *rows]


def _fresh(templates: Path) -> float:
    """CPU seconds of a template in a fresh process."""
    return float(printed([sys.executable, "-m", "benchmarks.fresh", str(templates), f"legacy-{_MINOR}"])["cold"])


def _oracle(templates: Path) -> float:
    """CPU seconds of one legacy hash: the time that the oracle measured, less the share in which it had no core."""
    with templates.open("rb") as lines:
        asked = b"\n".join(b'{"id":"","input":%s}' % line.strip() for line in islice(lines, _ASKED))
    command = [str(oracle(_MINOR).binary()), "bench", f"-seconds={_SECONDS}"]
    before, began = getrusage(RUSAGE_CHILDREN), perf_counter()
    done = subprocess.run(
        command, input=asked + b"\n", check=True, capture_output=True, env={**os.environ, "GOMAXPROCS": "1"}
    )
    elapsed, after = perf_counter() - began, getrusage(RUSAGE_CHILDREN)
    busy = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / elapsed
    return float(json.loads(done.stdout)["legacyNanosecondsPerTemplate"]) / 1e9 * min(busy, 1)
