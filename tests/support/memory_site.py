"""A cluster in memory with an operator, which goes when it is scaled to zero, as the command line finds it.

python -m tests.support.memory_site ARGUMENTS    the command line on it, for somebody at a terminal
"""

from __future__ import annotations

import json
import signal
import threading
import time
from typing import Any

from migrator import cli
from migrator.cli import connect
from migrator.kinds import DEPLOYMENTS, LEASES, POD_CLIQUE_SETS, PODS
from migrator.run.leases import OWN_LEASE, RECORD
from migrator.run.record import Record
from testbed import operator_installation as installation
from tests.support.clock import hurried
from tests.support.memory_store import MemoryCluster, Request
from tests.support.paths import ROOT

EXAMPLE = ROOT / "examples" / "dynamo" / "cluster.json"
OLD, NEW = "v0.1.0-alpha.8", "v0.1.0-alpha.12-rc1"
RELEASE = {"meta.helm.sh/release-name": "my-grove", "meta.helm.sh/release-namespace": "grove-system"}


class Site:
    """The recorded cluster of the Dynamo example, and its operator."""

    def __init__(self) -> None:
        items: list[dict[str, Any]] = json.loads(EXAMPLE.read_text())["items"]
        self.store = MemoryCluster(*items)
        self.store.after.append(self._follow)
        self.replace_crds(OLD)
        self.install(OLD, 1)

    def replace_crds(self, release: str) -> None:
        """What the section on CRDs of docs/upgrade.md does: the one that is in the way goes."""
        self.store.served["ct"] = "clustertopologies" if release == OLD else "clustertopologybindings"

    def install(self, release: str, replicas: int) -> None:
        """What Helm does to the Deployment, and the controllers to its pod."""
        image = installation.image(release)
        deployment = installation.deployment(image, replicas=replicas, observed=True)
        deployment["metadata"]["annotations"] = RELEASE
        self.store.put(deployment)
        self._control()
        if replicas:
            self.store.put(installation.pod(image))

    def record(self, run: Record) -> None:
        """What a run that was killed has left, in a Lease that nobody holds any more."""
        metadata = {"name": OWN_LEASE, "namespace": "grove-system", "annotations": {RECORD: run.text()}}
        self.store.put({"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": {}})

    def _follow(self, request: Request) -> None:
        if request.resource == DEPLOYMENTS and request.subresource == "scale" and request.number:
            self._control()

    def _control(self) -> None:
        """What the Deployment controller does when the replicas have changed: no pod of before stays."""

        def observe(body: dict[str, Any]) -> None:
            body["status"]["observedGeneration"] = body["metadata"]["generation"]

        self.store.edit(DEPLOYMENTS, "grove-system", "grove-operator", observe)
        self.store.drop(PODS, "grove-system", "grove-operator-x")

    @property
    def replicas(self) -> int:
        found: int = self.store.read(DEPLOYMENTS, "grove-system", "grove-operator")["spec"]["replicas"]
        return found

    @property
    def generations(self) -> list[str]:
        """What the sets' own hashes are: those of the example, or others."""
        return [item["status"]["currentGenerationHash"] for item in self.store.everything(POD_CLIQUE_SETS)]


def end_at_a_pod(store: MemoryCluster) -> None:
    """Ask the next run to end once it writes to a pod."""
    sent = list[Request]()

    def end(request: Request) -> None:
        if request.writes and request.resource == PODS and not sent:
            sent.append(request)
            handler = signal.getsignal(signal.SIGTERM)
            signal.pthread_kill(int(threading.main_thread().ident or 0), signal.SIGTERM)
            for _ in range(5000):  # until the main thread has heard it; the next set could be done before
                if signal.getsignal(signal.SIGTERM) is not handler:
                    break
                time.sleep(0.001)

    store.before.append(end)


if __name__ == "__main__":
    connect.connect = lambda *_, **__: site.store  # type: ignore[assignment]
    connect.context = hurried(connect.context)
    site = Site()
    cli.main()
