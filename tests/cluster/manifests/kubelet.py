"""What a scheduler and a kubelet do, for tests without nodes: pods are bound, run, and say how they ended.

A container of an image that is known runs as that says. All other pods only look as if they ran.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from testbed.controlplane.client import MERGE_PATCH, AnswerError, Client, Object
from testbed.controlplane.server import ControlPlane
from tests.cluster.manifests.container import Container, Ended, Image
from tests.cluster.manifests.kubelet_logs import serving

_NODE: Final = "node"
_LOOK_SECONDS: Final = 0.1
_GONE: Final = (404, 409)  # what a pod that is deleted meanwhile answers


class Kubelet:
    """The one node of a cluster, for the pods of one namespace, while it is used as a context.

    ``images`` are those whose containers run, by their names without tag. ``containers`` are all that it has run,
    ``ended`` how they ended.
    """

    def __init__(self, server: ControlPlane, namespace: str, directory: Path, images: Mapping[str, Image]) -> None:
        self.containers: list[Container] = []
        self.ended: list[Ended] = []
        self._server, self._namespace, self._directory, self._images = server, namespace, directory, images
        self._admin: Client = server.client()
        self._over = threading.Event()
        self._running: dict[str, Container | None] = {}  # by the pod's uid; None only looks as if it ran
        self._errors: list[Exception] = []
        self._threads = [threading.Thread(target=self._watch)]
        self._logs = serving(server, _NODE, self.log)

    def __enter__(self) -> Self:
        self._logs.__enter__()
        self._threads[0].start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._threads[0].join()
        for container in self.containers:
            container.kill()
        for thread in self._threads[1:]:
            thread.join()
        self._logs.__exit__(None, None, None)
        self._admin.close()
        if self._errors and error is None:
            raise self._errors[0]

    def log(self, pod: str) -> str | None:
        """What the container of a pod has printed; ``None`` if none ran here."""
        return next((container.log for container in self.containers if container.name == pod), None)

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            try:
                for pod in self._admin.list("v1", "Pod", self._namespace):
                    self._look_after(pod)
            except Exception as error:  # noqa: BLE001 - it is raised where the context ends
                self._errors.append(error)
                return

    def _look_after(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        try:
            if pod["metadata"].get("deletionTimestamp"):
                self._end(uid, pod)
            elif uid not in self._running and not pod["spec"].get("nodeSelector"):  # the node has no labels
                self._begin(uid, pod)
        except AnswerError as error:
            if error.answer.status not in _GONE:
                raise

    def _begin(self, uid: str, pod: Object) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        target = {"apiVersion": "v1", "kind": "Node", "name": _NODE}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": metadata["name"]}, "target": target}
        self._admin.call("POST", self._path(pod, "binding"), binding)
        image = self._images.get(spec["containers"][0]["image"].partition(":")[0])
        self._running[uid] = None
        self._report(pod, "Running", {"running": {"startedAt": _now()}})
        if image is None:
            return
        token = self._admin.service_account_token(self._namespace, spec["serviceAccountName"], pod=pod)
        container = Container(pod, token, self._server, self._directory / metadata["name"])
        self.containers.append(container)
        self._running[uid] = container
        self._threads.append(threading.Thread(target=self._run, args=(container, image)))
        self._threads[-1].start()

    def _run(self, container: Container, image: Image) -> None:
        try:
            ended = image(container)
            self.ended.append(ended)
            if self._over.is_set():
                return
            state = {
                "exitCode": ended.code,
                "reason": "Error" if ended.code else "Completed",
                "message": ended.message,
                "finishedAt": _now(),
            }
            phase = "Failed" if ended.code else "Succeeded"
            self._report(container.pod, phase, {"terminated": state}, _conditions(ended))
        except AnswerError as error:
            if error.answer.status not in _GONE:
                self._errors.append(error)
        except Exception as error:  # noqa: BLE001 - it is raised where the context ends
            self._errors.append(error)

    def _end(self, uid: str, pod: Object) -> None:
        """Ask what runs to end; what does not run, or has ended, is removed.

        A pod that was never bound is failed first, as the garbage collector of pods does with it
        (kubernetes pkg/controller/podgc/gc_controller.go:gcUnscheduledTerminating).
        """
        container = self._running.get(uid)
        if uid not in self._running and pod["status"]["phase"] == "Pending":
            self._report(pod, "Failed", {"waiting": {}})
        if container is not None and pod["status"]["phase"] == "Running":
            container.stop()
        else:
            self._admin.delete(pod)

    def _report(self, pod: Object, phase: str, state: Object, conditions: tuple[Object, ...] = ()) -> None:
        ready = "True" if phase == "Running" else "False"
        [container] = pod["spec"]["containers"]
        status: dict[str, Any] = {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": ready}, *conditions],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",
                    "ready": phase == "Running",
                    "restartCount": 0,
                    "state": state,
                }
            ],
        }
        self._admin.call("PATCH", self._path(pod, "status"), {"status": status}, content_type=MERGE_PATCH)

    def _path(self, pod: Object, subresource: str) -> str:
        return self._admin.kind("v1", "Pod").path(self._namespace, pod["metadata"]["name"], subresource)


def _conditions(ended: Ended) -> tuple[Object, ...]:
    disruption = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    return (disruption,) if ended.disrupted else ()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
