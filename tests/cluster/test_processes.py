"""Processes of the command line on a real API server: one is killed in mid-write, and two run at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from testbed.controlplane.client import eventually
from tests.cluster.running import Running
from tests.cluster.site import NAMESPACE, NEW, OLD, ServedSite
from tests.support.command_line import Invoke
from tests.support.translation import migrated

pytestmark = pytest.mark.controlplane


@pytest.fixture
def start(site: ServedSite, tmp_path: Path) -> Iterator[Callable[[str], Running]]:
    """Starts runs by a name on a cluster to migrate, which end with the test."""
    site.fill()
    with ExitStack() as ends:

        def one(name: str) -> Running:
            return ends.enter_context(Running(tmp_path / name, site.client, site.server.kubeconfig, "--to", NEW))

        yield one


def leases(site: ServedSite) -> dict[str, int]:
    """How long each Lease in the operator's namespace lasts."""
    found = site.client.list("coordination.k8s.io/v1", "Lease", NAMESPACE)
    return {item["metadata"]["name"]: item["spec"]["leaseDurationSeconds"] for item in found}


@pytest.mark.parametrize(("way", "replicas"), [((), 0), (("--revert", "--yes"), 1)], ids=["rerun", "revert"])
def test_a_killed_run_is_finished_or_undone(
    site: ServedSite, start: Callable[[str], Running], invoke: Invoke, way: tuple[str, ...], replicas: int
) -> None:
    """SIGKILL in mid-write: a rerun finishes it, or a revert gives back the very objects and the operator."""
    before = site.objects()
    after = migrated(before, OLD, NEW)
    killed = start("killed")
    killed.until_it_writes()
    killed.process.kill()
    assert killed.process.wait(60) == -signal.SIGKILL
    assert before != site.objects() != after
    assert set(leases(site).values()) == {60, 3600}, "its own Lease lasts a minute, and the operator's an hour"
    site.expire()
    invoke("run", "--to", NEW, "--stop-operator", *way, "--kubeconfig", site.server.kubeconfig)
    assert site.objects() == (before if way else after)
    assert site.replicas() == replicas
    assert set(leases(site).values()) == {1}, "they are free"
    fields = site.deployment()["metadata"]["managedFields"]
    assert not [entry for entry in fields if entry.get("subresource") == "scale" and "f:spec" in entry["fieldsV1"]]


def test_of_two_runs_one_writes(site: ServedSite, start: Callable[[str], Running]) -> None:
    """A second run that starts in the middle of the first one waits for its Lease, and finds nothing left to write."""
    with site.unharmed():
        first = start("first")
        first.until_it_writes()
        first.process.send_signal(signal.SIGSTOP)
        second = start("second")
        eventually(lambda: "is held by" in second.log, what="the second run does not wait")
        first.process.send_signal(signal.SIGCONT)
        assert first.finish()["patches"] > 0
        assert second.finish()["patches"] == 0
    assert site.replicas() == 0
