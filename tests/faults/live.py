"""The cluster of :mod:`tests.faults.cluster` on a real API server, and migrators as processes behind proxies."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from testbed.controlplane.client import Client
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.server import ControlPlane
from testbed.controlplane.trees import GROVE, load
from testbed.trees import Object
from tests.faults import cluster
from tests.faults.proxy import Proxy, Schedule, Seen
from tests.faults.truth import STUCK
from tests.support.paths import ROOT

#: Seconds. A process that is starved of a busy machine's time for two thirds of the first loses its Lease.
LEASE_SECONDS: Final = 2
REQUEST_TIMEOUT: Final = 15

LINE: Final = "alpha.9"
_ARGUMENTS: Final = ("--to", cluster.TARGET, "--stop-operator")
_LONGEST_RUN: Final = 180
_PATIENCE: Final = 4
_TAIL: Final = 2500
_WORKLOADS: Final = "default"
_LEASE: Final = ("coordination.k8s.io/v1", "Lease")
_CONFIG_MAP: Final = ("v1", "ConfigMap")
_DEPLOYMENT: Final = ("apps/v1", "Deployment")


class Migrator:
    """One process of the command line, with a proxy of its own between it and the API server."""

    def __init__(self, control_plane: ControlPlane, directory: Path, schedule: Schedule | None, *more: str) -> None:
        self.proxy = Proxy(control_plane, directory, schedule)
        self._said = directory / f"stderr-{secrets.token_hex(4)}"
        command = [sys.executable, "-m", "migrator", "run", "--kubeconfig", str(self.proxy.kubeconfig), *_ARGUMENTS]
        with self._said.open("wb") as said:
            self._process = self.proxy.process = subprocess.Popen(
                [*command, *more],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    def wait(self, *, seconds: float = _LONGEST_RUN) -> Migrator:
        """Wait so long for its end, and then for what it has under way to the API server."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"it hangs: {self}") from None
        finally:
            self.proxy.settle()
            self.proxy.close()
        return self

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def code(self) -> int:
        """The exit code, or the negative number of the signal that ended it."""
        code = self._process.returncode
        assert code is not None, "it has not ended"
        return code

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it logged."""
        lines = self._said.read_text(encoding="utf-8", errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    @property
    def hash_writes(self) -> list[Seen]:
        """The writes to objects that hold hashes."""
        plurals = {resource.plural for resource in GROVE}
        return [seen for seen in self.proxy.writes if seen.plural in plurals]

    def __str__(self) -> str:
        faulted = "; ".join(map(str, self.proxy.faulted)) or "no fault"
        said = self._said.read_text(encoding="utf-8", errors="replace")[-_TAIL:]
        return f"exit {self._process.returncode} after {faulted}:\n{said}"


class LiveCluster:
    """The cluster and what is to be seen of it. An API server's ``default`` and ``grove-system`` are its own."""

    def __init__(self, control_plane: ControlPlane, directory: Path) -> None:
        self.control_plane = control_plane
        self.directory = directory
        self.lease_seconds = LEASE_SECONDS
        self.client: Client = control_plane.client()
        apply_crds(control_plane, LINE)
        self.before: dict[cluster.Key, Object] = {}
        self.after: dict[cluster.Key, Object] = {}

    def reset(self) -> LiveCluster:
        """Everything anew, as an operator leaves it that nobody has migrated."""
        namespace, *installation = cluster.operator(lease_seconds=self.lease_seconds)
        self.client.apply(namespace)
        self.empty()
        for item in installation:
            self.client.create(item)
        load(self.client, cluster.trees())
        self.before = self.grove()
        self.after = cluster.migrated(self.before)
        return self

    def empty(self) -> None:
        """Nothing of Grove's and nothing of ours."""
        kinds = [((resource.api_version, resource.kind), _WORKLOADS) for resource in GROVE]
        kinds += [(kind, cluster.NAMESPACE) for kind in (_CONFIG_MAP, _LEASE, _DEPLOYMENT)]
        for kind, namespace in (*kinds, (("events.k8s.io/v1", "Event"), _WORKLOADS)):
            self.client.call("DELETE", self.client.kind(*kind).path(namespace))

    def close(self) -> None:
        """Leave nothing behind."""
        self.empty()
        self.client.delete_namespace(cluster.NAMESPACE)
        self.client.close()

    def start(self, schedule: Schedule | None = None, *more: str) -> Migrator:
        """A migrator under a schedule of faults."""
        return Migrator(self.control_plane, self.directory, schedule, *more)

    def run(self, schedule: Schedule | None = None, *more: str) -> Migrator:
        """The same, up to its end."""
        return self.start(schedule, *more).wait()

    def revert(self) -> Migrator:
        """A run that undoes, see :meth:`finish`."""
        return self.finish("--revert")

    def finish(self, *more: str) -> Migrator:
        """A run, and another where it lost its Lease.

        A Lease of a second or two is lost on a machine that is busy with other things; the exit code says to run again.
        """
        self.expire()
        for _ in range(_PATIENCE):
            run = self.run(None, *more)
            if run.code != STUCK or "nothing more may be written" not in str(run):
                break
            assert self.wrongs == [], str(run)
        return run

    def expire(self) -> None:
        """Let the Leases of processes that are gone be over at once: a rerun would wait for a minute."""
        self.client.call("DELETE", self.client.kind(*_LEASE).path(cluster.NAMESPACE))

    # --- what is there ------------------------------------------------------------------------------------------

    def grove(self) -> dict[cluster.Key, Object]:
        """Grove's objects."""
        found = [item for r in GROVE for item in self.client.list(r.api_version, r.kind, _WORKLOADS)]
        return cluster.by_key(found)

    def part(self, objects: dict[cluster.Key, Object], name: str) -> dict[cluster.Key, Object]:
        """Those of one set."""
        return {key: item for key, item in objects.items() if cluster.set_of(item) == name}

    @property
    def wrongs(self) -> list[str]:
        """What must hold at any moment and does not: see :func:`cluster.strays` and :func:`cluster.early_commits`."""
        found = self.grove()
        return cluster.strays(found, self.before, self.after) + cluster.early_commits(found, self.after)

    @property
    def replicas(self) -> int:
        """What the operator's Deployment asks for."""
        found = self.client.get(*_DEPLOYMENT, cluster.DEPLOYMENT, cluster.NAMESPACE)
        return int(found["spec"]["replicas"])

    @property
    def owners_of_replicas(self) -> list[str]:
        """Who owns ``spec.replicas`` beside the creator of the Deployment."""
        found = self.client.get(*_DEPLOYMENT, cluster.DEPLOYMENT, cluster.NAMESPACE)
        entries = found["metadata"]["managedFields"]
        return [entry["manager"] for entry in entries if entry.get("subresource") == "scale"]

    @property
    def holder(self) -> str:
        """Who holds the operator's Lease."""
        leases = {item["metadata"]["name"]: item for item in self.client.list(*_LEASE, cluster.NAMESPACE)}
        return str(leases.get(cluster.LEASE, {}).get("spec", {}).get("holderIdentity") or "")

    @property
    def records(self) -> list[str]:
        """The names of what runs have recorded."""
        names = [item["metadata"]["name"] for item in self.client.list(*_CONFIG_MAP, cluster.NAMESPACE)]
        return sorted(name for name in names if name.startswith("grove-migrator"))
