"""The run, compared with a Go program that sends the very same patches to the same API server with client-go.

API server and etcd have one core, the process that is measured has the other. The reference goes there and back once,
uncounted, because the first to write an object has more to do. Then passes take turns: ours, the reference back, the
reference there, the reference back.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.processes import Row, Spent, spend
from benchmarks.reference import PATCHER
from benchmarks.scale import LINE, SOURCE, TARGET, scale_test
from migrator.cluster import CONCURRENCY
from migrator.kinds import POD_CLIQUE_SETS
from migrator.kube import store as kube_store
from migrator.kube.transport import Request
from migrator.planning.model import SetPlan
from migrator.planning.options import PlanOptions
from migrator.planning.patches import RESOURCES, Batch, forward
from migrator.planning.planner import make_plan
from migrator.releases.table import named
from migrator.run.snapshot import read_snapshot
from testbed.controlplane.client import Client
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.server import ControlPlane
from testbed.controlplane.trees import load
from testbed.operator_installation import NAMESPACE, deployment, image

#: Five rounds with 1,000 pods, as the goals are for; fewer with many, of which a round takes five minutes.
_PODS_OF_ALL_ROUNDS: Final = 5_000
_FEWEST_ROUNDS: Final = 2
_OPERATOR: Final = deployment(image("v0.1.0-alpha.9"))
_TIMEOUT: Final = 10.0


def measure(pods: int) -> list[Row]:
    """The figures of a cluster with so many pods."""
    with running() as bench:
        load(bench.client, scale_test(pods))
        there, back = bench.record()
        bench.replay(there)
        bench.replay(back)
        rounds = []
        for _ in range(max(_FEWEST_ROUNDS, _PODS_OF_ALL_ROUNDS // pods)):
            bench.forget()
            run = bench.migrate()
            bench.replay(back)
            rounds.append((run, bench.replay(there)))
            bench.replay(back)
    patches = rounds[0][0].patches
    seconds = median(spent.seconds for _, spent in rounds)
    at, memory = f"{pods:,} pods", max(run.spent.peak_kib for run, _ in rounds) / 1024
    rate = median(run.rate for run, _ in rounds)
    return [
        Row(f"{at}: patching", rate, patches / seconds, "patches/s", ">= 0.95"),
        Row(f"{at}: the whole run", median(run.spent.seconds for run, _ in rounds), seconds, "s", "<= 1.2"),
        Row(f"{at}: the operator's absence", median(run.absence for run, _ in rounds), seconds, "s", "<= 1.1"),
        Row(f"{at}: memory", memory, None, "MiB", "<= 150"),
    ]


@dataclass(frozen=True, slots=True)
class Run:
    """A run of ours: its events, as the log has them, and what it took."""

    spent: Spent
    events: Sequence[Mapping[str, Any]]

    @property
    def patches(self) -> int:
        """How many patches were sent."""
        return len(self._times("patched"))

    @property
    def rate(self) -> float:
        """Patches a second, from the first answer to the last one."""
        times = self._times("patched")
        return (len(times) - 1) / (times[-1] - times[0]).total_seconds()

    @property
    def absence(self) -> float:
        """Seconds from the operator's scale-down to the end of the run."""
        [stopped] = self._times("operator_stopped")
        return (datetime.fromisoformat(self.events[-1]["ts"]) - stopped).total_seconds()

    def _times(self, name: str) -> list[datetime]:
        return [datetime.fromisoformat(event["ts"]) for event in self.events if event["event"] == name]


@dataclass(slots=True)
class Bench:
    """A running API server. On a machine with one core, that is the client's too."""

    control_plane: ControlPlane
    directory: Path
    client_core: int
    client: Client

    def forget(self) -> None:
        """Remove the Leases with what runs have recorded, and start the operator again, as before the first of them."""
        for item in self.client.list("coordination.k8s.io/v1", "Lease", NAMESPACE):
            self.client.delete(item)
        self.client.delete(_OPERATOR)
        self.client.create(_OPERATOR)

    def migrate(self) -> Run:
        """Run the migration as a user would, as a process of its own."""
        log = self.directory / "log.jsonl"
        command = [sys.executable, "-m", "migrator", "run", "--to", TARGET, "--stop-operator"]
        cluster = ["--kubeconfig", str(self.control_plane.kubeconfig)]
        with log.open("wb") as stderr:
            spent = spend([*command, *cluster], core=self.client_core, stdout=subprocess.DEVNULL, stderr=stderr)
        return Run(spent, [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()])

    def replay(self, patches: Path) -> Spent:
        """Send recorded patches with the reference, its start not counted; raises RuntimeError if one fails."""
        answer = self.directory / "answer.json"
        flags = (f"-kubeconfig={self.control_plane.kubeconfig}", f"-file={patches}", f"-concurrency={CONCURRENCY}")
        with answer.open("wb") as stdout:
            spent = spend([str(PATCHER.binary()), *flags], core=self.client_core, stdout=stdout)
        report = json.loads(answer.read_text(encoding="utf-8"))
        if report["failed"]:
            raise RuntimeError(f"{report['failed']} of {report['patches']} patches failed: {report['firstError']}")
        return replace(spent, seconds=report["seconds"])

    def record(self) -> tuple[Path, Path]:
        """The very patches that a run would send now, and those that take them back, as JSON Lines."""
        store = kube_store.connect(kubeconfig=str(self.control_plane.kubeconfig))
        plan = make_plan(read_snapshot(store), PlanOptions(named(TARGET), named(SOURCE)))
        there, back = self.directory / "there.jsonl", self.directory / "back.jsonl"
        record_patches(there, map(forward, plan.set_plans))
        record_patches(back, (forward(_undone(one)) for one in plan.set_plans))
        return there, back


@contextmanager
def running() -> Iterator[Bench]:
    """An API server with Grove's CRDs and an operator's Deployment, for as long as the block lasts."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="grove-migrator-bench-") as name, ExitStack() as ends:
        directory = Path(name)
        os.sched_setaffinity(0, {cores[0]})  # the server inherits it
        try:
            control_plane = ends.enter_context(ControlPlane(directory / "controlplane"))
        finally:
            os.sched_setaffinity(0, set(cores))
        client = control_plane.client()
        apply_crds(client, LINE)
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        client.create(_OPERATOR)
        yield Bench(control_plane, directory, cores[-1], client)


class _Notebook:
    """A transport that writes down what it is given to send."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def send(self, request: Request) -> bytes:
        """Note a request, and answer it with nothing."""
        self.requests.append(request)
        return b"{}"


def record_patches(path: Path, batches: Iterable[Batch]) -> None:
    """Write down the patches of batches as the store would send them, for the reference."""
    notebook = _Notebook()
    store = kube_store.KubeCluster(notebook)  # type: ignore[arg-type]
    for batch in batches:
        for patch in batch.patches:
            resource = RESOURCES[patch.ref.kind]
            ops = patch.ops(batch.pcs if resource == POD_CLIQUE_SETS else None)
            store.patch(resource, patch.ref.namespace, patch.ref.name, ops, subresource=patch.subresource)
    with path.open("w", encoding="utf-8") as file:
        for request in notebook.requests:
            line = {
                "path": request.url(_TIMEOUT),
                "accept": request.accept,
                "contentType": request.content_type,
                "body": request.body.decode(),
            }
            file.write(json.dumps(line) + "\n")


def _undone(plan: SetPlan) -> SetPlan:
    """The plan that takes another one back."""
    return replace(plan, changes=tuple(replace(change, old=change.new, new=change.old) for change in plan.changes))
