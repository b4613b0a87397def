"""A reverse proxy between one migrator and the real API server: it numbers requests, and does harm by a schedule.

A *fault*, a function of the :class:`Exchange`, decides what becomes of a request; :mod:`tests.faults.harm` has
faults and schedules. Without a fault the request is passed on and answered.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from testbed.controlplane.options import kubeconfig, tls
from testbed.controlplane.server import ControlPlane

_CHANGING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_QUESTIONS: Final = ("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")
_HOP_BY_HOP: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host"})
_NAMESPACED: Final = 3  # namespaces/NAME/PLURAL
_ABORT: Final = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST
_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A request. ``number`` counts all from 1; ``write`` those that can change something, and is 0 for others.

    ``at`` is when it came, in seconds of the monotonic clock.
    """

    number: int
    write: int
    method: str
    path: str
    query: str
    at: float

    @property
    def target(self) -> str:
        """``pods/web-0``, ``deployments/grove-operator/scale``: what follows version and namespace."""
        parts = self.path.split("/")[2:]
        parts = parts[2:] if self.path.startswith("/apis/") else parts[1:]
        if parts[:1] == ["namespaces"] and len(parts) >= _NAMESPACED:
            parts = parts[2:]
        return "/".join(parts)

    @property
    def plural(self) -> str:
        """``pods``."""
        return self.target.partition("/")[0]

    def __str__(self) -> str:
        return f"request {self.number} (write {self.write}): {self.method} {self.target}"


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back to the migrator."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Exchange(BaseHTTPRequestHandler):
    """A connection of the migrator, and the request that came last; without an answer the connection is closed."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server
    seen: Seen
    _body = b""
    _upstream: http.client.HTTPSConnection | None = None
    _answered = False

    @property
    def proxy(self) -> Proxy:
        """The proxy that it came to."""
        return self.server.proxy

    def forward(self) -> Reply:
        """Let the API server have the request, and return its reply; ``OSError`` or ``HTTPException`` if none comes."""
        if self._upstream is None:
            host, port = self.proxy.upstream
            self._upstream = http.client.HTTPSConnection(host, port, context=self.proxy.tls, timeout=_SECONDS)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
        url = f"{self.seen.path}?{self.seen.query}" if self.seen.query else self.seen.path
        try:
            self._upstream.request(self.seen.method, url, body=self._body or None, headers=headers)
            response = self._upstream.getresponse()
            kept = tuple((n, v) for n, v in response.getheaders() if n.lower() not in _HOP_BY_HOP)
            return Reply(response.status, kept, response.read())
        except (OSError, http.client.HTTPException):
            self._upstream.close()
            self._upstream = None
            raise

    def answer(self, reply: Reply, length: int | None = None) -> None:
        """Let the migrator have a reply, or so many bytes of it."""
        self._answered = True
        lines = [f"HTTP/1.1 {reply.status} {http.client.responses.get(reply.status, '')}"]
        lines += [f"{name}: {value}" for name, value in reply.headers]
        lines.append(f"Content-Length: {len(reply.body)}")
        self.wfile.write("\r\n".join([*lines, "", ""]).encode("latin-1") + reply.body[:length])

    def reset(self) -> None:
        """Break the connection off."""
        self._answered = self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
            os.close(self.connection.detach())

    def pass_on(self) -> None:
        """What happens to every request without a fault."""
        self.answer(self.forward())

    def kill(self) -> None:
        """Kill the migrator; nothing that it sends, or has sent without our forwarding it, reaches the API server."""
        self.proxy.kill()

    def _serve(self) -> None:
        self._body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answered = False
        with self.proxy.entered(self.command, self.path) as seen:
            if seen is not None:
                self.seen = seen
                fault = self.proxy.schedule(seen)
                if fault is not None:
                    self.proxy.faulted.append(seen)
                with contextlib.suppress(OSError, http.client.HTTPException):
                    (fault or Exchange.pass_on)(self)
        if not self._answered:
            self.reset()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the names that http.server looks for

    def finish(self) -> None:
        """The connection is over, and the one to the API server with it."""
        if self._upstream is not None:
            self._upstream.close()
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called
        """Print nothing."""


Fault = Callable[[Exchange], None]
Schedule = Callable[[Seen], Fault | None]


class Proxy:
    """A proxy for one migrator: ``process``, which is set once it is started."""

    def __init__(self, control_plane: ControlPlane, directory: Path, schedule: Schedule | None = None) -> None:
        address = urlsplit(control_plane.url)
        self.upstream = (str(address.hostname), int(address.port or 443))
        self.tls = tls(control_plane.ca)
        self.process: subprocess.Popen[bytes] | None = None
        self.schedule: Schedule = schedule or (lambda _seen: None)
        self.log: list[Seen] = []
        self.faulted: list[Seen] = []
        self._count = threading.Condition()
        self._writes = 0
        self._under_way = 0
        self._dead = False
        self._server = _Server(("127.0.0.1", 0), Exchange)
        self._server.proxy = self
        self.kubeconfig = directory / f"kubeconfig-{self._server.server_port}"
        here = {"server": f"http://127.0.0.1:{self._server.server_port}"}
        self.kubeconfig.write_text(kubeconfig(here, control_plane.token), encoding="utf-8")
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def kill(self) -> None:
        """Kill the migrator."""
        with self._count:
            self._dead = True
        if self.process is not None:
            self.process.kill()

    def terminate(self) -> None:
        """Ask the migrator to end: SIGTERM."""
        if self.process is not None:
            self.process.terminate()

    @property
    def writes(self) -> list[Seen]:
        """The requests that could change something, in the order of their arrival."""
        return [seen for seen in self.log if seen.write]

    def settle(self) -> None:
        """Wait until nothing is under way to the API server any more."""
        with self._count:
            if not self._count.wait_for(lambda: not self._under_way, _SECONDS):
                raise TimeoutError(f"{self._under_way} requests are still under way")

    @contextlib.contextmanager
    def entered(self, method: str, url: str) -> Iterator[Seen | None]:
        """Number a request that arrived; ``None`` for one that a dead process left in its sockets."""
        parts = urlsplit(url)
        with self._count:
            if self._dead:
                seen = None
            else:
                self._writes += (changes := _changes(method, parts.path, parts.query))
                write = self._writes if changes else 0
                seen = Seen(len(self.log) + 1, write, method, parts.path, parts.query, time.monotonic())
                self.log.append(seen)
                self._under_way += 1
        try:
            yield seen
        finally:
            if seen is not None:
                with self._count:
                    self._under_way -= 1
                    self._count.notify_all()


class _Server(ThreadingHTTPServer):
    proxy: Proxy
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """A migrator that was killed, or that closes a connection, is not an error of the proxy."""


def _changes(method: str, path: str, query: str) -> bool:
    dry = "dryRun" in parse_qs(query)
    return method in _CHANGING and not dry and not path.startswith(_QUESTIONS)
