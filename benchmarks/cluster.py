"""A real API server to measure on, pinned to one core, and the programs that are measured, pinned to another."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from benchmarks.processes import Spent, Stream, spend
from benchmarks.reference import PATCHER
from benchmarks.shapes import LINE, SOURCE, TARGET, Object
from migrator.errors import MigratorError
from migrator.planning.model import TreePlan
from migrator.planning.options import PlanOptions
from migrator.planning.patches import Batch, backward, forward
from migrator.planning.planner import make_plan
from migrator.run.execute import Executor
from migrator.run.snapshot import take
from migrator.store import LONGEST_WRITE, Write, in_turn
from migrator.stores.kube import store as kube_store
from migrator.stores.kube.transport import Request
from testbed.controlplane.client import Client
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.server import ControlPlane
from testbed.controlplane.trees import load
from testbed.operator_installation import LEASE, NAMESPACE, deployment, image

K = TypeVar("K")

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_OPERATOR: Final = deployment(image("v0.1.0-alpha.9"))


@dataclass(frozen=True, slots=True)
class Run:
    """A run of ours: its events, as the log has them, and what it took."""

    spent: Spent
    events: Sequence[Mapping[str, Any]]

    @property
    def stages(self) -> Mapping[str, float]:
        """Seconds of each stage."""
        found: Mapping[str, float] = self._one("summary")["seconds"]
        return found

    @property
    def patches(self) -> int:
        """How many patches were sent."""
        return int(self._one("summary")["patches"])

    @property
    def downtime(self) -> float:
        """Seconds from the operator's scale-down to the last write."""
        writes = [event["ts"] for event in self.events if event["event"] == "patched"]
        stopped = self._one("operator_stopped")["ts"]
        return (_time(writes[-1]) - _time(stopped)).total_seconds() if writes else 0.0

    @property
    def absence(self) -> Mapping[str, float]:
        """Seconds of each stage from the operator's scale-down to the end; ``waiting`` is what belongs to none."""
        began = next(n for n, event in enumerate(self.events) if event["event"] == "operator_stopped")
        stages: dict[str, float] = {}
        for event in self.events[began:]:
            if event["event"] == "stage_ended" and event["stage"] != "stop":
                stages[event["stage"]] = stages.get(event["stage"], 0.0) + event["seconds"]
        whole = (_time(self.events[-1]["ts"]) - _time(self.events[began]["ts"])).total_seconds()
        return {**stages, "waiting": max(0.0, whole - sum(stages.values()))}

    def _one(self, name: str) -> Mapping[str, Any]:
        return next(event for event in self.events if event["event"] == name)


@dataclass(slots=True)
class Bench:
    """A running API server. On a machine with one core, that is the client's too."""

    control_plane: ControlPlane
    directory: Path
    client_core: int
    pids: Sequence[int]
    client: Client

    def load(self, objects: Sequence[Object]) -> None:
        """Put objects on the server."""
        load(self.client, objects)

    def forget(self) -> None:
        """Remove what runs have recorded, and start the operator again, as before the first of them."""
        for item in self.client.list("v1", "ConfigMap", NAMESPACE):
            if item["metadata"]["name"].startswith("grove-migrator"):
                self.client.delete(item)
        self.client.delete(_OPERATOR)
        self.client.create(_OPERATOR)

    def server_cpu(self) -> float:
        """Seconds of CPU that the servers have used so far."""
        return sum(_cpu(pid) for pid in self.pids)

    def migrate(self, *flags: str) -> Run:
        """Run the migration as a user would, as a process of its own."""
        log = self.directory / "log.jsonl"
        # fmt: off
        command = [
            sys.executable, "-m", "migrator", "run", "--to", TARGET, "--stop-operator", "--lease-name", LEASE,
            "--kubeconfig", str(self.control_plane.kubeconfig), *flags,
        ]
        # fmt: on
        with log.open("wb") as stderr:
            spent = self._spend(command, stdout=subprocess.DEVNULL, stderr=stderr)
        events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        return Run(spent, events)

    def replay(self, patches: Path, concurrency: int) -> Spent:
        """Send recorded patches with the reference; raises RuntimeError if one fails."""
        report, spent = self._reported(
            [
                str(PATCHER.binary()),
                f"-kubeconfig={self.control_plane.kubeconfig}",
                f"-file={patches}",
                f"-concurrency={concurrency}",
            ]
        )
        if report["failed"]:
            raise RuntimeError(f"{report['failed']} of {report['patches']} patches failed: {report['firstError']}")
        return spent

    def record(self) -> tuple[Path, Path]:
        """The very patches that a run would send now, and those that take them back, as JSON Lines."""
        store = self.store()
        plan = make_plan(take(store), PlanOptions(source=SOURCE, target=TARGET))
        there, back = self.directory / "there.jsonl", self.directory / "back.jsonl"
        record_patches(there, [forward(tree) for tree in plan.trees])
        record_patches(back, [backward(_undone(tree)) for tree in plan.trees])
        return there, back

    def lists(self) -> Spent:
        """Read the lists that a run reads, by a process of its own, and do nothing with them."""
        return self._reported([sys.executable, "-m", "benchmarks.lists", str(self.control_plane.kubeconfig)])[1]

    def store(self) -> kube_store.KubeStore:
        """The product's own store on the server."""
        return kube_store.connect(kubeconfig=str(self.control_plane.kubeconfig))

    def _spend(self, command: Sequence[str], *, stdout: Stream, stderr: Stream = None) -> Spent:
        """Run a program on the client's core, and count the servers' CPU meanwhile."""
        before = self.server_cpu()
        spent = spend(command, core=self.client_core, stdout=stdout, stderr=stderr)
        return replace(spent, server_cpu=self.server_cpu() - before)

    def _reported(self, command: Sequence[str]) -> tuple[Mapping[str, Any], Spent]:
        """What a program prints about itself, with the seconds that it counted: its start is not in them."""
        answer = self.directory / "answer.json"
        with answer.open("wb") as stdout:
            spent = self._spend(command, stdout=stdout)
        report = json.loads(answer.read_text(encoding="utf-8"))
        return report, replace(spent, seconds=report["seconds"], cpu=report["cpuSeconds"])


@contextmanager
def running() -> Iterator[Bench]:
    """An API server with Grove's CRDs and an operator's Deployment, for as long as the block lasts."""
    cores = sorted(os.sched_getaffinity(0))
    server_core, client_core = cores[0], cores[-1]
    with tempfile.TemporaryDirectory(prefix="grove-migrator-bench-") as name:
        directory = Path(name)
        control_plane = ControlPlane(directory / "controlplane")
        others = _children()
        os.sched_setaffinity(0, {server_core})  # the server inherits it
        try:
            control_plane.start()
        finally:
            os.sched_setaffinity(0, set(cores))
        try:
            apply_crds(control_plane, LINE)
            client = control_plane.client()
            client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            client.create(_OPERATOR)
            yield Bench(control_plane, directory, client_core, sorted(_children() - others), client)
        finally:
            control_plane.stop()


class _Notebook:
    """A transport that writes down what it is given to send."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def send(self, request: Request) -> bytes:
        """Note a request, and answer it with nothing."""
        self.requests.append(request)
        return b"{}"


class _Recording(kube_store.KubeStore):
    """A store that sends one patch after the other, to a notebook."""

    def patches(
        self, take: Callable[[], tuple[K, Write] | None], *, concurrency: int
    ) -> Generator[tuple[K, MigratorError | None], None, None]:
        """See the store."""
        del concurrency
        return in_turn(self, take)


def _undone(plan: TreePlan) -> TreePlan:
    """The plan that takes another one back."""
    return replace(plan, changes=tuple(replace(change, old=change.new, new=change.old) for change in plan.changes))


def record_patches(path: Path, batches: Sequence[Batch]) -> None:
    """Write down the patches of batches as the store would send them, for the reference."""
    notebook = _Notebook()
    log = structlog.wrap_logger(
        structlog.ReturnLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
    )
    store = _Recording(notebook)  # type: ignore[arg-type]
    Executor(store, check=lambda: None, stopping=lambda: False, concurrency=1, log=log).run(batches)
    with path.open("w", encoding="utf-8") as file:
        for request in notebook.requests:
            line = {
                "path": request.url(LONGEST_WRITE),
                "accept": request.accept,
                "contentType": request.content_type,
                "body": (request.body or b"").decode(),
            }
            file.write(json.dumps(line) + "\n")


def _children() -> set[int]:
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
