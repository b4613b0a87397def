"""HTTP/1.1 on the official client's own connections, without waiting, to send many patches at a time.

The official client's connection pool makes each connection, so that proxies, TLS, certificates and names are its
business. Responses are read by httptools, the parser of Node.js.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from http.client import HTTPException
from typing import Any, Final

import httptools
from urllib3.exceptions import HTTPError, ProtocolError, SSLError
from urllib3.util import parse_url

#: One ``recv``: more than the answer to any patch of a pod.
_CHUNK: Final = 1 << 16
_LONGEST_HEAD: Final = 1 << 16

#: The first status code of a response that is not an interim one.
_FINAL: Final = 200

_TARGET: Final = re.compile(r"[!-~]+")
_NAME: Final = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_VALUE: Final = re.compile(r"(?:[!-~](?:[ -~\t]*[!-~])?)?")

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


class Reader:
    """Reads one response, from its bytes as they come."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._data: list[bytes] = []
        self._in_head = True
        self._head_size = 0
        self._received: Received | None = None

    def feed(self, data: bytes) -> Received | None:
        """The response once it is whole, from its bytes as they come, ``b""`` at their end; ``None`` until then.

        Raises urllib3's ``ProtocolError`` for what is not a response, or not a whole one.
        """
        if not data:
            return self._at_the_end()
        if self._in_head:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self._received is None:
                raise ProtocolError(f"not a response: {error}") from error
            self._received = replace(self._received, reusable=False)
        if self._in_head and self._head_size > _LONGEST_HEAD:
            raise ProtocolError("not a response: its headers do not end")
        return self._received

    def _at_the_end(self) -> Received:
        if self._in_head or self._headers.keys() & {"content-length", "transfer-encoding"}:
            raise ProtocolError("not a response: the connection ended before it was whole")
        return Received(self._parser.get_status_code(), self._headers, b"".join(self._data), reusable=False)

    # httptools calls what follows.

    def on_message_begin(self) -> None:
        """A response begins; one after the whole one belongs to no request."""
        if self._received is not None:
            self._received = replace(self._received, reusable=False)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which is dropped."""
        if self._in_head:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        """All headers have come, of this response or of an interim one (RFC 9110, section 15.2) before it."""
        if self._parser.get_status_code() < _FINAL:
            self._headers = {}
            return
        self._in_head = False
        if self._headers.get("transfer-encoding", "chunked").lower() != "chunked":
            raise ProtocolError("not a response: its transfer coding is not chunked")

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        self._data.append(data)

    def on_message_complete(self) -> None:
        """The response is whole."""
        if not self._in_head and self._received is None:
            reusable = self._parser.should_keep_alive()
            self._received = Received(self._parser.get_status_code(), self._headers, b"".join(self._data), reusable)


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
        self._reader = Reader()

    def fileno(self) -> int:
        """For a selector."""
        return int(self._sock.fileno())

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes, *, timeout: float) -> None:
        """Send a request; a body that does not fit into the socket is waited for, at most ``timeout`` seconds.

        Raises urllib3's ``ProtocolError``; the server may have the request all the same.
        """
        self._reader = Reader()
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
        """The response; ``None`` while it is not complete. Raises urllib3's ``ProtocolError``."""
        try:
            while (received := self._reader.feed(self._sock.recv(_CHUNK))) is None:
                pass
        except _NOT_NOW:
            return None
        except OSError as error:
            raise ProtocolError("Connection aborted.", error) from error
        return received

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
        """Close it."""
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
