"""Scheduler and kubelet of a cluster without nodes.

Pods without scheduling gates and node selectors are bound. An operator's pod runs as its program; all others are
workload: they are reported as Running and Ready, and nothing runs. A pod that is deleted ends as a kubelet ends it:
SIGTERM, SIGKILL after the grace period, and then it is gone. When the kubelet itself ends, it is as if the node were
lost: its processes end, and nobody reports it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from testbed.controlplane.client import MERGE_PATCH, AnswerError, Object
from testbed.controlplane.server import ControlPlane
from tests.e2e.lab.container import Container
from tests.support.watch import DELETED, Watch

_NODE: Final = "node"
_ADDRESS: Final = "10.244.0.1"  # of every pod: nothing listens there
_NO_LONGER_SO: Final = (404, 409, 422)  # the pod is gone, or is another one by now: a later event says which


class Kubelet:
    """Runs the pods of one API server; a context manager. ``program`` is what runs for a pod, None for workload."""

    def __init__(self, control_plane: ControlPlane, directory: Path, program: Callable[[Object], Path | None]) -> None:
        self._control_plane = control_plane
        self._directory = directory
        self._program = program
        self._client = control_plane.client()
        self._containers: list[Container] = []
        self._running: dict[str, Container] = {}
        self._started: set[str] = set()
        self._over = threading.Event()
        self._watch = Watch(self._client, self._client.kind("v1", "Pod").path(), self._handle)

    def __enter__(self) -> Self:
        self._watch.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._watch.stop()
        for container in self._containers:
            container.stop(0)
        for container in self._containers:
            container.join(10)
        self._client.close()

    @property
    def log(self) -> str:
        """What operators have printed, oldest first."""
        return "".join(found.log for found in self._containers)

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
        container = self._running.get(metadata["uid"])
        waits = spec.get("schedulingGates") or spec.get("nodeSelector")  # the node has no labels
        if change == DELETED:
            if container is not None:
                container.stop(0)
        elif metadata.get("deletionTimestamp"):
            if container is None:
                self._remove(pod)
            else:
                container.stop(metadata["deletionGracePeriodSeconds"])
        elif waits or pod["status"].get("phase") == "Failed":
            return
        elif not spec.get("nodeName"):
            self._bind(pod)
        elif metadata["uid"] not in self._started:
            self._started.add(metadata["uid"])
            self._start(pod)

    def _remove(self, pod: Object) -> None:
        """Remove a pod of which nothing runs.

        One that was never bound is failed first, as the garbage collector of pods does with it
        (kubernetes pkg/controller/podgc/gc_controller.go:gcUnscheduledTerminating).
        """
        if not pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
            self._patch_status(pod, {"phase": "Failed"})
        self._client.delete(pod)

    def _bind(self, pod: Object) -> None:
        metadata = pod["metadata"]
        path = self._client.kind("v1", "Pod").path(metadata["namespace"], metadata["name"], "binding")
        target = {"apiVersion": "v1", "kind": "Node", "name": _NODE}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": metadata["name"]}, "target": target}
        self._client.call("POST", path, body)

    def _start(self, pod: Object) -> None:
        program = self._program(pod)
        if program is None:
            self._patch_status(pod, _status(self._now(pod)))
            return
        metadata = pod["metadata"]
        container = Container(
            self._control_plane,
            self._client,
            pod,
            program,
            directory=self._directory / f"{metadata['name']}-{metadata['uid'][:8]}",
            report=self._report,
        )
        self._running[metadata["uid"]] = container
        self._containers.append(container)
        container.start()

    def _report(self, container: Container) -> None:
        pod = container.pod
        if container.ended:
            self._running.pop(pod["metadata"]["uid"], None)
        if self._over.is_set():
            return
        with suppress(AnswerError):  # a pod that was deleted by force is not there any more
            now = self._now(pod)
            if not container.ended:
                self._patch_status(pod, _status(now, container))
            elif now["metadata"]["uid"] == pod["metadata"]["uid"]:
                self._client.delete(now)

    def _now(self, pod: Object) -> Object:
        return self._client.get("v1", "Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])

    def _patch_status(self, pod: Object, status: Object) -> None:
        metadata = pod["metadata"]
        path = self._client.kind("v1", "Pod").path(metadata["namespace"], metadata["name"], "status")
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        self._client.call("PATCH", path, body, content_type=MERGE_PATCH)


def _status(pod: Object, run: Container | None = None) -> Object:
    """The status that a kubelet reports of a pod whose init containers have ended; without a ``run`` of workload."""
    ready, restarts = (run.ready, run.restarts) if run is not None else (True, 0)
    last = {"lastState": {"terminated": {"exitCode": run.exit_code}}} if run is not None and restarts else {}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    state = {"running": {"startedAt": now}} if ready else {"waiting": {"reason": "CrashLoopBackOff"}}
    containers = [
        {**_names(container), "ready": ready, "started": ready, "restartCount": restarts, "state": state, **last}
        for container in pod["spec"]["containers"]
    ]
    done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
    initial = [
        {**_names(container), "ready": True, "restartCount": 0, "state": done}
        for container in pod["spec"].get("initContainers") or ()
    ]
    conditions = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    others = [found for found in pod["status"].get("conditions") or () if found["type"] not in conditions]
    ours = [
        {"type": name, "status": "True" if holds else "False", "lastTransitionTime": now}
        for name, holds in conditions.items()
    ]
    return {
        "phase": "Running",
        "hostIP": "127.0.0.1",
        "podIP": _ADDRESS,
        "podIPs": [{"ip": _ADDRESS}],
        "startTime": pod["status"].get("startTime") or now,
        "conditions": [*others, *ours],
        "containerStatuses": containers,
        **({"initContainerStatuses": initial} if initial else {}),
    }


def _names(container: Object) -> Object:
    image = container["image"]
    return {"name": container["name"], "image": image, "imageID": image, "containerID": f"test://{container['name']}"}
