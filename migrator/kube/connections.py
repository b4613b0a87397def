"""Connections that deliver nothing late, and whose answers take no longer than they may.

A connection that is given up, or whose process ends, is reset: what the kernel has not sent yet is thrown away. Without
that it is sent as soon as the network is back, long after our hold on the Lease (measured: 52 s after, 16 of 16).
"""

from __future__ import annotations

import http.client
import io
import os
import socket
import struct
import time
from typing import Any, Final

from urllib3 import PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

#: For how many seconds the kernel tries to send what is not acknowledged, also for a process that is stopped.
_UNACKNOWLEDGED: Final = 10.0

_LINGER: Final = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
_BUFFER: Final = 1 << 16


def prepare(pool: PoolManager) -> None:
    """Let a pool make such connections from now on."""
    options = [*HTTPConnection.default_socket_options, (socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)]
    if (user_timeout := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:  # Linux's
        options.append((socket.IPPROTO_TCP, user_timeout, int(_UNACKNOWLEDGED * 1000)))
    pool.connection_pool_kw["socket_options"] = options
    pool.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}


class _Within(io.RawIOBase):
    """The bytes of one answer, all of which must come within the time that a single read had."""

    def __init__(self, sock: socket.socket) -> None:
        limit = sock.gettimeout()
        self._sock = sock
        self._bytes: Any = sock.makefile("rb", buffering=0)
        self._until = None if limit is None else time.monotonic() + limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401 - any writable buffer
        if self._until is not None:
            left = self._until - time.monotonic()
            if left <= 0:
                raise TimeoutError("the answer was not complete in time")
            self._sock.settimeout(left)
        read: int | None = self._bytes.readinto(buffer)
        return read

    def close(self) -> None:
        self._bytes.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """An answer with a time limit as a whole: urllib3's is for each read, and a byte now and then lasts for ever."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:  # noqa: ANN401 - http.client's
        super().__init__(sock, *args, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_Within(sock), _BUFFER)


class _Http(HTTPConnection):
    response_class = _Answer


class _Https(HTTPSConnection):
    response_class = _Answer


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _Https
