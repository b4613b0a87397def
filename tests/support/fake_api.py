"""An API server that gives the answers that a test prepared, over real sockets on the loopback."""

from __future__ import annotations

import json
import math
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, urlsplit

from kubernetes.client import Configuration

from migrator import exact_json
from migrator.cluster import Deadline
from migrator.kinds import Op
from migrator.kube.store import KubeCluster
from migrator.kube.transport import Timing, Transport
from tests.support.clock import Clock


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it arrived; ``target`` is what stood in its first line, ``path`` and ``query`` are parts of it."""

    method: str
    target: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    client: tuple[str, int]  # the connection that it came over
    certificate: str = ""  # the common name of the client certificate that the connection showed


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer; ``cut`` bytes are missing at its end."""

    code: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0


@dataclass(frozen=True, slots=True)
class Drip:
    """An answer that begins so, and goes on with a byte every ``seconds``, for 12 s."""

    begin: bytes
    seconds: float = 0.1

    def send(self, file: BinaryIO, released: threading.Event) -> None:
        """Write it, until it is released."""
        file.write(self.begin)
        for _ in range(int(12 / self.seconds)):
            if released.wait(self.seconds):
                return
            file.write(b" ")


Reset = object()  #: the connection is reset once the request was read
Hang = object()  #: nothing ever comes back
Step = Any  #: an Answer, Drip, Reset, Hang, or a function of the request that returns one


def ok(**body: Any) -> Answer:
    """200 with an object."""
    return Answer(200, body)


def status(code: int, message: str = "", *, reason: str = "", **headers: str) -> Answer:
    """A failure as the API server words it; headers with ``_`` for ``-``."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
    body |= {"reason": reason} if reason else {}
    return Answer(code, body, {name.replace("_", "-"): value for name, value in headers.items()})


#: A patch of a pod, and answers to it.
OPS = (Op("test", "/metadata/uid", "u"), Op("replace", "/metadata/labels/a", "b"))
POD = ok(kind="Pod", metadata={"name": "p"})
THROTTLED = status(429, "slow down", Retry_After="1")
RESTARTING = status(503, "apiserver is shutting down")

#: What a patch gets of which a test does not hold.
FAILED_TEST = status(422, "the server rejected our request due to an error in our request", reason="Invalid")


#: A key and its certificate for 127.0.0.1 until 2126, for the server and for clients. It has no authority key
#: identifier, which kubectl does not ask for.
CERTIFICATE = Path(__file__).with_name("tls.pem")

#: What signed it.
AUTHORITY = Path(__file__).with_name("tls_authority.pem")

#: Another key with a certificate that signs itself, which the server accepts too.
RENEWED = Path(__file__).with_name("tls_renewed.pem")


class FakeApi:
    """Answers the steps one after the other, the last one for ever; with ``tls``, over TLS."""

    def __init__(self, *steps: Step, port: int = 0, tls: bool = False) -> None:
        self.seen: list[Seen] = []
        self._steps = list(steps)
        self._released = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self._scheme = "https" if tls else "http"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            for trusted in (AUTHORITY, RENEWED):
                context.load_verify_locations(trusted)
            context.load_cert_chain(CERTIFICATE)
            context.verify_mode = ssl.CERT_OPTIONAL
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.005,), daemon=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    def _next(self, seen: Seen) -> Step:
        """Note the request and choose its answer."""
        with self._lock:
            self.seen.append(seen)
            step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        return step(seen) if callable(step) else step

    @contextmanager
    def running(self) -> Iterator[FakeApi]:
        self._thread.start()
        try:
            yield self
        finally:
            self._released.set()
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # which lets a body wait 40 ms behind its headers

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

            def handle(self) -> None:
                with suppress(ssl.SSLError, ConnectionError):  # a client that trusts no certificate, or gave up
                    super().handle()

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                text = self.rfile.read(length)
                parts = urlsplit(self.path)
                query, body = dict(parse_qsl(parts.query)), exact_json.loads(text) if text else None
                headers, client = dict(self.headers.items()), self.client_address
                shown = _shown_on(self.connection)
                step = api._next(Seen(self.command, self.path, parts.path, query, headers, body, client, shown))
                if step is Hang:
                    api._released.wait()
                    self.close_connection = True
                elif isinstance(step, Drip):
                    self.close_connection = True
                    step.send(self.wfile, api._released)
                elif step is Reset:
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True
                    self.wfile.flush()
                    self.connection.close()
                else:
                    self.send(step)

            def send(self, answer: Answer) -> None:
                body = answer.body
                data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
                self.send_response(answer.code)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[: len(data) - answer.cut])
                self.close_connection = self.close_connection or bool(answer.cut)

            do_CONNECT = do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 - the library's names

        return Handler


def _shown_on(connection: socket.socket) -> str:
    certificate: Any = connection.getpeercert() if isinstance(connection, ssl.SSLSocket) else None
    return str(certificate["subject"][0][0][1]) if certificate else ""


def closed_port() -> str:
    """An address at which nothing listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


#: Starts a server that answers given steps.
Serve = Callable[..., FakeApi]


def store_on(
    url: str,
    *,
    time: Clock | None = None,
    longest: float = math.inf,
    dry_run: bool = False,
    deadline: Deadline | None = None,
    renewed: Callable[[], object] = lambda: None,
    proxy: str | None = None,
) -> KubeCluster:
    """A store on that server whose waits take no time."""
    time = time or Clock()

    def read(configuration: Configuration) -> None:
        renewed()
        configuration.host, configuration.proxy = url, proxy  # not the environment's: the server is on the loopback
        configuration.ssl_ca_cert = str(AUTHORITY)  # the system's many certificates take 70 ms to read

    timing = Timing(clock=time, sleep=time.sleep, chance=lambda: 0.5, longest=longest)
    store = KubeCluster(Transport(read, deadline, timing))
    return store.in_dry_run() if dry_run else store
