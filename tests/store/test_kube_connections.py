"""Connections that deliver nothing late, and answers that do not come to an end."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable

import pytest
from kubernetes.client import Configuration

from migrator.errors import MigratorError
from migrator.kinds import LEASES, PODS
from migrator.kube import connections
from migrator.kube.store import KubeCluster
from tests.support.fake_api import OPS, Drip, Serve, store_on

BEGINNINGS = {
    "body": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n",
    "headers": b"HTTP/1.1 200 OK\r\nX: ",
}
REQUESTS: dict[str, Callable[[KubeCluster], object]] = {
    "get": lambda store: store.get(PODS, "a", "p"),
    "list": lambda store: store.list(PODS, dict),
    "patch": lambda store: store.within(lambda: 3.0).patch(PODS, "a", "p", OPS),
    "lease": lambda store: store.patch(LEASES, "a", "p", OPS),
}


@pytest.mark.parametrize("begin", BEGINNINGS.values(), ids=BEGINNINGS)
@pytest.mark.parametrize("request_of", REQUESTS.values(), ids=REQUESTS)
def test_one_answer_has_a_time_limit_as_a_whole(
    serve: Serve, request_of: Callable[[KubeCluster], object], begin: bytes
) -> None:
    """A byte now and then keeps each read alive, and for ever held a run."""
    store = store_on(serve(Drip(begin)).url, longest=0.5)
    began = time.monotonic()
    with pytest.raises(MigratorError):
        request_of(store)
    assert time.monotonic() - began < 8


def test_the_last_byte_does_not_start_the_time_anew(serve: Serve) -> None:
    """A server that hangs after a byte has what is left of the limit, not all of it once more."""
    store = store_on(serve(Drip(BEGINNINGS["body"], seconds=1.2)).url, longest=2.25)  # two thirds for the answer
    began = time.monotonic()
    with pytest.raises(MigratorError):
        store.patch(PODS, "a", "p", OPS)
    assert time.monotonic() - began < 2.3


def test_what_is_not_sent_when_a_connection_ends_is_thrown_away() -> None:
    """The kernel would send it as soon as the network is back, long after our hold on the Lease."""
    pool = connections.pool_of(Configuration())
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connection = pool.connection_from_url(f"http://127.0.0.1:{port}")._new_conn()
        connection.connect()
        sock = connection.sock
        assert struct.unpack("ii", sock.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)) == (1, 0)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000
        connection.close()
