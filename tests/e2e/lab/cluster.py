"""A cluster for the bodies of the upgrade tests: an API server, one operator, and workloads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from uuid import uuid4

from migrator.grove.objects import LABEL_POD_CLIQUE
from testbed import operator_installation as installation
from testbed.controlplane.client import NOT_FOUND, Object, eventually
from tests.cluster.site import WORKLOADS, Operated
from tests.e2e.lab import photo, samples
from tests.e2e.lab.builds import REPOSITORY, Build
from tests.e2e.lab.photo import Photo
from tests.support.pages import blocks
from tests.support.paths import ROOT
from tests.support.shell import Shell
from tests.support.watch import ADDED, DELETED, Watch

RUN_SECONDS: Final = 300
_QUIET_SECONDS: Final = 3.0
_LISTED: Final = (photo.SET, photo.GROUP, photo.CLIQUE)
_METRIC: Final = re.compile(r"^(\w+)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
_CREATED: Final = 201
_CRD: Final = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
#: By CRD the one beside which it is not served, and the number of the block in docs/upgrade.md that deletes that.
_IN_THE_WAY: Final = {
    "clustertopologybindings.grove.io": ("clustertopologies.grove.io", 0),
    "clustertopologies.grove.io": ("clustertopologybindings.grove.io", 1),
}


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command of the tool ended, and how long it took, in seconds."""

    code: int
    out: str
    err: str
    seconds: float


@dataclass(slots=True)
class PodDiary:
    """What happened to pods of sets since it was opened: which were created, and which deleted."""

    created: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    _leaving: set[str] = field(default_factory=set)

    def note(self, change: str, pod: Object) -> None:
        """Write a change down; a pod that is asked to go counts as deleted from then on, and once."""
        metadata = pod["metadata"]
        if change == ADDED:
            self.created.append(metadata["name"])
        if (change == DELETED or metadata.get("deletionTimestamp")) and metadata["uid"] not in self._leaving:
            self._leaving.add(metadata["uid"])
            self.deleted.append(metadata["name"])


class Cluster(Operated, ABC):
    """A cluster with at most one operator; a context manager. Lab imitates its nodes, KindCluster has real ones.

    ``start_seconds`` is how long an operator may take to reconcile everything, ``settle_seconds`` how long workloads
    may take to come to rest. ``client`` is the administrator's. ``answering`` is since when the operator that was
    installed last answers, on the monotonic clock.
    """

    start_seconds = 120.0
    settle_seconds = 180.0

    def __init__(self) -> None:
        self._diaries: list[PodDiary] = []
        self._ended: dict[str, float] = {}  # when the last pod of each operator's image was gone
        self.kubeconfig: Path  # the administrator's
        self.answering = 0.0
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as ends:
            self._begin(ends)
            ends.callback(self.client.close)
            for name in (installation.NAMESPACE, WORKLOADS):
                self.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            ends.callback(Watch(self.client, "/api/v1/pods", self._note).start().stop)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ends.__exit__(kind, error, at)

    # What each kind of cluster does in its own way.

    @abstractmethod
    def _begin(self, ends: ExitStack) -> None:
        """Start the cluster and set ``client`` and ``kubeconfig``; ``ends`` takes what ends it."""

    @abstractmethod
    def apply_crds(self, build: Build) -> None:
        """Replace the CRDs by those of a build, as docs/upgrade.md says."""

    @abstractmethod
    def upgrade(self, build: Build) -> None:
        """What ``helm upgrade`` does with the chart of a build; no CRD is touched."""

    @abstractmethod
    def _metrics(self) -> str:
        """The operator's metrics, in their text form; empty while it does not serve them."""

    @abstractmethod
    def _log(self) -> str:
        """What the operator has logged."""

    # The operator.

    def install(self, build: Build) -> None:
        """Install a build with its CRDs, or upgrade to it, and wait until it has reconciled what was there."""
        self.apply_crds(build)
        self.upgrade(build)
        self.wait_for_operator(build)

    def make_way(self, wanted: Iterable[str]) -> None:
        """Delete the CRD that is in the way of those that are ``wanted``, if docs/upgrade.md says so: by its block."""
        there = {crd["metadata"]["name"] for crd in self.client.list(*_CRD)}
        for name in {*wanted} & _IN_THE_WAY.keys():
            other, number = _IN_THE_WAY[name]
            if other in there:
                with tempfile.TemporaryDirectory() as scratch:
                    Shell(Path(scratch), self.kubeconfig).paste(blocks("upgrade", "The CRDs")[number])

    def wait_for_operator(self, build: Build) -> None:
        """Wait until a build answers at its webhooks, and has reconciled everything that was there before it."""
        limit = self.start_seconds
        try:
            eventually(lambda: self._answers(build), what=f"{build.name} does not answer", seconds=limit)
            self.answering = time.monotonic()
            eventually(self._has_reconciled, what=f"{build.name} does not come to rest", seconds=limit)
        except TimeoutError as error:
            raise TimeoutError(f"{error}:\n{self._log()[-5000:]}") from error

    def has_ended(self, build: Build) -> bool:
        """Whether a pod of a build's operator is gone."""
        return any(is_of(image, build) for image in list(self._ended))

    def ended(self, build: Build) -> float:
        """When the last pod of a build's operator was gone, on the monotonic clock, as the watch told it."""
        eventually(lambda: self.has_ended(build), what=f"no operator of {build.name} has ended")
        return max(when for image, when in list(self._ended.items()) if is_of(image, build))

    def wait_for_collector(self) -> None:
        """Wait until the garbage collector knows Grove's kinds, which it looks for every 30 s.

        A pod that was made before can outlive its PodClique for ever: nothing tells the collector that this is gone.
        """
        owner = {"apiVersion": photo.GROVE, "kind": photo.CLIQUE, "name": "gone", "uid": str(uuid4())}
        probe = {"name": "probe", "namespace": WORKLOADS, "ownerReferences": [owner]}
        self.client.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": probe})
        what = "the garbage collector does not know PodCliques"
        path = self.client.kind("v1", "ConfigMap").path(WORKLOADS, "probe")
        eventually(lambda: self.client.request("GET", path).status == NOT_FOUND, what=what, seconds=self.start_seconds)

    def _answers(self, build: Build) -> bool:
        images = [pod["spec"]["containers"][0]["image"] for pod in self.operators()]
        if len(images) != 1 or not is_of(images[0], build):
            return False
        probe = samples.busybox() | {"metadata": {"name": "probe"}}
        path = self.client.kind(photo.GROVE, photo.SET).path(WORKLOADS)
        return self.client.request("POST", path, probe, query={"dryRun": "All"}).status == _CREATED

    def _has_reconciled(self) -> bool:
        """Whether each object was looked at, and nothing waits: the operator's own metrics say so."""
        objects = sum(len(self.client.list(photo.GROVE, kind)) for kind in _LISTED)
        for _ in range(2):
            metrics = sums(self._metrics())
            done, waiting = metrics.get("controller_runtime_reconcile_total", 0), metrics.get("workqueue_depth", 1)
            if done < objects or waiting or metrics.get("controller_runtime_active_workers", 1):
                return False
            time.sleep(0.5)
        return True

    # Workloads.

    def photo(self) -> Photo:
        items = [item for kind in _LISTED for item in self.client.list(photo.GROVE, kind)]
        return photo.take([*items, *self.client.list("v1", "Pod", selector=LABEL_POD_CLIQUE)])

    def settle(
        self,
        condition: Callable[[Photo], object] = bool,
        *,
        at_rest: bool = True,
        quiet: float = _QUIET_SECONDS,
    ) -> Photo:
        """Wait until a condition holds and nothing has changed for ``quiet`` seconds; return how it is then.

        Nothing may be left to do, unless ``at_rest`` is false.
        """
        deadline = time.monotonic() + self.settle_seconds
        last, since = self.photo(), time.monotonic()
        while True:
            time.sleep(1)
            now = self.photo()
            left = now.unrest() if at_rest else []
            if left or now.versions() != last.versions() or not condition(now):
                last, since = now, time.monotonic()
            elif time.monotonic() > since + quiet:
                return now
            if time.monotonic() > deadline:
                reason = left[:10] or "it keeps changing"
                raise TimeoutError(f"no rest after {self.settle_seconds:g} s: {reason}\n{self._log()[-3000:]}")

    def scale(self, kind: str, name: str, replicas: int) -> None:
        """Scale a PodCliqueScalingGroup or a PodClique, as an autoscaler does."""
        self.patch(kind, name, {"spec": {"replicas": replicas}})

    def patch(self, kind: str, name: str, patch: object, *, subresource: str | None = None) -> None:
        """Patch an object of Grove's, through the operator's webhooks."""
        item = self.client.get(photo.GROVE, kind, name, WORKLOADS)
        answer = self.client.patch({"apiVersion": photo.GROVE, "kind": kind, **item}, patch, subresource=subresource)
        if answer.status != 200:
            raise RuntimeError(f"{kind} {name} cannot be patched: {answer.body}")

    @contextmanager
    def diary(self) -> Iterator[PodDiary]:
        """What happens to workload pods while the block runs, as the watch tells it."""
        found = PodDiary()
        self._diaries.append(found)
        try:
            yield found
        finally:
            self._diaries.remove(found)

    @contextmanager
    def undisturbed(self) -> Iterator[Photo]:
        """No pod of a workload is deleted or created in the block, which begins with how everything is before it."""
        before = self.photo()
        with self.diary() as diary:
            yield before
        assert diary.deleted == []
        assert diary.created == []
        assert self.photo().pods() == before.pods()

    def _note(self, change: str, pod: Object) -> None:
        labels = pod["metadata"].get("labels") or {}
        if LABEL_POD_CLIQUE in labels:
            for found in list(self._diaries):
                found.note(change, pod)
        elif change == DELETED and installation.LABELS.items() <= labels.items():
            self._ended[pod["spec"]["containers"][0]["image"]] = time.monotonic()

    # The tool.

    def migrate(self, target: Build, *more: str) -> Ran:
        """A run to a build that comes next, which must succeed."""
        done = self.tool("run", *more, *target.target, "--stop-operator")
        assert done.code == 0, done.err
        return done

    def tool(self, *arguments: str, stdin: bytes = b"") -> Ran:
        """Run the tool on this machine to its end, as the administrator; ``err`` is its log."""
        began = time.monotonic()
        command = [sys.executable, "-m", "migrator", *arguments]
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, input=stdin, capture_output=True, check=False, timeout=RUN_SECONDS
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode(), time.monotonic() - began)

    def hashes(self, scheme: str) -> dict[str, Object]:
        """What ``grove-migrator hash`` says of the sets as the API server returns them, byte for byte, by name."""
        sets = self.client.send("GET", self.client.kind(photo.GROVE, photo.SET).path(WORKLOADS)).data
        done = self.tool("hash", "-f", "-", "--scheme", scheme, stdin=sets)
        assert done.code == 0, done.err
        return {found["name"]: found for found in map(json.loads, done.out.splitlines())}


def is_of(image: str, build: Build) -> bool:
    """Whether an operator's image is a build's, from whatever registry."""
    return image.rpartition("/")[2] == f"{REPOSITORY}:{build.name}"


def sums(metrics: str) -> dict[str, float]:
    """Each metric of a text, as the sum over its labels."""
    found: dict[str, float] = {}
    for name, value in _METRIC.findall(metrics):
        found[name] = found.get(name, 0) + float(value)
    return found
