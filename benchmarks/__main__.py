"""Measure everything, print one table, and write it as JSON: ``python -m benchmarks [--pods N] [--only PART ...]``.

The tables of docs/performance.md are made from the JSON by ``python -m benchmarks.page``.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from benchmarks import dump, growth, hashing, run, startup
from benchmarks.page import RESULTS, figures
from benchmarks.rows import Row
from testbed.go_programs import GoProgramError, go

PARTS: Final = ("startup", "hashing", "growth", "dump", "run")
#: The parts whose figures are made from more, and what that is called in the JSON.
_DETAILS: Final = {"growth": "growth", "run": "passes"}
_PODS: Final = 1_000
_MIGRATOR: Final = Path(__file__).resolve().parents[1] / "migrator"

#: A dump has so many times the pods of a run's cluster.
_DUMPED: Final = 5


def main(arguments: Sequence[str]) -> int:
    """Measure the parts that were asked for. What cannot be measured is left out, and named in the result.

    Returns 1 if a part failed, but for lack of a Go program.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=_PODS, help="pods of the run's cluster (default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--out", type=Path, default=None, help="where the JSON goes; default: benchmarks/results")
    asked = parser.parse_args(arguments)
    began = perf_counter()
    rows, raw, failed = _measure(asked.only, asked.pods)
    now = datetime.now(UTC)
    document = {
        "measured": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(perf_counter() - began),
        "pods": asked.pods,
        "machine": _machine(),
        "rows": [{**asdict(row), "ratio": row.ratio} for row in rows],
        **raw,
    }
    out: Path = asked.out or RESULTS / f"{now:%Y-%m-%d}-{asked.pods}-pods.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print("\n".join(figures(document["rows"])))
    print(f"\nwritten to {out}")
    return int(failed)


def _measure(parts: Sequence[str], pods: int) -> tuple[list[Row], dict[str, Any], bool]:
    compileall.compile_dir(_MIGRATOR, quiet=1)  # as installed; where Python writes no bytecode, each start would do it
    rows: list[Row] = []
    left_out = {part: "it was not asked for" for part in PARTS if part not in parts}
    raw: dict[str, Any] = {"leftOut": left_out, "seconds of": {}, "growth": [], "passes": []}
    failed = False
    measured: dict[str, Callable[[], tuple[list[Row], Sequence[Any]]]] = {
        "startup": lambda: (startup.measure(), ()),
        "hashing": lambda: (hashing.measure(), ()),
        "growth": lambda: growth.measure(growth.sizes(pods)),
        "dump": lambda: (dump.measure(_DUMPED * pods), ()),
        "run": lambda: run.measure(pods),
    }
    for part in sorted({*parts}, key=PARTS.index):
        print(f"measuring {part}", flush=True)
        began = perf_counter()
        try:
            found, details = measured[part]()
        except Exception as error:  # noqa: BLE001 - the other parts take minutes, and are worth having
            print(f"{part} is left out: {error!r}", file=sys.stderr, flush=True)
            left_out[part] = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            failed = failed or not isinstance(error, GoProgramError)
        else:
            rows += found
            if part in _DETAILS:
                raw[_DETAILS[part]] = details
        raw["seconds of"][part] = round(perf_counter() - began)
    return rows, raw, failed


def _machine() -> dict[str, Any]:
    """What the figures were measured on, and how busy it was with other things."""
    model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    version = subprocess.run([go(), "env", "GOVERSION"], check=False, capture_output=True, text=True).stdout.strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model[1].strip() if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memoryGiB": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "go": version,
        "loadAverage": round(os.getloadavg()[0], 2),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
