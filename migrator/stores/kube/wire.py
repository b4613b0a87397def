"""HTTP/1.1 on the official client's own connections, without waiting.

The official client's connection pool makes each connection, so it handles proxies, TLS, certificates and
names. Responses are read by httptools, the parser of Node.js.
"""

from __future__ import annotations

import re
import select
import ssl
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any, Final, NamedTuple
from weakref import finalize

import httptools
from urllib3.exceptions import HTTPError, ProtocolError, SSLError
from urllib3.exceptions import TimeoutError as TooLate
from urllib3.util import parse_url

#: One ``recv``: more than the answer to any patch of a pod.
_CHUNK: Final = 1 << 16
_LONGEST_HEAD: Final = 1 << 16

#: The longest time of a poll, in milliseconds: a C ``int``.
_LONGEST_POLL: Final = 2**31 - 1

#: The first status code of a response that is not an interim one.
_FINAL: Final = 200

_CODING: Final = b"transfer-encoding"
_CODING_LENGTH: Final = len(_CODING)

_TARGET: Final = re.compile(r"[!-~]+")
_NAME: Final = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_VALUE: Final = re.compile(r"(?:[!-~](?:[ -~\t]*[!-~])?)?")

_NOT_NOW: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)


class Received(NamedTuple):
    """A whole response, with its headers as they came. ``reusable``: another request may use its connection."""

    status: int
    head: Sequence[tuple[bytes, bytes]]
    data: bytes
    reusable: bool

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers by their names in lower case; made when asked for, because they matter only in a failure."""
        found: dict[str, str] = {}
        for name, value in self.head:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            found[key] = f"{found[key]}, {text}" if key in found else text
        return found


def request(method: str, target: str, lines: str, body: bytes) -> bytes:
    """The bytes of a request. Raises ``ValueError`` for a target that would break out of its line."""
    if not _TARGET.fullmatch(target):
        raise ValueError(f"not a request: {target!r} is not a target")
    return f"{method} {target} HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode("ascii") + body


def lines_of(headers: Mapping[str, str]) -> str:
    """The lines of headers. Raises ``ValueError`` for what would break out of its line."""
    for name, value in headers.items():
        if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)):
            raise ValueError(f"not a request: the header {name!r} cannot be sent")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


def way_to(server: str, manager: Any) -> str:  # noqa: ANN401 - urllib3's own
    """The server's address, and that of the proxy before it, without the proxy's password."""
    proxy = manager.proxy
    return f"{server} through the proxy {proxy.scheme}://{proxy.netloc}" if proxy else server


class Reader:
    """Reads the responses of a connection, one after the other, from its bytes as they come."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.begin()

    def begin(self) -> None:
        """Wait for the next response, and keep nothing of the last one: a page of a list may be large."""
        self._head: list[tuple[bytes, bytes]] = []
        self._data: list[bytes] = []
        self._in_head = True
        self._head_size = 0
        self._received: Received | None = None

    def end(self) -> None:
        """Nothing more is read. Reader and parser refer to each other, and the garbage collector may be paused."""
        del self._parser

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
            self.on_message_begin()
        if self._in_head and self._head_size > _LONGEST_HEAD:
            raise ProtocolError("not a response: its headers do not end")
        return self._received

    def _at_the_end(self) -> Received:
        if self._in_head or {name.lower() for name, _ in self._head} & {b"content-length", _CODING}:
            raise ProtocolError("not a response: the connection ended before it was whole")
        return Received(self._parser.get_status_code(), self._head, b"".join(self._data), reusable=False)

    # httptools calls what follows.

    def on_message_begin(self) -> None:
        """A response begins; one after the whole one belongs to no request."""
        if self._received is not None:
            self._received = self._received._replace(reusable=False)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which is dropped."""
        if self._in_head:
            self._head.append((name, value))

    def on_headers_complete(self) -> None:
        """All headers have come, of this response or of an interim one (RFC 9110, section 15.2) before it."""
        if self._parser.get_status_code() < _FINAL:
            self._head = []
            return
        self._in_head = False
        for name, value in self._head:
            if len(name) == _CODING_LENGTH and name.lower() == _CODING and value.lower() != b"chunked":
                raise ProtocolError("not a response: its transfer coding is not chunked")

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        self._data.append(data)

    def on_message_complete(self) -> None:
        """The response is whole."""
        if not self._in_head and self._received is None:
            reusable = self._parser.should_keep_alive()
            self._received = Received(self._parser.get_status_code(), self._head, b"".join(self._data), reusable)


class Connection:
    """A connection of the official client, taken out of its pool: one request at a time, and no waiting.

    ``prefix`` goes before each path: that of the server's address, or the whole address for a plain HTTP proxy.
    ``headers`` are those that such a proxy asks for. ``number`` is that of its socket, for a poll.
    """

    def __init__(self, made: Any, prefix: str, host: str, headers: Mapping[str, str]) -> None:  # noqa: ANN401
        self._reader = Reader()
        # Called at the latest when nothing refers to the connection.
        self.close = finalize(self, _end, made, self._reader)
        self._sock = made.sock
        self._sock.settimeout(0)
        self.number = int(self._sock.fileno())
        self._prefix = prefix
        self._fixed = {"Host": host, "Accept-Encoding": "identity", **headers}
        self._headers: Mapping[str, str] = {}
        self._lines = ""
        self._poll = select.poll()
        self._poll.register(self.number, select.POLLIN)

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes, *, timeout: float) -> None:
        """Send a request; a body that does not fit into the socket is waited for, at most ``timeout`` seconds.

        ``headers`` are printed once for all requests that share them. A server that ends the connection may have
        answered before it had the whole body: :meth:`receive` shows that. Raises urllib3's ``ProtocolError`` for any
        other failure; the server may have the request all the same.
        """
        if headers is not self._headers:
            self._headers, self._lines = headers, lines_of({**self._fixed, **headers})
        data = request(method, self._prefix + path, self._lines, body)
        try:
            try:
                sent = self._sock.send(data)
            except _NOT_NOW:
                sent = 0
            if sent < len(data):
                self._sock.settimeout(timeout)
                self._sock.sendall(memoryview(data)[sent:])
                self._sock.settimeout(0)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
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
        self._reader.begin()
        return received

    def wait(self, timeout: float) -> Received:
        """The response, waited for; raises urllib3's ``TimeoutError`` where nothing comes for ``timeout`` seconds."""
        while self._poll.poll(min(timeout * 1000, _LONGEST_POLL)):
            if (received := self.receive()) is not None:
                return received
        raise TooLate("timed out")

    def is_idle(self) -> bool:
        """Whether a connection on which nothing is due is still open: the server may end it, or send TLS tickets.

        A poll costs a sixth of a TLS read that finds nothing.
        """
        if not self._poll.poll(0):
            return True
        try:
            self._sock.recv(1)
        except _NOT_NOW:
            return True
        except OSError:
            return False
        return False


def _end(made: Any, reader: Reader) -> None:  # noqa: ANN401 - urllib3's own
    made.close()
    reader.end()


class Connector:
    """Makes connections to the one server of the official client's pool.

    urllib3 has no public way to a connection without a request, so three of its methods are used that are not
    public; ``tests/run/stores/test_kube_wire.py`` notices when they change.
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
