"""A response in its framing, and a connection of the official client without its pool."""

from __future__ import annotations

import http.client
import io
import random
import select
import socket
import threading
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from kubernetes.client import ApiClient, Configuration
from urllib3.exceptions import HTTPError, ProtocolError

from migrator.gc_paused import gc_paused
from migrator.stores.kube.wire import Connection, Connector, Reader, Received, lines_of, request
from tests.support.fake_api import FakeApi, Serve, closed_port, status

WHOLE = {
    "a length": b"HTTP/1.1 200 OK\r\nContent-Type: a\r\nContent-Length: 5\r\n\r\nhello",
    "no body": b"HTTP/1.1 204 No Content\r\n\r\n",
    "an empty body": b"HTTP/1.1 409 Conflict\r\ncontent-length:0\r\n\r\n",
    "no reason": b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx",
    "chunks": b"HTTP/1.1 422 No\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n7;a=b\r\n, cruel\r\n0\r\n\r\n",
    "chunks with trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\r\nC: d\r\n\r\n",
    "an interim response": b"HTTP/1.1 100 Continue\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    "a header twice": b"HTTP/1.1 429 Slow\r\nRetry-After: 3\r\nWarning: a\r\nwarning: b\r\nContent-Length: 0\r\n\r\n",
}
BROKEN = {
    "another protocol": b"SSH-2.0-OpenSSH\r\n\r\n",
    "HTTP/2": b"HTTP/2 200\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "a length that is not a number": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "another coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "a header without a colon": b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
    "a chunk without a size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "a chunk with another end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyz0\r\n\r\n",
    "another protocol from here on": b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    "headers that do not end": b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000,
}


def read(data: bytes, *, pieces: int, seed: int) -> Received | None:
    """A response that comes in so many pieces."""
    reader, cuts = Reader(), sorted(random.Random(seed).choices(range(len(data) + 1), k=pieces - 1))  # noqa: S311
    received = None
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        if begin < end:
            assert received is None, "whole before its end"
            received = reader.feed(data[begin:end])
    return received


@pytest.mark.parametrize("what", WHOLE)
def test_a_response_is_what_the_standard_library_reads(what: str) -> None:
    """In whatever pieces it comes: status, body and headers are those that http.client finds in it."""
    socket_of = SimpleNamespace(makefile=lambda _mode: io.BytesIO(WHOLE[what]))
    response = http.client.HTTPResponse(socket_of, method="PATCH")  # type: ignore[arg-type]
    response.begin()
    expected = response.status, response.read()
    headers = {name.lower(): ", ".join(response.headers.get_all(name) or ()) for name in response.headers}
    for seed in range(30):
        received = read(WHOLE[what], pieces=1 + seed, seed=seed)
        assert received is not None
        assert (received.status, received.data) == expected
        assert received.headers == headers
        assert received.reusable
    every = Reader()
    assert [every.feed(bytes([byte])) for byte in WHOLE[what][:-1]] == [None] * (len(WHOLE[what]) - 1)


@pytest.mark.parametrize("what", WHOLE)
def test_a_response_that_is_cut_is_an_error(what: str) -> None:
    """Wherever it is cut: a part of a response is never taken for the whole."""
    for end in range(1, len(WHOLE[what])):
        reader = Reader()
        assert reader.feed(WHOLE[what][:end]) is None
        with pytest.raises(ProtocolError):
            reader.feed(b"")


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_not_a_response_is_an_error(what: str) -> None:
    """It is refused, not guessed at."""
    with pytest.raises(ProtocolError):
        Reader().feed(BROKEN[what])


def test_a_response_may_end_with_its_connection() -> None:
    """Without a length it is whole when the connection ends, which then carries no other request."""
    reader = Reader()
    assert reader.feed(b"HTTP/1.1 502 Bad Gateway\r\n\r\n<html>") is None
    received = reader.feed(b"")
    assert (received.status, received.data, received.reusable) == (502, b"<html>", False)


@pytest.mark.parametrize(
    ("head", "reusable"),
    [(b"HTTP/1.1 200 OK\r\nConnection: close", False), (b"HTTP/1.0 200 OK", False), (b"HTTP/1.1 200 OK", True)],
)
def test_a_connection_is_used_again_only_if_the_server_keeps_it(head: bytes, *, reusable: bool) -> None:
    """RFC 9112, section 9.3."""
    received = Reader().feed(head + b"\r\nContent-Length: 1\r\n\r\nx")
    assert received is not None
    assert received.reusable is reusable


def test_a_connection_with_bytes_to_spare_is_not_used_again() -> None:
    """Nobody asked for them, so that they belong to no request, and they change nothing of the response."""
    for more in (b"HTTP/1.1 200", b"HTTP/1.1 100 Continue\r\n\r\n"):
        received = Reader().feed(b"HTTP/1.1 429 Slow\r\nRetry-After: 3\r\nContent-Length: 1\r\n\r\nx" + more)
        assert received is not None
        assert not received.reusable
        assert received.headers["retry-after"] == "3"


# --- connections ----------------------------------------------------------------------------------------------------


def connector(url: str, **settings: Any) -> Connector:
    """What the transport connects with."""
    configuration = Configuration()
    configuration.host, configuration.proxy, configuration.no_proxy = url, None, None
    for name, value in settings.items():
        setattr(configuration, name, value)
    return Connector(ApiClient(configuration).rest_client.pool_manager, url)


def ask(connection: Connection, path: str, body: bytes = b"", **headers: str) -> Received:
    """Send a request and wait for its response."""
    connection.send("PATCH", path, headers, body, timeout=10.0)
    return connection.wait(10.0)


def test_requests_follow_each_other_on_a_connection(api: FakeApi) -> None:
    """Path, headers and body arrive as they were given, a body of megabytes too; the address may have a path."""
    connection = connector(f"{api.url}/clusters/a/").connect(5.0)
    for number, size in enumerate((1, 5_000_000)):
        received = ask(connection, f"/p?n={number}", b'"' + b"x" * size + b'"', Accept="b")
        assert (received.status, received.reusable) == (200, True)
        seen = api.seen[number]
        assert (seen.method, seen.path, seen.query) == ("PATCH", "/clusters/a/p", {"n": str(number)})
        assert (seen.headers["Accept"], seen.headers["Host"]) == ("b", api.url.removeprefix("http://"))
        assert len(seen.body) == size
        assert connection.is_idle()
    connection.close()


class Pair:
    """The connections of both sides: ours as the official client makes it, and the server's."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.sock = socket.create_connection(listening.getsockname())
            self.server, _ = listening.accept()
        self.connection = Connection(self, "", "server", {})

    def close(self) -> None:
        """The end of our side."""
        self.sock.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two ends."""
    ends = Pair()
    with ends.sock, ends.server:
        yield ends


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize("more", [b"", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"])
def test_a_connection_is_not_idle_any_more_as_soon_as_something_came(pair: Pair, more: bytes) -> None:
    """However new the last answer is: no write is lost to a connection that ended, or gets an answer of nobody's."""
    pair.server.sendall(ANSWER)
    assert ask(pair.connection, "/").reusable
    assert pair.connection.is_idle()
    pair.server.sendall(more)
    pair.server.shutdown(socket.SHUT_WR)
    select.select([pair.sock], [], [], 10.0)
    assert not pair.connection.is_idle()


def test_an_answer_to_a_part_of_a_request_is_read(pair: Pair) -> None:
    """A server that refuses a body by its length ends the connection; the write was refused, and no reply is lost."""

    def refuse() -> None:
        pair.server.recv(65536)
        pair.server.sendall(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
        pair.server.shutdown(socket.SHUT_WR)
        pair.server.close()

    server = threading.Thread(target=refuse)
    server.start()
    received = ask(pair.connection, "/", b"x" * 20_000_000)
    server.join()
    assert (received.status, received.reusable) == (413, False)


def test_a_part_of_a_request_without_an_answer_is_an_error(pair: Pair) -> None:
    """A server that goes away in the middle of a request is noticed."""
    server = threading.Thread(target=lambda: (pair.server.recv(65536), pair.server.close()))
    server.start()
    with pytest.raises(ProtocolError):
        ask(pair.connection, "/", b"x" * 20_000_000)
    server.join()


def test_a_connection_that_is_closed_leaves_nothing_to_the_collector_of_cycles(pair: Pair) -> None:
    """It is paused while patches are sent, and a server may end each connection after one of them."""
    pair.server.sendall(ANSWER)
    ask(pair.connection, "/")
    reader = weakref.ref(pair.connection._reader)
    with gc_paused():
        pair.connection.close()
        del pair.connection
        assert reader() is None


def test_a_timeout_may_be_of_any_length(pair: Pair) -> None:
    """Of months too, which a poll cannot wait for."""
    pair.server.sendall(ANSWER)
    pair.connection.send("GET", "/", {}, b"", timeout=10.0)
    assert pair.connection.wait(1e9).status == 200


def test_an_answer_that_does_not_come_is_not_waited_for_longer() -> None:
    """A server that keeps silent costs one timeout."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connection = connector(f"http://127.0.0.1:{silent.getsockname()[1]}").connect(5.0)
        with pytest.raises(HTTPError, match="timed out"):
            connection.wait(0.01)
        connection.close()


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        *(("/", headers) for headers in ({"Authorization": "a\r\nB: c"}, {"Authorization": "a\n"}, {"A:b": "c"})),
        *((target, {}) for target in ("/ HTTP/1.1\r\nB: c", "/\n")),
    ],
)
def test_nothing_breaks_out_of_its_line(target: str, headers: dict[str, str]) -> None:
    """A token with a line break in it is a bug, not a second header."""
    with pytest.raises(ValueError, match="not a request"):
        request("PATCH", target, lines_of(headers), b"")


def test_nobody_listening_is_an_error_before_sending() -> None:
    """As from the pool."""
    with pytest.raises(HTTPError):
        connector(closed_port()).connect(1.0)


@pytest.fixture
def proxy(serve: Serve) -> FakeApi:
    """A proxy that refuses, after it has seen who asks for what."""
    return serve(status(403))


PROXY_HEADERS = urllib3.make_headers(proxy_basic_auth="a:b")


def test_a_tls_server_is_reached_through_a_tunnel(proxy: FakeApi) -> None:
    """With the proxy's own credentials, and nothing of the request is shown to the proxy."""
    with pytest.raises(HTTPError):
        connector("https://server.invalid:6443", proxy=proxy.url, proxy_headers=PROXY_HEADERS).connect(5.0)
    (seen,) = proxy.seen
    assert (seen.method, seen.target) == ("CONNECT", "server.invalid:6443")
    assert seen.headers["proxy-authorization"] == "Basic YTpi"


def test_a_plain_server_is_asked_for_by_its_address(proxy: FakeApi) -> None:
    """RFC 9112, section 3.2.2: the proxy sees the whole address, and is told who we are."""
    connection = connector("http://server.invalid:8080/x", proxy=proxy.url, proxy_headers=PROXY_HEADERS).connect(5.0)
    assert ask(connection, "/p").status == 403
    connection.close()
    (seen,) = proxy.seen
    assert (seen.method, seen.target) == ("PATCH", "http://server.invalid:8080/x/p")
    assert (seen.headers["Host"], seen.headers["proxy-authorization"]) == ("server.invalid:8080", "Basic YTpi")
