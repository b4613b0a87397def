"""A cluster in memory with an operator, which goes when it is scaled to zero, as the command line finds it.

python -m tests.support.memory_site ARGUMENTS    the command line on it, for somebody at a terminal
"""

from __future__ import annotations

import json
import signal
import threading
import time
from datetime import UTC, datetime
from functools import cache
from typing import Any

from migrator import cli
from migrator.cli import connect
from migrator.kinds import DEPLOYMENTS, LEASES, POD_CLIQUE_SETS, PODS
from migrator.run import migration
from migrator.run.context import RunOptions
from migrator.run.leases import OWN_LEASE, RECORD
from migrator.run.record import Record
from testbed import operator_installation as installation
from tests.support.builders import options_of
from tests.support.clock import Clock, context_of, hurried
from tests.support.memory_store import MemoryCluster, Request
from tests.support.paths import ROOT

EXAMPLE = ROOT / "examples" / "dynamo" / "cluster.json"
OLD, NEW = "v0.1.0-alpha.8", "v0.1.0-alpha.12-rc1"
RELEASE = {"meta.helm.sh/release-name": "my-grove", "meta.helm.sh/release-namespace": "grove-system"}


class Site:
    """The recorded cluster of the Dynamo example, and its operator; or ``objects``, which such a cluster has left."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self.store = MemoryCluster(*(objects or json.loads(EXAMPLE.read_text())["items"]))
        self.store.after.append(self._follow)
        self.store.served["ct"] = "clustertopologies"
        if not objects:
            self.deploy(OLD, 1)

    def install(self, release: str, replicas: int = 1) -> None:
        """What docs/upgrade.md does: the CRD that is in the way goes, and then Helm is called."""
        self.store.served["ct"] = "clustertopologies" if release == OLD else "clustertopologybindings"
        self.deploy(release, replicas)

    def deploy(self, release: str, replicas: int) -> None:
        """What Helm does to the Deployment, and the controllers to its pod."""
        image = installation.image(release)
        deployment = installation.deployment(image, replicas=replicas, observed=True)
        deployment["metadata"]["annotations"] = RELEASE
        self.store.put(deployment)
        self._control()
        if replicas:
            self.store.put(installation.pod(image))

    def record(self, run: Record | str, namespace: str = "grove-system") -> None:
        """What a run that was killed has left, in a Lease that nobody holds any more; or what somebody wrote there."""
        text = run if isinstance(run, str) else run.text()
        metadata = {"name": OWN_LEASE, "namespace": namespace, "annotations": {RECORD: text}}
        self.store.put({"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": {}})

    def edit(self) -> None:
        """The owner of a set changes its template."""

        def change(body: dict[str, Any]) -> None:
            body["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "another:2"

        self.store.edit(POD_CLIQUE_SETS, "inference", "llama-70b", change)

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


@cache
def after_a_run() -> tuple[dict[str, Any], ...]:
    """The objects of such a cluster after a run to ``NEW``, which is made once."""
    site, clock = Site(), Clock()
    context = context_of(clock, lambda: datetime.now(UTC), sleep=clock.sleep)
    migration.run(site.store, RunOptions(options_of(NEW), stop_operator=True), context)
    return tuple(site.store.everything())


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
