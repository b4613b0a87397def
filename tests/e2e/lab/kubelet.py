"""Scheduler and kubelet of a cluster without nodes.

Pods without scheduling gates and node selectors are bound. An operator's pod runs as its program; all others are
workload: they are reported as Running and Ready, and nothing runs. A pod that is deleted ends as a kubelet ends it:
SIGTERM, SIGKILL after the grace period, and then it is gone. When the kubelet itself ends, it is as if the node were
lost: its processes end, and nobody reports it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from testbed.controlplane.client import AnswerError, Client, Object
from tests.e2e.lab.container import Container
from tests.support.watch import DELETED, Watch

_NO_LONGER_SO: Final = (404, 409, 422)  # the pod is gone, or is another one by now: a later event says which


class Kubelet:
    """Runs the pods of one API server; a context manager. ``program`` is what runs for a pod, None for workload."""

    def __init__(self, client: Client, directory: Path, program: Callable[[Object], Path | None]) -> None:
        self._client, self._directory, self._program = client, directory, program
        self._workload: set[str] = set()
        self._containers: dict[str, Container] = {}  # by the uid of their pod
        self._over = threading.Event()
        self._watch = Watch(self._client, self._client.kind("v1", "Pod").path(), self._handle)

    def __enter__(self) -> Self:
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watch.stop()
        for container in self._containers.values():
            container.stop(0)
        for container in self._containers.values():
            container.join(10)

    @property
    def log(self) -> str:
        """What operators have printed, oldest first."""
        return "".join(found.log for found in list(self._containers.values()))

    def place(self, pod: Object) -> None:
        """Run a pod whose node selector no node suits, as if such a node had come."""
        self._bind(pod)
        self._start(pod)

    def _handle(self, change: str, pod: Object) -> None:
        if self._over.is_set():
            return
        try:
            self._step(change, pod)
        except AnswerError as error:
            if error.answer.status not in _NO_LONGER_SO:
                raise

    def _step(self, change: str, pod: Object) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        container = self._containers.get(metadata["uid"])
        if container is not None and change == DELETED:
            container.stop(0)
        elif change == DELETED:
            return
        elif metadata.get("deletionTimestamp"):
            if container is None:
                self._client.delete(pod)
            else:
                container.stop(metadata["deletionGracePeriodSeconds"])
        elif spec.get("schedulingGates") or spec.get("nodeSelector"):  # the node has no labels
            return
        elif not spec.get("nodeName"):
            self._bind(pod)
        elif container is None and metadata["uid"] not in self._workload:
            self._start(pod)

    def _bind(self, pod: Object) -> None:
        metadata = pod["metadata"]
        path = self._client.kind("v1", "Pod").path(metadata["namespace"], metadata["name"], "binding")
        target = {"apiVersion": "v1", "kind": "Node", "name": "node"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": metadata["name"]}, "target": target}
        self._client.call("POST", path, body)

    def _start(self, pod: Object) -> None:
        uid, program = pod["metadata"]["uid"], self._program(pod)
        if program is None:
            self._workload.add(uid)
            self._report(pod, ready=True)
        else:
            self._containers[uid] = Container(self._client, pod, program, self._directory / uid, self._tell)
            self._containers[uid].start()

    def _tell(self, container: Container) -> None:
        """Report how a container is, unless its pod was deleted by force; an ended one's pod is gone then."""
        if self._over.is_set():
            return
        if container.ended:
            self._client.delete(container.pod)
            return
        last = {"terminated": {"exitCode": container.exit_code}} if container.restarts else {}
        try:
            self._report(container.pod, ready=container.ready, restartCount=container.restarts, lastState=last)
        except AnswerError as error:
            if error.answer.status not in _NO_LONGER_SO:
                raise

    def _report(self, pod: Object, *, ready: bool, **more: object) -> None:
        """Report the status of a pod whose init containers have ended."""
        metadata, spec = pod["metadata"], pod["spec"]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        state = {"running": {}} if ready else {"waiting": {"reason": "CrashLoopBackOff"}}
        started = {"ready": ready, "started": ready, "state": state, "restartCount": 0, **more}
        ended = {"ready": True, "state": {"terminated": {"exitCode": 0}}, "restartCount": 0}
        status = {
            "phase": "Running",
            "conditions": [
                {"type": name, "status": str(holds), "lastTransitionTime": now}
                for name, holds in {"PodScheduled": True, "Initialized": True, "Ready": ready}.items()
            ],
            "containerStatuses": [{"name": one["name"], **started} for one in spec["containers"]],
            "initContainerStatuses": [{"name": one["name"], **ended} for one in spec.get("initContainers") or ()],
        }
        path = self._client.kind("v1", "Pod").path(metadata["namespace"], metadata["name"], "status")
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        self._client.call("PATCH", path, body, content_type="application/strategic-merge-patch+json")
