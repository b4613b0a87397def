"""Processes of the command line on a real API server: one is killed in mid-write, and two run at once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from testbed import workloads
from testbed.controlplane.client import eventually
from tests.cluster.manifests.site import NAMESPACE, NEW, OLD, WORKLOADS, Site
from tests.support.paths import ROOT
from tests.support.translation import migrated

pytestmark = pytest.mark.controlplane

#: So many that a run with one patch at a time can be caught among its writes.
SETS: Final = 20


class Process:
    """``grove-migrator run``, one patch at a time."""

    def __init__(self, site: Site, directory: Path, *more: str) -> None:
        where = ("--kubeconfig", str(site.server.kubeconfig), "-o", "json", "--log-format=json")
        command = [sys.executable, "-m", "migrator", "run", "--to", NEW, "--stop-operator", "--concurrency=1"]
        directory.mkdir()
        self._out, self._err = directory / "out", directory / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [*command, *where, *more], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )

    def said(self) -> str:
        """What it has logged so far."""
        return self._err.read_text(encoding="utf-8")

    def finish(self) -> Any:
        """Wait for its end, which must be a good one; its result."""
        assert self.process.wait(120) == 0, self.said()
        return json.loads(self._out.read_text(encoding="utf-8"))


@pytest.fixture
def start(site: Site, tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Starts processes on a cluster to migrate, which end with the test."""
    site.fill(*(workloads.standalone(f"set-{number}", namespace=WORKLOADS) for number in range(SETS)))
    started: list[Process] = []

    def one(*more: str) -> Process:
        started.append(Process(site, tmp_path / str(len(started)), *more))
        return started[-1]

    yield one
    for found in started:
        found.process.kill()
        found.process.wait()
    site.clear()


def leases(site: Site) -> dict[str, int]:
    """How long each Lease in the operator's namespace lasts."""
    found = site.admin.list("coordination.k8s.io/v1", "Lease", NAMESPACE)
    return {item["metadata"]["name"]: item["spec"]["leaseDurationSeconds"] for item in found}


def in_mid_write(site: Site, before: Any) -> None:
    """Wait until some pods have new hashes, and return while others have old ones."""
    pods = [item for (kind, _), item in before.items() if kind == "Pod"]

    def changed() -> int:
        return sum(
            item["metadata"]["labels"] != before["Pod", item["metadata"]["name"]]["metadata"]["labels"]
            for item in site.admin.list("v1", "Pod", WORKLOADS)
        )

    eventually(changed, what="no pod has a new hash", every=0.005)
    assert changed() < len(pods), "the run was faster than the test"


@pytest.mark.parametrize(("way", "replicas"), [((), 0), (("--revert", "--yes"), 1)], ids=["rerun", "revert"])
def test_a_killed_run_is_finished_or_undone(
    site: Site, start: Callable[..., Process], way: tuple[str, ...], replicas: int
) -> None:
    """SIGKILL in mid-write: a rerun finishes it, or a revert gives back the very objects and the operator."""
    before = site.objects()
    after = migrated(before, OLD, NEW)
    killed = start()
    in_mid_write(site, before)
    killed.process.kill()
    assert killed.process.wait(60) == -signal.SIGKILL
    assert before != site.objects() != after
    assert set(leases(site).values()) == {60, 3600}, "its own Lease lasts a minute, and the operator's an hour"
    site.expire()
    start(*way).finish()
    assert site.objects() == (before if way else after)
    assert site.replicas() == replicas
    assert set(leases(site).values()) == {1}, "they are free"
    fields = site.deployment()["metadata"]["managedFields"]
    assert not [entry for entry in fields if entry.get("subresource") == "scale" and "f:spec" in entry["fieldsV1"]]


def test_of_two_runs_one_writes(site: Site, start: Callable[..., Process]) -> None:
    """A second run that starts in the middle of the first one waits for its Lease, and finds nothing left to write."""
    before = site.objects()
    first = start()
    in_mid_write(site, before)
    first.process.send_signal(signal.SIGSTOP)
    second = start()
    eventually(lambda: "is held by" in second.said(), what="the second run does not wait")
    first.process.send_signal(signal.SIGCONT)
    assert first.finish()["patches"] > 0
    assert second.finish()["patches"] == 0
    assert (site.objects(), site.replicas()) == (migrated(before, OLD, NEW), 0)
