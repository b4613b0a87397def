"""Patches against a TLS server that answers at once: what the client can do, beside the Go program that does it too.

``python -m benchmarks.instant KUBECONFIG LOG`` is the client of ours: the executor, the store and the log of a run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final

from benchmarks.cluster import record_patches
from benchmarks.processes import printed
from benchmarks.reference import ANSWERER, PATCHER
from benchmarks.rows import Row
from migrator.cli import log
from migrator.grove.model import POINTER_TEMPLATE_HASH_LABEL, Place, Ref
from migrator.planning.model import Change
from migrator.planning.patches import Batch
from migrator.run.execute import Executor
from migrator.store import MAX_CONCURRENCY
from migrator.stores.kube import store as kube_store

Raw = dict[str, Any]

_SETS, _PODS = 10, 1_000
_ROUNDS: Final = 3
_CONCURRENCIES: Final = (8, 16, 32)
_LONG: Final = 30.0


def batches() -> list[Batch]:
    """Sets of which every pod's label changes."""

    def change(name: str) -> Change:
        ref = Ref("Pod", "default", name, "00000000-0000-4000-8000-000000000001")
        return Change(ref, Place.POD_LABEL, POINTER_TEMPLATE_HASH_LABEL, "5d8f7c9b6d", "6d8f7c9b6d")

    return [
        Batch(
            Ref("PodCliqueSet", "default", f"set-{number}", "00000000-0000-4000-8000-000000000002"),
            tuple(change(f"set-{number}-worker-{pod:05}") for pod in range(_PODS)),
        )
        for number in range(_SETS)
    ]


def measure() -> tuple[list[Row], list[Raw]]:
    """Patches a second and CPU for each, in turns with the reference at the best of several concurrencies."""
    with tempfile.TemporaryDirectory(prefix="grove-migrator-bench-") as name:
        directory = Path(name)
        patches = directory / "patches.jsonl"
        record_patches(patches, batches())
        passes: list[Raw] = []
        with _answering(directory) as (kubeconfig, core):
            for _ in range(_ROUNDS):
                ours = [sys.executable, "-m", "benchmarks.instant", str(kubeconfig), str(directory / "log.jsonl")]
                passes.append({"pass": "ours", **_run(ours, core)})
                for concurrency in _CONCURRENCIES:
                    theirs = [str(PATCHER.binary()), f"-kubeconfig={kubeconfig}", f"-file={patches}"]
                    done = _run([*theirs, f"-concurrency={concurrency}"], core)
                    passes.append({"pass": "reference", "concurrency": concurrency, **done})
    count = _SETS * _PODS
    ours_of = [one for one in passes if one["pass"] == "ours"]
    theirs_of = {
        concurrency: [one for one in passes if one.get("concurrency") == concurrency] for concurrency in _CONCURRENCIES
    }
    best = min(theirs_of.values(), key=lambda found: median(one["seconds"] for one in found))
    rate, cpu = (median(one[key] for one in ours_of) for key in ("seconds", "cpuSeconds"))
    best_rate, best_cpu = (median(one[key] for one in best) for key in ("seconds", "cpuSeconds"))
    at = "a server that answers at once"
    return [
        Row(f"{at}: patching", count / rate, count / best_rate, "patches/s", ">= 0.9"),
        Row(f"{at}: patches a second", count / rate, None, "patches/s", ">= 4000"),
        Row(f"{at}: CPU of the client for a patch", cpu / count * 1000, best_cpu / count * 1000, "ms", "<= 1"),
    ], passes


@contextmanager
def _answering(directory: Path) -> Iterator[tuple[Path, int]]:
    """The server on one core; its kubeconfig, and the core of the clients."""
    cores = sorted(os.sched_getaffinity(0))
    kubeconfig = directory / "kubeconfig"
    server = subprocess.Popen(
        [ANSWERER.binary()],
        stdout=subprocess.PIPE,
        env={**os.environ, "GOMAXPROCS": "1"},
        preexec_fn=lambda: os.sched_setaffinity(0, {cores[0]}),  # noqa: PLW1509 - no threads here
    )
    try:
        assert server.stdout is not None  # noqa: S101 - it is a pipe
        kubeconfig.write_bytes(server.stdout.readline())
        yield kubeconfig, cores[-1]
    finally:
        server.kill()
        server.communicate()


def _run(command: list[str], core: int) -> Raw:
    """What a client counted; raises RuntimeError if a patch failed."""
    found = printed(command, core=core)
    if found.get("failed"):
        raise RuntimeError(f"{found['failed']} patches failed: {found.get('firstError')}")
    return {"seconds": found["seconds"], "cpuSeconds": found["cpuSeconds"]}


def main(kubeconfig: str, log_file: str) -> None:
    """Send every patch as a run does; print seconds of the clock and of CPU, as one JSON object."""
    store = kube_store.connect(kubeconfig=kubeconfig).within(lambda: _LONG)
    with Path(log_file).open("w", encoding="utf-8") as lines:
        events = log.configure(lines, run_id="benchmark")
        executor = Executor(store, check=lambda: None, stopping=lambda: False, concurrency=MAX_CONCURRENCY, log=events)
        wanted = batches()
        began, cpu = perf_counter(), process_time()
        outcomes = executor.run(wanted)
        seconds, spent = perf_counter() - began, process_time() - cpu
    failed = sum(not outcome.complete for outcome in outcomes)
    print(json.dumps({"seconds": seconds, "cpuSeconds": spent, "failed": failed}))


if __name__ == "__main__":
    main(*sys.argv[1:])
