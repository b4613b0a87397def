"""What all clusters of the upgrade tests have in common: an API server, an operator to wait for, and workloads."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import urllib3

from testbed.controlplane.client import Client, Object, eventually
from testbed.controlplane.options import Ready, tls
from tests.support.paths import ROOT
from tests.upgrade import installation, photo
from tests.upgrade.builds import Build
from tests.upgrade.cluster import WORKLOADS, Ran
from tests.upgrade.diary import PodDiary
from tests.upgrade.photo import Photo

RUN_SECONDS: Final = 300
_QUIET_SECONDS: Final = 3.0
_LISTED: Final = (photo.SET, photo.GROUP, photo.CLIQUE)
_METRIC: Final = re.compile(r"^(\w+)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
_CREATED: Final = 201


class ServedCluster(ABC):
    """A cluster as its API server shows it; where its operator and its nodes come from is up to those that extend it.

    ``start_seconds`` is how long an operator may take to reconcile everything, ``settle_seconds`` how long workloads
    may take to come to rest.
    """

    start_seconds = 120.0
    settle_seconds = 180.0

    def __init__(self) -> None:
        self._diaries: list[PodDiary] = []
        self.build: Build  # the one that was installed last
        self.client: Client
        self.ready: Ready  # where the API server is
        self.kubeconfig: Path  # the administrator's
        self.answering = 0.0  # since when the operator that was waited for last answers, on the monotonic clock

    # What those that extend it know.

    @abstractmethod
    def _is_of(self, image: str, build: Build) -> bool:
        """Whether an operator's image is a build's."""

    @abstractmethod
    def _metrics(self) -> str:
        """The operator's metrics, in their text form; empty while it does not serve them."""

    @abstractmethod
    def _log(self) -> str:
        """What the operator has logged."""

    # The operator.

    def operator_pods(self) -> list[Object]:
        """The operator's pods, those that are ending included."""
        selector = ",".join(f"{key}={value}" for key, value in installation.SELECTOR.items())
        return self.client.list("v1", "Pod", installation.NAMESPACE, selector=selector)

    def stop_operator(self) -> None:
        """Scale the operator to zero and wait until its process has ended."""
        deployment = self.client.get("apps/v1", "Deployment", installation.DEPLOYMENT, installation.NAMESPACE)
        answer = self.client.patch(deployment, {"spec": {"replicas": 0}}, subresource="scale")
        if answer.status != 200:
            raise RuntimeError(f"the operator cannot be scaled: {answer.body}")
        what = "operator pods are still there"
        eventually(lambda: not self.operator_pods(), what=what, seconds=self.start_seconds)

    def wait_for_operator(self, build: Build) -> None:
        """Wait until a build answers at its webhooks, and has reconciled everything that was there before it."""
        limit = self.start_seconds
        try:
            eventually(lambda: self._answers(build), what=f"{build.name} does not answer", seconds=limit)
            self.answering = time.monotonic()
            eventually(self._has_reconciled, what=f"{build.name} does not come to rest", seconds=limit)
        except TimeoutError as error:
            raise TimeoutError(f"{error}:\n{self._log()[-5000:]}") from error

    def _answers(self, build: Build) -> bool:
        images = [pod["spec"]["containers"][0]["image"] for pod in self.operator_pods()]
        if len(images) != 1 or not self._is_of(images[0], build):
            return False
        probe = {"apiVersion": photo.GROVE, "kind": photo.SET, "metadata": {"name": "probe"}, "spec": _SMALLEST}
        path = self.client.kind(photo.GROVE, photo.SET).path(WORKLOADS)
        return self.client.request("POST", path, probe, query={"dryRun": "All"}).status == _CREATED

    def _has_reconciled(self) -> bool:
        """Whether each object was looked at, and nothing waits: the operator's own metrics say so."""
        objects = sum(self.client.count(photo.GROVE, kind) for kind in _LISTED)
        for _ in range(2):
            metrics = sums(self._metrics())
            done, waiting = metrics.get("controller_runtime_reconcile_total", 0), metrics.get("workqueue_depth", 1)
            if done < objects or waiting or metrics.get("controller_runtime_active_workers", 1):
                return False
            time.sleep(0.5)
        return True

    # Workloads.

    def photo(self) -> Photo:
        """All sets with everything that belongs to them."""
        items = [item for kind in _LISTED for item in self.client.list(photo.GROVE, kind, WORKLOADS)]
        return photo.take([*items, *self.client.list("v1", "Pod", WORKLOADS)])

    def settle(self, condition: Callable[[Photo], object] = bool, *, unrest: Sequence[str] = ()) -> Photo:
        """Wait until exactly this is left to do, a condition holds and nothing has changed for a while; return that."""
        deadline = time.monotonic() + self.settle_seconds
        last, since = self.photo(), time.monotonic()
        while True:
            time.sleep(1)
            now = self.photo()
            left = now.unrest()
            if left != list(unrest) or now.versions() != last.versions() or not condition(now):
                last, since = now, time.monotonic()
            elif time.monotonic() > since + _QUIET_SECONDS:
                return now
            if time.monotonic() > deadline:
                reason = left or "it keeps changing"
                raise TimeoutError(f"no rest after {self.settle_seconds:g} s: {reason}\n{self._log()[-3000:]}")

    def patch_set(self, name: str, patch: object) -> None:
        """Patch a PodCliqueSet, through the operator's webhooks."""
        self._patch(photo.SET, name, patch)

    def scale_group(self, name: str, replicas: int) -> None:
        """Scale a PodCliqueScalingGroup, as an autoscaler does."""
        self._patch(photo.GROUP, name, {"spec": {"replicas": replicas}})

    def _patch(self, kind: str, name: str, patch: object) -> None:
        item = self.client.get(photo.GROVE, kind, name, WORKLOADS)
        answer = self.client.patch({"apiVersion": photo.GROVE, "kind": kind, **item}, patch)
        if answer.status != 200:
            raise RuntimeError(f"{kind} {name} cannot be patched: {answer.body}")

    @contextmanager
    def diary(self) -> Iterator[PodDiary]:
        """What happens to workload pods while the block runs, as the watch tells it."""
        found = PodDiary(frozenset({WORKLOADS}))
        self._diaries.append(found)
        try:
            yield found
        finally:
            self._diaries.remove(found)

    def _observe(self, change: str, pod: Object) -> None:
        for found in list(self._diaries):
            found.note(change, pod)

    # The tool.

    def from_here(self, *arguments: str, kubeconfig: Path | None = None) -> Ran:
        """Run the tool on this machine to its end, as the administrator or as whose kubeconfig is given."""
        began = time.monotonic()
        done = subprocess.run(
            self.command(*arguments, kubeconfig=kubeconfig),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_SECONDS,
        )
        return Ran(done.returncode, done.stdout, done.stderr, time.monotonic() - began)

    def command(self, *arguments: str, kubeconfig: Path | None = None) -> list[str]:
        """The command line of the tool on this machine for this cluster."""
        return [sys.executable, "-m", "migrator", *arguments, "--kubeconfig", str(kubeconfig or self.kubeconfig)]

    def hashes(self, scheme: str) -> dict[str, Object]:
        """What ``grove-migrator hash`` says of the sets as the API server returns them, byte for byte, by name."""
        path = self.client.kind(photo.GROVE, photo.SET).path(WORKLOADS)
        headers = {"Authorization": f"Bearer {self.ready.token}"}
        with urllib3.PoolManager(ssl_context=tls(self.ready.ca)) as pool:
            sets = pool.request("GET", f"{self.ready.url}{path}", headers=headers).data
        done = subprocess.run(
            [sys.executable, "-m", "migrator", "hash", "-f", "-", "--scheme", scheme, "-o", "json"],
            cwd=ROOT,
            input=sets,
            capture_output=True,
            check=True,
            timeout=RUN_SECONDS,
        )
        return {found["name"]: found for found in map(json.loads, done.stdout.splitlines())}


def sums(metrics: str) -> dict[str, float]:
    """Each metric of a text, as the sum over its labels."""
    found: dict[str, float] = {}
    for name, value in _METRIC.findall(metrics):
        found[name] = found.get(name, 0) + float(value)
    return found


_SMALLEST: Final = {
    "replicas": 1,
    "template": {
        "cliques": [
            {
                "name": "one",
                "spec": {
                    "roleName": "one",
                    "replicas": 1,
                    "podSpec": {"containers": [{"name": "one", "image": "busybox:1.36"}]},
                },
            }
        ]
    },
}
