"""HTTP/1.1 on the official client's own connections, without waiting, to send many patches at a time.

The official client's connection pool makes each connection, so that proxies, TLS, certificates and names are its
business. The bytes of requests and responses are h11's.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final

import h11
from urllib3 import HTTPHeaderDict
from urllib3.exceptions import HTTPError, ProtocolError, SSLError
from urllib3.util import parse_url

#: One ``recv``: more than the answer to any patch of a pod.
_CHUNK: Final = 1 << 16
_LONGEST_HEAD: Final = 1 << 16

_NOT_NOW: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)


@dataclass(frozen=True, slots=True)
class Received:
    """A whole response. ``reusable``: another request may follow on its connection."""

    status: int
    headers: Mapping[str, str]
    data: bytes
    reusable: bool


class Exchange:
    """One request and its response, as bytes. Each has its own state, so that nothing of another one reaches it."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEAD)
        self._head: h11.Response | None = None
        self._data: list[bytes] = []

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
        """The bytes to send. Raises ``ValueError`` for a header that would break out of its line."""
        try:
            head = self._http.send(h11.Request(method=method, target=target, headers=list(headers.items())))
        except h11.LocalProtocolError as error:
            raise ValueError(f"not a request: {error}") from error
        self._http.send(h11.Data(body))
        self._http.send(h11.EndOfMessage())
        return (head or b"") + body

    def feed(self, data: bytes) -> Received | None:
        """The response once it is whole, from its bytes as they come, ``b""`` at their end; ``None`` until then.

        Raises urllib3's ``ProtocolError`` for what is not a response, or not a whole one.
        """
        try:
            self._http.receive_data(data)
            while (event := self._http.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.Response):
                    self._head = event
                elif isinstance(event, h11.Data):
                    self._data.append(event.data)
                elif not isinstance(event, h11.InformationalResponse):
                    return self._whole(self._head, ended=not data)
        except h11.RemoteProtocolError as error:
            raise ProtocolError(f"not a response: {error}") from error
        return None

    def _whole(self, head: h11.Response | None, *, ended: bool) -> Received:
        if head is None:
            raise ProtocolError("no response")
        headers = HTTPHeaderDict((name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers)
        done = self._http.our_state is self._http.their_state is h11.DONE
        reusable = done and not ended and not self._http.trailing_data[0]
        return Received(head.status_code, headers, b"".join(self._data), reusable)


class Connection:
    """A connection of the official client, taken out of its pool: one request at a time, and no waiting.

    ``prefix`` goes before each path: that of the server's address, or the whole address for a plain HTTP proxy.
    ``headers`` are those that such a proxy asks for.
    """

    def __init__(self, made: Any, prefix: str, host: str, headers: Mapping[str, str]) -> None:  # noqa: ANN401
        self._made = made
        self._sock = made.sock
        self._sock.settimeout(0)
        self._prefix = prefix
        self._fixed = {"Host": host, "Accept-Encoding": "identity", **headers}
        self._exchange = Exchange()

    def fileno(self) -> int:
        """For a selector."""
        return int(self._sock.fileno())

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes, *, timeout: float) -> None:
        """Send a request; a body that does not fit into the socket is waited for, at most ``timeout`` seconds.

        Raises urllib3's ``ProtocolError``; the server may have the request all the same.
        """
        self._exchange = Exchange()
        every = {**self._fixed, **headers, "Content-Length": str(len(body))}
        data = self._exchange.request(method, self._prefix + path, every, body)
        try:
            try:
                sent = self._sock.send(data)
            except _NOT_NOW:
                sent = 0
            if sent < len(data):
                self._sock.settimeout(timeout)
                self._sock.sendall(memoryview(data)[sent:])
                self._sock.settimeout(0)
        except OSError as error:
            raise ProtocolError("Connection aborted.", error) from error

    def receive(self) -> Received | None:
        """The response; ``None`` while it is not complete. Raises urllib3's ``ProtocolError``."""
        try:
            while True:
                try:
                    data = self._sock.recv(_CHUNK)
                except _NOT_NOW:
                    return None
                received = self._exchange.feed(data)
                if received is not None:
                    return received
        except OSError as error:
            raise ProtocolError("Connection aborted.", error) from error

    def is_idle(self) -> bool:
        """Whether a connection on which nothing is due is still open: the server may end it, or send TLS tickets."""
        try:
            self._sock.recv(1)
        except _NOT_NOW:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """End it."""
        self._made.close()


class Connector:
    """Makes connections to the one server of the official client's pool.

    urllib3 has no public way to a connection without a request, so that three of its methods are used that are not
    part of its promise; ``tests/run/stores/test_kube_wire.py`` notices when they change.
    """

    def __init__(self, manager: Any, server: str) -> None:  # noqa: ANN401 - urllib3's own
        url = parse_url(server)
        self._pool = manager.connection_from_url(server)
        self._tunnel = url.scheme == "https"
        self._prefix = (url.path or "").rstrip("/")
        self._host = url.netloc or ""
        self._headers: Mapping[str, str] = {}
        if self._pool.proxy is not None and not self._tunnel:
            self._prefix = f"http://{self._host}{self._prefix}"
            self._headers = dict(manager.proxy_headers)

    def connect(self, timeout: float) -> Connection:
        """A new connection, within ``timeout`` seconds. Raises urllib3's ``HTTPError``: then nothing was sent."""
        made = self._pool._new_conn()  # noqa: SLF001 - see above
        made.timeout = timeout
        try:
            if self._pool.proxy is not None and self._tunnel:
                self._pool._prepare_proxy(made)  # noqa: SLF001 - see above
            else:
                made.connect()
        except (HTTPError, HTTPException, OSError) as error:
            made.close()
            if isinstance(error, HTTPError):
                raise
            if isinstance(error, ssl.SSLError):
                raise SSLError(error) from error
            raise ProtocolError("Connection aborted.", error) from error
        return Connection(made, self._prefix, self._host, self._headers)
