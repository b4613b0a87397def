"""Hashing of templates that are all different, compared with the Go oracle's hash of the same ones on one core.

Fresh processes of ours and runs of the oracle take turns; the round with the middle ratio counts, because on a busy
machine single figures of either are better or worse by a half. Both are CPU time, and decoding is left out on both
sides. Our start, and the tables of texts that recur, are part of the figure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter, process_time
from typing import Final

from benchmarks.processes import ROOT, Row

_ROUNDS: Final = 3
_MINOR: Final = "1.35"

_TEMPLATES: Final = 10_000
#: Go remembers nothing, so as many are enough for it.
_ASKED: Final = 1_000


def measure() -> list[Row]:
    """Templates a second of both."""
    from benchmarks.templates import template  # noqa: PLC0415 - a fresh process measures its start, and reads a file

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "templates.jsonl"
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(template(number)) + "\n" for number in range(_TEMPLATES))
        rounds = [(1 / _fresh(path), 1 / _oracle(path)) for _ in range(_ROUNDS)]
    ours, reference = sorted(rounds, key=lambda pair: pair[0] / pair[1])[_ROUNDS // 2]
    return [Row(f"hashing, {_TEMPLATES:,} distinct templates", ours, reference, "templates/s", ">= 0.35")]


def _fresh(templates: Path) -> float:
    """CPU seconds of a template in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.hashing", str(templates)]
    return float(subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout)


def _oracle(templates: Path) -> float:
    """CPU seconds of one legacy hash: the time that the oracle measured, less the share in which it had no core."""
    from testbed.oracle import oracle  # noqa: PLC0415 - as above

    with templates.open("rb") as lines:
        asked = b"\n".join(b'{"id":"","input":%s}' % line.strip() for line in islice(lines, _ASKED))
    command = [str(oracle(_MINOR).binary()), "bench"]
    before, began = getrusage(RUSAGE_CHILDREN), perf_counter()
    done = subprocess.run(
        command, input=asked + b"\n", check=True, capture_output=True, env={**os.environ, "GOMAXPROCS": "1"}
    )
    elapsed, after = perf_counter() - began, getrusage(RUSAGE_CHILDREN)
    busy = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / elapsed
    return float(done.stdout) / 1e9 * min(busy, 1)


def _seconds_of_a_template(path: Path) -> float:
    """The CPU time of this process, without decoding: the reference hashes decoded structs too."""
    from migrator.exact_json import loads  # noqa: PLC0415 - part of the figure
    from migrator.hashing.podcliqueset import TemplateHasher  # noqa: PLC0415
    from migrator.hashing.schemes import by_name  # noqa: PLC0415

    scheme, decoding, count = by_name(f"legacy-{_MINOR}"), 0.0, 0
    with path.open("rb") as lines:
        for count, line in enumerate(lines, 1):  # noqa: B007 - counted
            began = process_time()
            template = loads(line)
            decoding += process_time() - began
            TemplateHasher(template).under(scheme)
    return (process_time() - decoding) / count


if __name__ == "__main__":
    print(_seconds_of_a_template(Path(sys.argv[1])))
