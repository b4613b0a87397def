"""Scheduler and kubelet of a cluster without nodes.

Pods without scheduling gates and node selectors are bound. A pod for which there is a program runs as that program,
with the ServiceAccount's real token, the API server's CA and the pod's volumes at the paths where a container finds
them, and the API server gets its log. All others are workload: they are reported as Running and Ready, and nothing
runs. A pod that is deleted ends as a kubelet ends it: SIGTERM, SIGKILL after the grace period, its last status, and
then it is gone. When the kubelet itself ends, it is as if the node were lost: its processes end, and nobody reports it.
"""

from __future__ import annotations

import itertools
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from testbed.controlplane.client import MERGE_PATCH, AnswerError, Client, Object
from testbed.controlplane.server import ControlPlane
from tests.support.pods.container import Container, Program, Span, State, image_of
from tests.support.watch import DELETED, Watch

NODE: Final = "node"
_NO_LONGER_SO: Final = (404, 409, 422)  # the pod is gone, or is another one by now: a later event says which
_GRACE_SECONDS: Final = 30.0

#: Which program a pod runs as; None for workload.
Programs = Callable[[Object], Program | None]


class Kubelet:
    """Runs the pods of one API server, or of one namespace of it; a context manager.

    ``containers`` are all that it has run, the oldest first.
    """

    def __init__(
        self, control_plane: ControlPlane, directory: Path, programs: Programs, *, namespace: str = ""
    ) -> None:
        self.containers: list[Container] = []
        self._control_plane = control_plane
        self._directory = directory
        self._programs = programs
        self._client = control_plane.client()
        self._running: dict[str, Container] = {}
        self._started: set[str] = set()
        self._numbers: Iterator[int] = itertools.count(1)
        self._addresses: dict[str, str] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._watch = Watch(control_plane, self._client.kind("v1", "Pod").path(namespace or None), self._handle)
        self._logs = _serving(control_plane, NODE, self.log)

    def __enter__(self) -> Self:
        self._logs.__enter__()
        self._watch.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._watch.stop()
        for container in self.containers:
            container.stop(0)
        for container in self.containers:
            container.join(10)
        self._logs.__exit__(None, None, None)
        self._client.close()

    def log(self, name: str) -> str:
        """What the pods whose name begins like this have printed, oldest first."""
        return "".join(found.log for found in self.containers if found.name.startswith(name))

    def spans(self, image: str) -> list[Span]:
        """When processes of an image have run, oldest first."""
        return [span for found in self.containers if image_of(found.pod) == image for span in found.spans]

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
                container.stop(metadata.get("deletionGracePeriodSeconds", _GRACE_SECONDS))
        elif waits or pod["status"].get("phase") in ("Succeeded", "Failed"):
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
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": metadata["name"]}, "target": target}
        self._client.call("POST", path, body)

    def _start(self, pod: Object) -> None:
        program = self._programs(pod)
        if program is None:
            self._write_status(pod, State(0))
            return
        metadata = pod["metadata"]
        directory = self._directory / f"{metadata['namespace']}-{metadata['name']}-{metadata['uid'][:8]}"
        container = Container(self._control_plane, self._client, pod, program, directory=directory, report=self._report)
        self._running[metadata["uid"]] = container
        self.containers.append(container)
        container.start()

    def _report(self, pod: Object, state: State) -> None:
        if self._over.is_set():
            return
        with suppress(AnswerError):  # a pod that was deleted by force has no status any more
            self._write_status(pod, state)
        if not state.final:
            return
        self._running.pop(pod["metadata"]["uid"], None)
        with suppress(AnswerError):
            metadata = pod["metadata"]
            now = self._client.get("v1", "Pod", metadata["name"], metadata["namespace"])
            if now["metadata"]["uid"] == metadata["uid"] and now["metadata"].get("deletionTimestamp"):
                self._client.delete(now)

    def _write_status(self, pod: Object, state: State) -> None:
        metadata = pod["metadata"]
        now = self._client.get("v1", "Pod", metadata["name"], metadata["namespace"])
        self._patch_status(pod, _status(now, state, address=self._address(metadata["uid"])))

    def _patch_status(self, pod: Object, status: Object) -> None:
        metadata = pod["metadata"]
        path = self._client.kind("v1", "Pod").path(metadata["namespace"], metadata["name"], "status")
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        self._client.call("PATCH", path, body, content_type=MERGE_PATCH)

    def _address(self, uid: str) -> str:
        """The pod's own address, which nothing listens on."""
        with self._lock:
            if uid not in self._addresses:
                number = next(self._numbers)
                self._addresses[uid] = f"10.244.{number // 250}.{number % 250 + 1}"
            return self._addresses[uid]


def _status(pod: Object, state: State, *, address: str) -> Object:
    """The status that a kubelet reports: what it does not know of, init containers have done."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = state.code is None
    terminated = {"exitCode": state.code, "startedAt": now, "finishedAt": now, "message": state.message}
    terminated["reason"] = "Completed" if state.code == 0 else "Error"
    ended = {"terminated": terminated}
    if ready:
        current: Object = {"running": {"startedAt": now}}
    elif state.final:
        current = ended
    else:
        current = {"waiting": {"reason": "CrashLoopBackOff"}}
    containers = [
        {
            **_names(container),
            "ready": ready,
            "started": ready,
            "restartCount": state.restarts,
            "state": current,
            **({} if ready or state.final else {"lastState": ended}),
        }
        for container in pod["spec"]["containers"]
    ]
    done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
    initial = [
        {**_names(container), "ready": True, "restartCount": 0, "state": done}
        for container in pod["spec"].get("initContainers") or ()
    ]
    phase = "Running" if not state.final else "Succeeded" if state.code == 0 else "Failed"
    conditions = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    others = [found for found in pod["status"].get("conditions") or () if found["type"] not in conditions]
    return {
        "phase": phase,
        "hostIP": "127.0.0.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": pod["status"].get("startTime") or now,
        "conditions": [
            *others,
            *(
                {"type": name, "status": "True" if holds else "False", "lastTransitionTime": now}
                for name, holds in conditions.items()
            ),
        ],
        "containerStatuses": containers,
        **({"initContainerStatuses": initial} if initial else {}),
    }


def _names(container: Object) -> Object:
    image = container["image"]
    return {"name": container["name"], "image": image, "imageID": image, "containerID": f"test://{container['name']}"}


@contextmanager
def _serving(server: ControlPlane, node: str, log_of: Callable[[str], str]) -> Iterator[None]:
    """A Node object whose kubelet serves logs, for `kubectl logs` and Helm; ``log_of`` has them by the pod's name."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer /containerLogs/<namespace>/<pod>/<container>."""
            parts = urlsplit(self.path).path.strip("/").split("/")
            found = parts[0] == "containerLogs" and len(parts) == 4
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(log_of(parts[2]).encode() if found else b"")

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.socket = _tls(server.directory / "pki").wrap_socket(listener.socket, server_side=True)
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    admin = server.client()
    try:
        _register(admin, node, listener.server_port)
        yield
    finally:
        admin.close()
        listener.shutdown()
        listener.server_close()
        thread.join()


def _tls(pki: Path) -> ssl.SSLContext:
    """The API server's own certificate will do: it does not ask kubelets for a particular one."""
    certificate = pki / "server.crt"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate if certificate.exists() else pki / "ca.crt", pki / "server.key")
    return context


def _register(admin: Client, name: str, port: int) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    admin.apply(node)
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    path = admin.kind_of(node).path(name=name, subresource="status")
    admin.call("PATCH", path, {"status": status}, content_type=MERGE_PATCH)
