"""The run, beside a Go program that sends the very same patches to the same API server.

API server and etcd have one core, the patching process has the other. The reference goes there and back once,
uncounted, so that neither of the two is the first to write the objects. Then passes take turns: ours, the reference
back, the reference there, the reference back. Where others use the machine too, the servers' CPU per patch and the
client's tell more than the clock; the raw passes keep both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from statistics import median
from time import sleep
from typing import Any, Final

from benchmarks.cluster import Bench, Run, running
from benchmarks.neighbour import percentile, reading
from benchmarks.processes import Spent
from benchmarks.rows import Row
from benchmarks.shapes import SHAPES

Raw = dict[str, Any]

CONCURRENCIES: Final = (4, 8, 16)
_PROBE: Final = 300  # patches with which the best concurrency is found
_IDLE_SECONDS: Final = 5.0
_MANY: Final = 5_000  # pods; with so many a pass takes more than a minute
_ROUNDS_OF_MANY: Final = 3
_ROUNDS: Final = 5  # the same patches take the server 5 s or 9
_PAIRS: Final = 3  # so often in a round lists and a run with nothing to do take turns
_FEWEST: Final = 500  # pods; with fewer only the whole run has a goal
_SMALL: Final = 1_000
_FEW: Final = ("scale test", 100)


def measure(pods: int) -> tuple[list[Row], list[Raw]]:
    """The figures of a cluster with so many pods and of small ones of both shapes, and every pass as measured."""
    rows: list[Row] = []
    passes: list[Raw] = []
    small = min(pods, _SMALL)
    wanted = {(shape, small): None for shape in SHAPES} | {(next(iter(SHAPES)), pods): None, _FEW: None}
    for shape, count in wanted:
        with running() as bench:  # a server of its own: nothing that others left weighs on it
            print(f"loading {count} pods as {shape}", flush=True)
            bench.load(SHAPES[shape](count))
            found = _Shape(bench, shape, count).measure()
            rows += found.rows()
            passes += found.passes
    return rows, passes


class _Shape:
    """One shape's passes, in turns."""

    def __init__(self, bench: Bench, name: str, pods: int) -> None:
        self._bench = bench
        self._name = name
        self._rounds = _ROUNDS_OF_MANY if pods >= _MANY else _ROUNDS
        self._pods = pods
        self._there, self._back = bench.record()
        self._patches = sum(1 for _ in self._there.open(encoding="utf-8"))
        self._runs: list[Run] = []
        self._references: list[Spent] = []
        self._idle: list[tuple[Run, Spent]] = []
        self._reads: dict[str, list[float]] = {}
        self.passes: list[Raw] = []

    def measure(self) -> _Shape:
        """Every pass; the cluster is left migrated."""
        best = self._best_concurrency()
        # Whoever is the first to write an object has more to do: its manager is new there.
        self._note("reference, first there", self._bench.replay(self._there, best), concurrency=best)
        self._note("reference, first back", self._bench.replay(self._back, best), concurrency=best)
        with self._beside("nobody"):
            sleep(_IDLE_SECONDS)
        for _ in range(self._rounds):
            self._bench.forget()
            with self._beside("run"):
                run = self._bench.migrate()
            self._runs.append(run)
            parts = {"stages": dict(run.stages), "downtime": run.downtime, "absence": dict(run.absence)}
            self._note("run", run.spent, **parts, patches=run.patches)
            self._note("reference, back", self._bench.replay(self._back, best), concurrency=best)
            with self._beside("reference"):
                there = self._bench.replay(self._there, best)
            self._references.append(there)
            self._note("reference", there, concurrency=best)
            self._note("lists, not counted: the server still has to do with the patches", self._bench.lists())
            for _ in range(_PAIRS):
                lists = self._bench.lists()
                self._note("lists", lists)
                nothing = self._bench.migrate()
                self._note("nothing to do", nothing.spent, stages=dict(nothing.stages))
                self._idle.append((nothing, lists))
            if len(self._runs) < self._rounds:
                self._note("reference, back", self._bench.replay(self._back, best), concurrency=best)
        for name, seconds in self._reads.items():
            shares = {f"p{share:g}": percentile(seconds, share / 100) for share in (50, 90, 99)}
            self.passes.append({"shape": self._name, "pass": f"reads beside {name}", **shares})
        return self

    def rows(self) -> list[Row]:
        """What the passes say."""
        at, large = f"{self._name}, {self._pods:,} pods", self._pods >= _FEWEST
        runs, references = [run.spent for run in self._runs], self._references
        executed = median(run.stages["execute"] for run in self._runs)
        reference = median(spent.seconds for spent in references)
        # For a small cluster the start of the process counts: half more than the reference and a second.
        least = "<= 1.15" if large else f"<= {1.5 + 1 / reference:.2f}"
        preflight = median(run.stages["preflight"] for run, _ in self._idle)
        lists = median(spent.seconds for _, spent in self._idle)
        p99 = {name: percentile(seconds, 0.99) * 1000 for name, seconds in self._reads.items()}

        def row(figure: str, ours: float, theirs: float | None, unit: str, goal: str = "") -> Row:
            return Row(f"{at}: {figure}", ours, theirs, unit, goal if large else "")

        def of_a_patch(seconds: Iterable[float]) -> float:
            return median(seconds) / self._patches * 1000

        cpu = of_a_patch(spent.cpu for spent in runs)
        their_cpu = of_a_patch(spent.cpu for spent in references)
        servers = of_a_patch(spent.server_cpu for spent in runs)
        their_servers = of_a_patch(spent.server_cpu for spent in references)
        whole = median(spent.seconds for spent in runs)
        away = median(run.downtime for run in self._runs)
        memory = max(spent.peak_kib for spent in runs) / 1024
        return [
            row("patching", self._patches / executed, self._patches / reference, "patches/s", ">= 0.95"),
            Row(f"{at}: the whole run, beside the reference's patching", whole, reference, "s", least),
            row("operator away, beside the reference's patching", away, reference, "s", "<= 1.02"),
            *(
                row(f"operator away: {stage}", median(run.absence.get(stage, 0.0) for run in self._runs), None, "s")
                for stage in self._runs[0].absence
            ),
            row("nothing to do, beside the lists alone", preflight, lists, "s", "<= 1.1"),
            row("CPU of the client for a patch, the whole run included", cpu, their_cpu, "ms", "<= 1"),
            row("CPU of the client for a patch", cpu, None, "ms", "<= 0.5"),
            row("CPU of API server and etcd for a patch, the whole run included", servers, their_servers, "ms"),
            row("peak memory of the run", memory, None, "MiB", "<= 100"),
            *(
                row(f"a GET of another client beside the run, p99; beside {other}", p99["run"], p99[name], "ms")
                for name, other in (("nobody", "nobody"), ("reference", "the reference"))
            ),
        ]

    def _best_concurrency(self) -> int:
        """The concurrency at which the reference is fastest, on the first patches; they are taken back."""
        there, back = _heads(self._there, self._back)
        seconds: dict[int, float] = {}
        for concurrency in CONCURRENCIES:
            spent = self._bench.replay(there, concurrency)
            seconds[concurrency] = spent.seconds
            self._note("reference, a part of it", spent, concurrency=concurrency)
            self._bench.replay(back, concurrency)
        return min(seconds, key=seconds.__getitem__)

    @contextmanager
    def _beside(self, what: str) -> Iterator[None]:
        with reading(self._bench.client) as seconds:
            yield
        self._reads.setdefault(what, []).extend(seconds)

    def _note(self, what: str, spent: Spent, **more: object) -> None:
        print(f"  {what}: {spent.seconds:.1f} s", flush=True)
        self.passes.append({"shape": self._name, "pods": self._pods, "pass": what, **asdict(spent), **more})


def _heads(there: Path, back: Path) -> tuple[Path, Path]:
    """The first patches of pods, and those that take the same back, which stand elsewhere in their file."""
    with there.open(encoding="utf-8") as lines:
        first = list(islice((line for line in lines if "/pods/" in line), _PROBE))
    chosen = {json.loads(line)["path"] for line in first}
    with back.open(encoding="utf-8") as lines:
        undo = [line for line in lines if json.loads(line)["path"] in chosen]
    parts = there.with_name("part-there.jsonl"), back.with_name("part-back.jsonl")
    for part, some in zip(parts, (first, undo), strict=True):
        part.write_text("".join(some), encoding="utf-8")
    return parts
