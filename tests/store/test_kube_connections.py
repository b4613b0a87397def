"""Connections that deliver nothing late, and answers that do not come to an end."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kubernetes.client import Configuration

from migrator.errors import MigratorError
from migrator.kinds import LEASES, PODS
from migrator.kube import connections
from migrator.kube.store import KubeCluster
from tests.support.fake_api import OPS, store_on

_BODY = b'{"kind":"Pod","metadata":{"name":"p"}}'
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@contextmanager
def dripping(*, headers: bool, seconds: float = 20.0, every: float = 0.1) -> Iterator[str]:
    """A server that sends its answer, or only its headers, byte by byte."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve(client: socket.socket) -> None:
        number = int(seconds / every)
        try:
            client.recv(65536)
            slow = b"HTTP/1.1 200 OK\r\nX: " if headers else _HEAD % (len(_BODY) + number)
            client.sendall(slow)
            for _ in range(number):
                client.sendall(b" ")
                time.sleep(every)
            client.sendall(_BODY)
        except OSError:
            pass

    def accept() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def _get(store: KubeCluster) -> object:
    return store.get(PODS, "a", "p")


def _list(store: KubeCluster) -> object:
    return store.list(PODS, lambda raw: raw)


def _patch(store: KubeCluster) -> object:
    return store.within(lambda: 3.0).patch(PODS, "a", "p", OPS)


def _lease(store: KubeCluster) -> object:
    return store.patch(LEASES, "a", "p", OPS)


@pytest.mark.parametrize("headers", [False, True], ids=["body", "headers"])
@pytest.mark.parametrize("request_of", [_get, _list, _patch, _lease])
def test_one_answer_has_a_time_limit_as_a_whole(request_of: Callable[[KubeCluster], object], *, headers: bool) -> None:
    """A byte now and then keeps each read alive, and for ever held a run."""
    with dripping(headers=headers) as url:
        store = store_on(url, request_timeout=0.5)
        began = time.monotonic()
        with pytest.raises(MigratorError):
            request_of(store)
        assert time.monotonic() - began < 8


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
