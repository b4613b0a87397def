"""Time and memory against the number of pods, by lists that are simulated.

Each size is measured in a process of its own: ``python -m benchmarks.growth PODS`` prints one JSON object. Objects
come in pages of JSON, as from an API server, and are forgotten as soon as the store has projected them.
"""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from time import process_time
from typing import Any, Final, TypeVar

from benchmarks.processes import peak_kib, printed
from benchmarks.rows import Row
from benchmarks.shapes import SOURCE, TARGET, scale_test
from migrator import resources
from migrator import store as seam
from migrator.errors import NotFound
from migrator.exact_json import JSONObject
from migrator.planning.options import PlanOptions
from migrator.planning.patches import forward
from migrator.planning.planner import make_plan
from migrator.resources import Resource
from migrator.run.observation import pending
from migrator.run.snapshot import take
from migrator.store import DryRun

T = TypeVar("T")

_SIZES: Final = (1_000, 3_000, 10_000, 30_000, 100_000)
_TIMES: Final = 10
_PODS_OF_A_CLIQUE: Final = 2
_LARGE: Final = 10_000
_INDEX: Final = '"grove.io/podcliqueset-replica-index": "%d"'


def sizes(pods: int) -> tuple[int, ...]:
    """What is measured beside a run with so many pods: up to ten times as many, and never less than 3,000."""
    return tuple(size for size in _SIZES if size <= max(_SIZES[1], _TIMES * pods))


def measure(sizes: tuple[int, ...]) -> tuple[list[Row], list[Mapping[str, float]]]:
    """The figures, and what was measured at each size."""
    found = [printed([sys.executable, "-m", "benchmarks.growth", str(size)]) for size in sizes]
    first, last = found[0], found[-1]
    ten = next((one for one in found if one["pods"] >= _LARGE), last)
    grown = last["pods"] - ten["pods"] or last["pods"] - first["pods"]
    base = ten if last["pods"] > ten["pods"] else first

    def per_pod(one: Mapping[str, float]) -> float:
        return (one["snapshotSeconds"] + one["planSeconds"]) / one["pods"] * 1e6

    rows = [
        Row(f"peak memory at {ten['pods']:,.0f} pods, simulated lists", ten["peakKiB"] / 1024, None, "MiB", "<= 100"),
        Row(
            f"growth of memory up to {last['pods']:,.0f} pods",
            (last["peakKiB"] - base["peakKiB"]) / grown,
            None,
            "KiB/pod",
            "<= 1",
        ),
        Row(
            f"snapshot and plan of a pod at {last['pods']:,.0f} pods, beside {ten['pods']:,.0f}",
            per_pod(last),
            per_pod(ten),
            "µs of CPU",
            "<= 1.3",
        ),
    ]
    return rows, found


class _Lists:
    """A store that can be listed: Grove's scale test, of any size, without keeping it."""

    is_cluster = True
    dry_run = DryRun.NONE

    def __init__(self, pods: int) -> None:
        self._pods = pods

    def kinds(self, group: str) -> tuple[Resource, ...]:  # noqa: ARG002 - the seam's
        """No other kinds."""
        return ()

    def list(
        self,
        resource: Resource,
        project: Callable[[JSONObject], T],
        *,
        look: seam.Look | None = None,
        **_: Any,  # noqa: ANN401
    ) -> tuple[T, ...]:
        """Every object of a kind."""
        if resource in {resources.POD_GANG_MAPS, resources.POD_GANGS}:
            raise NotFound(f"{resource.qualified_name} is not installed")
        items: list[T] = []
        for text in texts_of(self._pods, resource.kind, _without_containers):
            raw = json.loads(text)
            items.append(project(raw))
            if look is not None:
                look(raw, text.encode())
        return tuple(items)


def texts_of(pods: int, kind: str, change: Callable[[JSONObject], None]) -> Iterator[str]:
    """The JSON of every object of a kind, made from those of the first replica, each of them changed in place."""
    first = scale_test(_PODS_OF_A_CLIQUE)
    first[0]["spec"]["replicas"] = pods // _PODS_OF_A_CLIQUE
    items = [item for item in copy.deepcopy(first) if item["kind"] == kind]
    for item in items:
        change(item)
    texts = [json.dumps(item) for item in items]
    if kind == "PodCliqueSet":
        yield from texts
        return
    uids = [item["metadata"]["uid"] for item in first if item["kind"] in {"PodClique", "Pod"}]
    for number in range(pods // _PODS_OF_A_CLIQUE):
        for text in texts:
            own = text.replace("scale-test-0", f"scale-test-{number}").replace(_INDEX % 0, _INDEX % number)
            for uid in uids:
                own = own.replace(uid, f"{number:08x}{uid[8:]}")
            yield own


def _without_containers(item: JSONObject) -> None:
    if item["kind"] == "Pod":
        del item["spec"], item["status"]


def main(pods: int) -> None:
    """Take a snapshot, make the plan and the patches; print seconds of CPU and the peak of memory."""
    store = _Lists(pods)
    began = process_time()
    snapshot = take(store)  # type: ignore[arg-type]
    seen = process_time()
    plan = make_plan(snapshot, PlanOptions(source=SOURCE, target=TARGET))
    ranks = (rank for tree in pending(plan) for rank in groupby(forward(tree).patches, key=lambda one: one.rank))
    patches = sum(1 for _, found in ranks for _ in found)  # one at a time, as a run sends them
    planned = process_time()
    found = {
        "pods": pods,
        "patches": patches,
        "snapshotSeconds": seen - began,
        "planSeconds": planned - seen,
        "peakKiB": peak_kib(os.getpid()),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]))
