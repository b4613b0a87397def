"""Hashing, beside the Go oracle's hash of the same templates on one core.

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
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter
from typing import Final

from benchmarks.mixes import MIXES
from benchmarks.processes import printed
from benchmarks.rows import Row
from migrator.hashing.schemes import all_schemes
from testbed.go_programs import GoProgramError
from testbed.oracle import oracle_binary

ROUNDS: Final = 3
_MINOR: Final = "1.35"
_SECONDS: Final = "0.3"
_MICROSECONDS: Final = 1e6

#: Go remembers nothing, so as many templates of a mix are enough for it.
_ASKED: Final = 1_000

#: The mix that is hashed under all schemes too.
_ALIKE: Final = next(iter(MIXES))


def measure() -> list[Row]:
    """The figures of hashing, the worst mix first. Without Go there is no reference."""
    one, every = [f"legacy-{_MINOR}"], [scheme.name for scheme in all_schemes()]
    rows, found, has_oracle = [], {}, _has_oracle()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "templates.jsonl"
        for name, (make, count) in MIXES.items():
            with path.open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(make(number)) + "\n" for number in range(count))
            rounds = [(_fresh(path, one), _oracle(path) if has_oracle else None) for _ in range(ROUNDS)]
            found[name], reference = sorted(rounds, key=lambda pair: (pair[1] or 1) / pair[0]["cold"])[ROUNDS // 2]
            against = None if reference is None else 1 / reference
            rate = 1 / found[name]["cold"]
            rows.append(Row(f"hash in a fresh process: {name}", rate, against, "templates/s", ""))
            if name == _ALIKE:
                all_of_them = min(_fresh(path, every)["cold"] for _ in range(ROUNDS))
    worst = min(rows, key=lambda row: row.ratio or row.ours)
    return [
        Row(f"hashing, the worst of {len(MIXES)} mixes", worst.ours, worst.reference, worst.unit, ">= 0.4"),
        *rows,
        Row(
            f"all schemes beside one: {_ALIKE}",
            all_of_them * _MICROSECONDS,
            found[_ALIKE]["cold"] * _MICROSECONDS,
            "µs/template",
            "",
        ),
        Row("start a process and hash its first template", found[_ALIKE]["start"] * 1000, None, "ms", ""),
    ]


def _fresh(templates: Path, schemes: Sequence[str]) -> Mapping[str, float]:
    return printed([sys.executable, "-m", "benchmarks.fresh", str(templates), *schemes])


def _has_oracle() -> bool:
    try:
        oracle_binary(_MINOR)
    except GoProgramError as error:
        print(f"no reference for hashing: {error}", file=sys.stderr)
        return False
    return True


def _oracle(templates: Path) -> float:
    """CPU seconds of one legacy hash: the time that the oracle measured, less the share in which it had no core."""
    with templates.open("rb") as lines:
        asked = b"\n".join(b'{"id":"","input":%s}' % line.strip() for line in islice(lines, _ASKED))
    command = [str(oracle_binary(_MINOR)), "bench", f"-seconds={_SECONDS}"]
    before, began = getrusage(RUSAGE_CHILDREN), perf_counter()
    done = subprocess.run(
        command, input=asked + b"\n", check=True, capture_output=True, env={**os.environ, "GOMAXPROCS": "1"}
    )
    elapsed, after = perf_counter() - began, getrusage(RUSAGE_CHILDREN)
    busy = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / elapsed
    return float(json.loads(done.stdout)["legacyNanosecondsPerTemplate"]) / 1e9 * min(busy, 1)
