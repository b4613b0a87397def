"""A closed cluster with one real node, and what the scenarios do to the Job in it."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from migrator.hashing import podcliqueset, schemes
from testbed import workloads
from testbed.controlplane.client import Object, eventually, job_end
from testbed.controlplane.options import Options
from testbed.controlplane.server import ControlPlane
from testbed.controlplane.trees import plant
from testbed.gangs import MAPPED
from testbed.trees import State
from tests.cluster.manifests.site import NAMESPACE, NEW, OLD, WORKLOADS, Site, job_of
from tests.node import images, traces
from tests.node.real import IMAGE_VOLUME, SANDBOX, Node
from tests.node.scenarios import Row
from tests.support.watch import Watch

JOB: Final = "grove-migrator"
#: Nobody binds pods of the sets: they are as an operator leaves them, and no container of theirs runs.
SCHEDULER: Final = "nobody"
#: So that a run can be caught among its writes.
SLOW: Final = ("--concurrency=1",)
_OPERATOR: Final = "example.test/grove-operator"
# Pods of the sets are on nodes that do not exist; the collector would delete them.
_CONTROLLERS: Final = "*,-pod-garbage-collector-controller"
_APISERVER: Final = ("--kubelet-preferred-address-types=InternalIP", "--enable-priority-and-fairness=false")
_SETS: Final = 6
_SECONDS: Final = 180


class Machine:
    """A control plane with all its controllers and one real node; a context manager."""

    def __init__(self, archives: Sequence[Path] = ()) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="", dir=traces.home(os.environ[traces.VARIABLE]))
        home = Path(self._home.name)
        gates = f"{IMAGE_VOLUME}=true"
        options = Options(
            controller_manager=True, controllers=_CONTROLLERS, feature_gates=gates, apiserver_args=_APISERVER
        )
        self.server = ControlPlane(home / "server", options)
        names = [SANDBOX, *(f"{_OPERATOR}:{release}" for release in (OLD, NEW))]
        self.node = Node(self.server, home / "node", [images.busybox(home / "busybox.tar", names), *archives])
        self.directory = home

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as ends:
            ends.callback(self._home.cleanup)
            self.server.start()
            ends.callback(self.server.kill)
            ends.callback(self.node.stop)
            self.node.start()
            self._ends = ends.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ends.close()


@dataclass(frozen=True, slots=True)
class Ended:
    """A pod of the Job that has ended: its container's exit code and reason, its message, and its conditions."""

    name: str
    code: int
    reason: str
    message: str
    conditions: Mapping[str, str]

    @property
    def summary(self) -> Mapping[str, Any]:
        """The termination message, which is JSON when the run could write one."""
        found: Mapping[str, Any] = json.loads(self.message)
        return found


class Scene:
    """The cluster of one scenario: an operator of alpha.9 that runs, sets as it leaves them, and the Job's manifest."""

    def __init__(self, machine: Machine, site: Site) -> None:
        self.machine, self.site, self.client = machine, site, site.admin
        self.remark = ""  # what else a scenario has found
        self._seen: dict[str, Object] = {}  # the Job's pods as they were last, also those that are gone

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Remember the Job's pods in the block: one that is deleted leaves no other trace of how it ended."""
        watch = Watch(self.machine.server, f"/api/v1/namespaces/{NAMESPACE}/pods", self._note).start()
        yield
        watch.stop()

    def _note(self, _: str, pod: Object) -> None:
        if "batch.kubernetes.io/job-name" in pod["metadata"].get("labels", {}):
            self._seen[pod["metadata"]["name"]] = pod

    def clear(self) -> None:
        """Remove what the scenario before has left."""
        self.delete_jobs()
        self.site.clear()

    def begin(self) -> None:
        """Remove what the scenario before has left, and fill the cluster anew."""
        self.clear()
        self.site.operate(OLD)
        self.runs_operators(1)
        self.plant()

    def plant(self) -> None:
        """Create sets as an operator of alpha.9 leaves them."""
        scheme, state = schemes.resolve(OLD), State(MAPPED, updated=True, pod_gangs=True, scheduler=SCHEDULER)
        for number in range(_SETS):
            pcs = workloads.disaggregated(f"set-{number}", namespace=WORKLOADS)
            plant(self.client, pcs, lambda created: podcliqueset.hash_pod_clique_set(created, scheme), state)
        self.remark = ""
        self._seen.clear()

    def delete_jobs(self) -> None:
        """Delete all Jobs with their pods."""
        for job in self.jobs():
            kind = self.client.kind_of(job)
            body = {"propagationPolicy": "Background"}
            self.client.call("DELETE", kind.path(NAMESPACE, job["metadata"]["name"]), body)
        for pod in self.pods():
            query = {"gracePeriodSeconds": "0"}
            self.client.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}", query=query)
        eventually(lambda: not self.pods(), what="pods of the Job are still there", seconds=_SECONDS)

    def run(self, *, name: str = JOB, memory: str = "", to: str = NEW, more: Sequence[str] = ()) -> None:
        """Create the Job of manifests/job.yaml, with our image and, if given, other arguments and another limit."""
        job = job_of(name=name)
        [container] = job["spec"]["template"]["spec"]["containers"]
        own = [f"--to={to}" if found.startswith("--to=") else found for found in container["args"]]
        container["args"] = [*own, *more]
        if memory:
            container["resources"] = {"limits": {"memory": memory}, "requests": {"memory": memory, "cpu": "10m"}}
        self.client.create(job)

    def pods(self, name: str = "") -> list[Object]:
        """The pods of the Job, the oldest first; of all Jobs without a name."""
        selector = f"batch.kubernetes.io/job-name={name}" if name else "batch.kubernetes.io/job-name"
        found = self.client.list("v1", "Pod", NAMESPACE, selector=selector)
        return sorted(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def running(self) -> Object:
        """Wait until a pod of the Job runs, and return it."""
        found: list[Object] = []

        def looks() -> bool:
            found[:] = [pod for pod in self.pods() if pod["status"]["phase"] == "Running"]
            return bool(found)

        eventually(looks, what="no pod of the Job runs", seconds=_SECONDS)
        return found[-1]

    def writing(self) -> Object:
        """Wait until a run has written some of the hashes and not all, and return its pod."""
        pod = self.running()
        eventually(lambda: self.written() > 0, what="the run writes nothing", seconds=_SECONDS)
        if self.written() == len(self.pods_of_sets()):
            raise RuntimeError("the run has written everything already")
        return pod

    def sets(self) -> list[Object]:
        """All sets."""
        return self.client.list("grove.io/v1alpha1", "PodCliqueSet", WORKLOADS)

    def pods_of_sets(self) -> list[Object]:
        """The pods of all sets."""
        return self.client.list("v1", "Pod", WORKLOADS)

    def written(self) -> int:
        """How many pods of the sets have the hash that the run writes."""
        new = self.hashes(NEW)
        return sum(pod["metadata"]["labels"]["grove.io/pod-template-hash"] in new for pod in self.pods_of_sets())

    def hashes(self, release: str) -> set[str]:
        """Every pod template hash of the sets, as a release computes them."""
        scheme = schemes.resolve(release)
        found = (podcliqueset.hash_pod_clique_set(pcs, scheme).pod_template_hashes.values() for pcs in self.sets())
        return {value for values in found for value in values}

    def result(self, name: str = JOB) -> tuple[str, str]:
        """Wait for the Job's end: the condition that says so, and its reason."""
        try:
            eventually(lambda: job_end(self.site.job(name)), what=f"the Job {name} does not end", seconds=_SECONDS)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {[pod['status'] for pod in self.pods(name)]}") from error
        found = job_end(self.site.job(name))
        assert found is not None
        return found

    def ends(self, name: str = JOB) -> list[Ended]:
        """The Job's pods that have ended, the oldest first."""
        return [ended(pod) for pod in self.pods(name) if pod["status"]["phase"] in {"Failed", "Succeeded"}]

    def log(self, pod: str) -> str:
        """What a pod of the Job has printed; empty if it cannot be had."""
        answer = self.client.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/log", accept="*/*")
        return str(answer.body) if answer.status == 200 else ""

    def events(self) -> list[str]:
        """The reasons of all Events about sets."""
        found = self.client.list("events.k8s.io/v1", "Event", WORKLOADS)
        return [event["reason"] for event in found if event["regarding"]["kind"] == "PodCliqueSet"]

    @contextmanager
    def unharmed(self) -> Iterator[None]:
        """Nobody deletes, recreates or changes a pod of a set in the block, hashes aside, and all is migrated after."""
        before = self.site.objects()
        yield
        assert _differences(self.site.objects(), self.site.expected(before, OLD, NEW)) == []

    @contextmanager
    def in_mid_write(self) -> Iterator[Object]:
        """A run that has written some of the hashes and not all, and its pod; the block unharmed."""
        with self.unharmed():
            self.run(more=SLOW)
            yield self.writing()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Nothing of the sets changes in the block."""
        before = self.site.objects()
        yield
        assert _differences(self.site.objects(), before) == []

    def jobs(self) -> list[Object]:
        """All Jobs."""
        return self.client.list("batch/v1", "Job", NAMESPACE)

    def runs_operators(self, replicas: int) -> None:
        """Wait until so many pods of the operator run."""

        def look() -> bool:
            running = [pod for pod in self.site.operators() if pod["status"]["phase"] == "Running"]
            return len(running) == replicas

        eventually(look, what=f"not {replicas} pods of the operator run", seconds=_SECONDS)

    def row(self, title: str) -> Row:
        """What a scenario has shown."""
        pods = sorted(self._seen.values(), key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        found = [ended(pod) for pod in pods]
        jobs = [(job_end(job) or ("runs", ""), job["status"].get("failed", 0)) for job in self.jobs()]
        written, total, replicas = self.written(), len(self.pods_of_sets()), self.site.replicas()
        state = {0: "every hash is the old one", total: "every hash is the new one"}
        return Row(
            f"{title} ({self.remark})" if self.remark else title,
            [_end(one) for one in found],
            ", ".join(_gist(one.message) for one in found) or "none",
            ", ".join(f"{' '.join(filter(None, end))}, {failed} failed" for end, failed in jobs) or "none",
            ", ".join(f"{count} {reason}" for reason, count in sorted(Counter(self.events()).items())) or "none",
            f"{state.get(written, f'{written} of {total} pods have the new hash')}; operator: {replicas} replicas",
        )


def _differences(found: Any, wanted: Any, path: str = "") -> list[str]:
    """Where two values differ, each place with both of its values."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = sorted(found.keys() | wanted.keys(), key=str)
        return [line for key in keys for line in _differences(found.get(key), wanted.get(key), f"{path}/{key}")]
    return [] if found == wanted else [f"{path}: {found!r:.300} instead of {wanted!r:.300}"]


def _end(pod: Ended) -> str:
    """How a pod ended, in a few words."""
    if pod.code < 0:
        return "deleted with the Job"
    return f"{pod.code} {pod.reason}{' (DisruptionTarget)' * ('DisruptionTarget' in pod.conditions)}"


def _gist(message: str) -> str:
    """A termination message in a few words: the outcome, or the code of the failure."""
    try:
        found = json.loads(message)
    except ValueError:
        return "log lines" if message else "none"
    return str(found.get("code") or found.get("outcome") or "a log line")


def ended(pod: Object) -> Ended:
    """How a pod ended; a pod whose container nobody knows any more has code -1."""
    [container] = pod["status"].get("containerStatuses") or [{}]
    state = container.get("state", {}).get("terminated") or {}
    conditions = {found["type"]: found.get("reason", "") for found in pod["status"].get("conditions", ())}
    code, reason, message = state.get("exitCode", -1), state.get("reason", ""), state.get("message", "")
    return Ended(pod["metadata"]["name"], code, reason, message, conditions)
