"""HTTP/1.1 on the official client's own connections, without waiting: what many patches at a time are sent with.

The official client's connection pool makes each connection, so that proxies, TLS, certificates and names are its
business. Responses are read by h11, but for the whole ones in their plain form, which is what API servers send.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPException
from typing import Any, Final

import h11
from urllib3.exceptions import HTTPError, ProtocolError, SSLError
from urllib3.util import parse_url

#: One ``recv``: more than the answer to any patch of a pod.
_CHUNK: Final = 1 << 16
_LONGEST_HEAD: Final = 1 << 16

_TARGET: Final = re.compile(r"[!-~]+")
_NAME: Final = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_VALUE: Final = re.compile(r"(?:[!-~](?:[ -~\t]*[!-~])?)?")

#: A response with nothing uncommon in its first line and headers; one without a body is uncommon.
_HEAD: Final = re.compile(
    rb"HTTP/1\.1 (200|201|[45]\d\d) [ -~]*\r\n((?:[A-Za-z0-9-]+: [!-~](?:[ -~]*[!-~])?\r\n)+)\r\n"
)
_HEADER: Final = re.compile(r"([A-Za-z0-9-]+): ([ -~]+)\r\n")
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")

_NOT_NOW: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)


@dataclass(frozen=True, slots=True)
class Received:
    """A whole response; names of headers are in lower case. ``reusable``: another request may use its connection."""

    status: int
    headers: Mapping[str, str]
    data: bytes
    reusable: bool


def request(method: str, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """The bytes of a request. Raises ``ValueError`` for what would break out of its line."""
    if not _TARGET.fullmatch(target):
        raise ValueError(f"not a request: {target!r} is not a target")
    head = f"{method} {target} HTTP/1.1\r\n{_lines(tuple(headers.items()))}Content-Length: {len(body)}\r\n\r\n"
    return head.encode("ascii") + body


@lru_cache(maxsize=8)
def _lines(headers: tuple[tuple[str, str], ...]) -> str:
    """Thousands of patches share their headers."""
    for name, value in headers:
        if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)):
            raise ValueError(f"not a request: the header {name!r} cannot be sent")
    return "".join(f"{name}: {value}\r\n" for name, value in headers)


def plain(data: bytes) -> Received | None:
    """The response, where these bytes are the whole of one as API servers send them; ``None``: ask :class:`Reader`.

    h11 reads any response, and takes as long for one as all the rest of a patch.
    """
    head = _HEAD.match(data)
    if head is None:
        return None
    headers = {name.lower(): value for name, value in _HEADER.findall(head[2].decode("ascii"))}
    if "connection" in headers or len(headers) != head[2].count(b"\n"):
        return None
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    body: bytes | None = None
    if coding is None:
        body = data[head.end() :]
        if length != str(len(body)):
            return None
    elif coding == "chunked" and length is None:
        body = _chunks(data, head.end())
    return None if body is None else Received(int(head[1]), headers, body, reusable=True)


def _chunks(data: bytes, at: int) -> bytes | None:
    """What the chunks from here to the very end of the data hold, if they are plain ones."""
    found: list[bytes] = []
    while (size := _SIZE.match(data, at)) is not None:
        begin, length = size.end(), int(size[1], 16)
        at = begin + length + 2
        if data[at - 2 : at] != b"\r\n":
            return None
        if not length:
            return b"".join(found) if at == len(data) else None
        found.append(data[begin : at - 2])
    return None


class Reader:
    """Reads one response, from its bytes as they come."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEAD)
        self._http.send(h11.Request(method="PATCH", target="/", headers=[("Host", "")]))
        self._http.send(h11.EndOfMessage())
        self._head: h11.Response | None = None
        self._data: list[bytes] = []

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
        headers: dict[str, str] = {}
        for name, value in ((name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers):
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
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
        self._reader: Reader | None = None  # of a response that is not plain

    def fileno(self) -> int:
        """For a selector."""
        return int(self._sock.fileno())

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes, *, timeout: float) -> None:
        """Send a request; a body that does not fit into the socket is waited for, at most ``timeout`` seconds.

        Raises urllib3's ``ProtocolError``; the server may have the request all the same.
        """
        self._reader = None
        data = request(method, self._prefix + path, {**self._fixed, **headers}, body)
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
        """What has come of the response; ``None`` while it is not whole. Raises urllib3's ``ProtocolError``."""
        data = b""
        try:
            while True:
                try:
                    more = self._sock.recv(_CHUNK)
                except _NOT_NOW:
                    return self._read(data) if data else None
                data += more
                if self._reader is None and more and len(data) < _CHUNK:
                    received = plain(data)
                else:
                    received = self._read(data) if data else None
                    if received is None and not more:
                        received = self._read(b"")
                    data = b""
                if received is not None:
                    return received
        except OSError as error:
            raise ProtocolError("Connection aborted.", error) from error

    def _read(self, data: bytes) -> Received | None:
        self._reader = self._reader or Reader()
        return self._reader.feed(data)

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
