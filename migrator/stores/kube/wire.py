"""HTTP/1.1 on the official client's own connections, without waiting: what many patches at a time are sent with.

The official client's connection pool makes each connection, so that proxies, TLS, certificates and names are its
business. Only the exchange is ours: one request as prepared bytes, and one response in its framing (RFC 9112). A
response that is not exactly that is an error, and its connection is closed.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final

from urllib3 import HTTPHeaderDict
from urllib3.exceptions import HTTPError, ProtocolError, SSLError
from urllib3.util import parse_url

#: One ``recv``: the most that a TLS record holds.
_CHUNK: Final = 1 << 14
_LONGEST_HEAD: Final = 1 << 16
_LONGEST_SIZE: Final = 64

_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-5]\d\d)(?:[ \r]|$)")
_HEADER: Final = re.compile(r"\r\n([^\s:]+):[ \t]*([^\r\n]*?)[ \t]*(?=\r\n|\Z)")
_LENGTH: Final = re.compile(r"\d{1,18}")
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;|$)")
_NO_BODY: Final = frozenset({204, 304})
_NOT_NOW: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)


@dataclass(frozen=True, slots=True)
class Received:
    """A whole response. ``reusable``: another request may follow on its connection."""

    status: int
    headers: Mapping[str, str]
    data: bytes
    reusable: bool


class Reader:
    """One response, from its bytes as they come. Raises urllib3's ``ProtocolError`` for what is not one."""

    def __init__(self) -> None:
        self._buffer = b""
        self._status = 0
        self._headers: dict[str, str] = {}
        self._keep = True
        self._length: int | None = None  # of the body; none if it is chunked, or ends with the connection
        self._chunked = False
        self._chunks: list[bytes] = []
        self._trailing = False

    def feed(self, data: bytes) -> Received | None:
        """The response once it is whole; ``None`` while more must come."""
        self._buffer += data
        while not self._status:
            if not self._read_head():
                return None
        if self._chunked:
            return self._read_chunks()
        if self._length is None or len(self._buffer) < self._length:
            return None
        return self._whole(self._buffer[: self._length], self._buffer[self._length :])

    def end(self) -> Received:
        """The response when the connection has ended: only one without a length may end so."""
        if self._status and not self._chunked and self._length is None:
            return Received(self._status, self._shown(), self._buffer, reusable=False)
        raise ProtocolError("the connection ended before the response did" if self._buffer else "no response")

    def _read_head(self) -> bool:
        """Read status and headers; false while they are not there. An interim response (1xx) is passed over."""
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            if len(head) > _LONGEST_HEAD:
                raise ProtocolError("the headers of the response do not end")
            return False
        matched = _STATUS.match(head)
        if matched is None:
            raise ProtocolError("the response is not HTTP/1.1")
        self._buffer = rest
        status = int(matched[2])
        if status < 200:  # noqa: PLR2004 - informational
            return True
        text = head.decode("latin-1")
        pairs = _HEADER.findall(text)
        if len(pairs) != text.count("\n"):
            raise ProtocolError("a header of the response cannot be read")
        headers: dict[str, str] = {}
        for name, value in pairs:
            name = name.lower()  # noqa: PLW2901 - the same name
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        self._status, self._headers = status, headers
        self._frame(old=matched[1] == b"0")
        return True

    def _frame(self, *, old: bool) -> None:
        """How long the body is (RFC 9112, section 6.3)."""
        connection = self._headers.get("connection", "").lower()
        self._keep = "keep-alive" in connection if old else "close" not in connection
        coding, length = self._headers.get("transfer-encoding"), self._headers.get("content-length")
        if self._status in _NO_BODY:
            self._length = 0
        elif coding is not None:
            if coding.lower() != "chunked" or length is not None:
                raise ProtocolError("the length of the response is not clear")
            self._chunked = True
        elif length is not None:
            if not _LENGTH.fullmatch(length):
                raise ProtocolError("the length of the response is not a number")
            self._length = int(length)

    def _read_chunks(self) -> Received | None:
        """Take in the chunks that are whole; the response after the last of them."""
        while not self._trailing:
            line, found, rest = self._line(_LONGEST_SIZE)
            if not found:
                return None
            matched = _SIZE.match(line)
            if matched is None:
                raise ProtocolError("the size of a chunk is not a number")
            size = int(matched[1], 16)
            if not size:
                self._trailing, self._buffer = True, rest
                break
            if len(rest) < size + 2:
                return None
            if rest[size : size + 2] != b"\r\n":
                raise ProtocolError("a chunk of the response does not end where it should")
            self._chunks.append(rest[:size])
            self._buffer = rest[size + 2 :]
        line, found, rest = self._line(_LONGEST_HEAD)
        while line and found:  # trailers, which nobody needs, up to an empty line
            self._buffer = rest
            line, found, rest = self._line(_LONGEST_HEAD)
        return self._whole(b"".join(self._chunks), rest) if found else None

    def _line(self, longest: int) -> tuple[bytes, bytes, bytes]:
        """The next line, its end if that is there, and what follows."""
        line, found, rest = self._buffer.partition(b"\r\n")
        if len(line) > longest:
            raise ProtocolError("a line of the response does not end")
        return line, found, rest

    def _whole(self, data: bytes, rest: bytes) -> Received:
        return Received(self._status, self._shown(), data, reusable=self._keep and not rest)

    def _shown(self) -> Mapping[str, str]:
        return HTTPHeaderDict(self._headers) if self._status >= 300 else self._headers  # noqa: PLR2004 - any name then


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
        every = {**self._fixed, **headers, "Content-Length": str(len(body))}
        lines = (f"{method} {self._prefix}{path} HTTP/1.1", *[f"{n}: {v}" for n, v in every.items()], "", "")
        text = "\r\n".join(lines)
        if not text.count("\n") == text.count("\r") == len(lines) - 1 or "\0" in text:
            raise ValueError("a header of a request has a line break")
        data = text.encode("latin-1") + body
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
        try:
            while True:
                try:
                    data = self._sock.recv(_CHUNK)
                except _NOT_NOW:
                    return None
                if not data:
                    return self._reader.end()
                received = self._reader.feed(data)
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
