"""A cluster in which real Grove operators run: real API server, real controllers, and a pod runner for nodes."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import urllib3

from tests.controlplane.client import Object, eventually
from tests.controlplane.crds import apply_crds
from tests.controlplane.options import Options
from tests.controlplane.server import ControlPlane
from tests.upgrade import builds, installation, photo
from tests.upgrade.builds import Build
from tests.upgrade.container import Program
from tests.upgrade.photo import Photo
from tests.upgrade.pod_runner import PodRunner
from tests.upgrade.watch import PodDiary

ROOT: Final = Path(__file__).resolve().parents[2]
WORKLOADS: Final = "serving"
_START_SECONDS: Final = 120.0
_SETTLE_SECONDS: Final = 180.0
_QUIET_SECONDS: Final = 3.0
_RUN_SECONDS: Final = 300
_LISTED: Final = (photo.SET, photo.GROUP, photo.CLIQUE)
_METRIC: Final = re.compile(r"^(\w+)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
# With this the API server calls a webhook at what its Service is an alias of; else it wants Endpoints, which refuse
# loopback addresses.
_ARGUMENTS: Final = ("--enable-aggregator-routing=false",)


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command of the tool ended, and how long it took, in seconds."""

    code: int
    out: str
    err: str
    seconds: float


class Lab:
    """One cluster; a context manager. At most one operator is installed in it.

    Builds that can elect a leader do so, as their chart has it; with ``leader_election`` the others are told to.
    """

    def __init__(self, directory: Path, *, authorizer: bool = False, leader_election: bool = False) -> None:
        self.control_plane = ControlPlane(
            directory / "controlplane", Options(controller_manager=True, apiserver_args=_ARGUMENTS)
        )
        self._directory = directory
        self._authorizer = authorizer
        self._leader_election = leader_election
        self._ports = _free_ports(3)
        self._diaries: list[PodDiary] = []
        self.build: Build  # the one that was installed last
        self.answering = 0.0  # since when the operator that was waited for last answers, on the monotonic clock
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        self.control_plane.start()
        self._ends.callback(self.control_plane.stop)
        self.client = self.control_plane.client()
        self._ends.callback(self.client.close)
        for name in (installation.NAMESPACE, WORKLOADS):
            self.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.runner = self._ends.enter_context(
            PodRunner(self.control_plane, self._directory / "pods", _program, observe=self._observe)
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ends.close()

    # The operator.

    def install(self, build: Build, *, wait: bool = True, lease_rights: bool | None = None) -> None:
        """Install a build with its CRDs, or upgrade to it, as the chart does: afterwards one replica of it runs."""
        self.build = build
        webhooks, health, metrics = self._ports
        settings = installation.Settings(
            webhooks=webhooks,
            health=health,
            metrics=metrics,
            leader_election=self._leader_election or build.leads,
            lease_rights=build.leads if lease_rights is None else lease_rights,
            authorizer=self._authorizer,
        )
        self.apply_crds(build.crds)
        if not self.client.list("v1", "Secret", installation.NAMESPACE):
            for item in (installation.certificate(), *installation.webhooks(settings)):
                self.client.create(item)
        for item in installation.objects(build, settings):
            self.client.apply(item, manager="helm")
        if wait:
            self.wait_for_operator(build)

    def apply_crds(self, line: str) -> None:
        """Apply a line's CRDs, unless they are in force already."""
        apply_crds(self.control_plane, line)

    def stop_operator(self) -> None:
        """Scale the operator to zero and wait until its process has ended."""
        deployment = self.client.get("apps/v1", "Deployment", installation.DEPLOYMENT, installation.NAMESPACE)
        answer = self.client.patch(deployment, {"spec": {"replicas": 0}}, subresource="scale")
        if answer.status != 200:
            raise RuntimeError(f"the operator cannot be scaled: {answer.body}")
        eventually(lambda: not self.operator_pods(), what="operator pods are still there")

    def operator_pods(self) -> list[Object]:
        """The operator's pods, those that are ending included."""
        selector = ",".join(f"{key}={value}" for key, value in installation.SELECTOR.items())
        return self.client.list("v1", "Pod", installation.NAMESPACE, selector=selector)

    def wait_for_operator(self, build: Build) -> None:
        """Wait until a build answers at its webhooks, and has reconciled everything that was there before it."""
        try:
            eventually(lambda: self._answers(build), what=f"{build.name} does not answer", seconds=_START_SECONDS)
            self.answering = time.monotonic()
            eventually(self._has_reconciled, what=f"{build.name} does not come to rest", seconds=_START_SECONDS)
        except TimeoutError as error:
            raise TimeoutError(f"{error}:\n{self.runner.log(installation.DEPLOYMENT)[-5000:]}") from error

    def _answers(self, build: Build) -> bool:
        if [pod["spec"]["containers"][0]["image"] for pod in self.operator_pods()] != [build.image]:
            return False
        probe = {"apiVersion": photo.GROVE, "kind": photo.SET, "metadata": {"name": "probe"}, "spec": _SMALLEST}
        path = self.client.kind(photo.GROVE, photo.SET).path(WORKLOADS)
        return self.client.request("POST", path, probe, query={"dryRun": "All"}).status == 201

    def _has_reconciled(self) -> bool:
        """Whether each object was looked at, and nothing waits: the operator's own metrics say so."""
        objects = sum(self.client.count(photo.GROVE, kind) for kind in _LISTED)
        for _ in range(2):
            metrics = self._metrics()
            done, waiting = metrics.get("controller_runtime_reconcile_total", 0), metrics.get("workqueue_depth", 1)
            if done < objects or waiting or metrics.get("controller_runtime_active_workers", 1):
                return False
            time.sleep(0.5)
        return True

    def _metrics(self) -> dict[str, float]:
        """The operator's metrics, each the sum over its labels; none while it does not serve them."""
        url = f"http://127.0.0.1:{self._ports[2]}/metrics"
        try:
            text = urllib3.request("GET", url, timeout=5, retries=False).data.decode()
        except urllib3.exceptions.HTTPError:
            return {}
        found: dict[str, float] = {}
        for name, value in _METRIC.findall(text):
            found[name] = found.get(name, 0) + float(value)
        return found

    # Workloads.

    def photo(self) -> Photo:
        """All sets with everything that belongs to them."""
        items = [item for kind in _LISTED for item in self.client.list(photo.GROVE, kind, WORKLOADS)]
        return photo.take([*items, *self.client.list("v1", "Pod", WORKLOADS)])

    def settle(self, condition: Callable[[Photo], object] = bool) -> Photo:
        """Wait until nothing is left to do, a condition holds and nothing has changed for a while; return that."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        last, since = self.photo(), time.monotonic()
        while True:
            time.sleep(0.3)
            now = self.photo()
            unrest = now.unrest()
            if unrest or now.versions() != last.versions() or not condition(now):
                last, since = now, time.monotonic()
            elif time.monotonic() > since + _QUIET_SECONDS:
                return now
            if time.monotonic() > deadline:
                log = self.runner.log(installation.DEPLOYMENT)[-3000:]
                raise TimeoutError(f"no rest after {_SETTLE_SECONDS:g} s: {unrest or 'it keeps changing'}\n{log}")

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

    def tool(self, *arguments: str, kubeconfig: Path | None = None) -> Ran:
        """Run the tool to its end, as a user does: the administrator, or whose kubeconfig is given."""
        began = time.monotonic()
        done = subprocess.run(
            self.command(*arguments, kubeconfig=kubeconfig),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=_RUN_SECONDS,
        )
        return Ran(done.returncode, done.stdout, done.stderr, time.monotonic() - began)

    def command(self, *arguments: str, kubeconfig: Path | None = None) -> list[str]:
        """The command line of the tool for this cluster."""
        who = str(kubeconfig or self.control_plane.kubeconfig)
        return [sys.executable, "-m", "migrator", *arguments, "--kubeconfig", who]

    def hashes(self, scheme: str) -> dict[str, Object]:
        """What ``grove-migrator hash`` says of the sets as the API server returns them, byte for byte, by name."""
        path = self.client.kind(photo.GROVE, photo.SET).path(WORKLOADS)
        headers = {"Authorization": f"Bearer {self.control_plane.token}"}
        with urllib3.PoolManager(ca_certs=str(self.control_plane.ca)) as pool:
            sets = pool.request("GET", f"{self.control_plane.url}{path}", headers=headers).data
        done = subprocess.run(
            [sys.executable, "-m", "migrator", "hash", "-f", "-", "--scheme", scheme, "-o", "json"],
            cwd=ROOT,
            input=sets,
            capture_output=True,
            check=True,
            timeout=_RUN_SECONDS,
        )
        return {found["name"]: found for found in map(json.loads, done.stdout.splitlines())}


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


def _program(image: str) -> Program | None:
    build = builds.of_image(image)
    if build is None:
        return None
    binary = build.binary()
    if binary is None:
        raise FileNotFoundError(f"{builds.VARIABLE} has no {build.name}/grove-operator")
    return Program((str(binary),), {"GOMAXPROCS": str(os.cpu_count() or 1)})


def _free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(found.getsockname()[1]) for found in sockets]
    for found in sockets:
        found.close()
    return ports
