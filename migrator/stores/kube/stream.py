"""Many writes, several at a time, in one thread: each under the transport's rules, on a connection of its own.

Threads that each wait for one answer spend most of their time on switching: in one thread a patch costs a sixth of
the CPU (measured). The rules of sending, of retries and of what an answer means are those of a single request.
"""

from __future__ import annotations

import heapq
import math
import select
import time
from collections import deque
from collections.abc import Callable, Generator
from http import HTTPStatus
from itertools import count
from typing import Final, Generic, TypeAlias, TypeVar

from urllib3.exceptions import HTTPError
from urllib3.exceptions import TimeoutError as TooLate

from migrator.errors import MigratorError
from migrator.stores.kube.retry import ConcurrencyWindow
from migrator.stores.kube.transport import Call, Request, Transport
from migrator.stores.kube.wire import Connection, Received

K = TypeVar("K")

#: A write and its outcome: the body of the answer, or an error without its traceback, which would refer to itself.
Ended: TypeAlias = tuple[K, Request, bytes | MigratorError]

_THROTTLED: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})


class Stream(Generic[K]):
    """One stream of writes. ``take`` gives the next with its key, and is called only when it may be sent at once."""

    def __init__(self, transport: Transport, take: Callable[[], tuple[K, Request] | None], *, concurrency: int) -> None:
        self._transport = transport
        self._take = take
        self._window = ConcurrencyWindow(concurrency)
        self._poll = select.poll()
        self._flying: dict[int, tuple[K, Call, Connection]] = {}  # by their sockets' numbers
        self._waiting: list[tuple[float, int, K, Call]] = []  # to be sent again, and when
        self._done: deque[Ended[K]] = deque()
        self._numbers = count()
        self._pause = 0.0  # what the rate limit asks for
        self._counted = False  # whether it has counted the next patch

    def run(self) -> Generator[Ended[K], None, None]:
        """The outcome of each, as soon as it is known. See ``Store.patches``."""
        try:
            while True:
                self._fill()
                if self._done:
                    while self._done:
                        yield self._done.popleft()
                elif self._flying or self._waiting or self._pause:
                    self._wait()
                else:
                    return
        finally:
            self._waiting.clear()
            self._pause = 0.0
            while self._flying:
                self._wait()
                self._waiting.clear()

    def _fill(self) -> None:
        """Send what may be sent now: first what is due again, then what is new."""
        transport, flying, waiting = self._transport, self._flying, self._waiting
        limit = transport.limit
        self._pause = 0.0
        while len(flying) < self._window.size:
            again = bool(waiting) and waiting[0][0] <= transport.timing.clock()
            if waiting and not again and len(flying) + len(waiting) >= self._window.size:
                return
            if limit is not None and not self._counted:
                self._pause = limit.take()
                if self._pause:
                    return
                self._counted = True
            if again:
                _, _, key, call = heapq.heappop(waiting)
            else:
                found = self._take()
                if found is None:
                    return
                key, call = found[0], Call(found[1], transport.until(found[1]))
            self._counted = False
            try:
                self._send(key, call)
            except MigratorError as error:
                self._done.append((key, call.request, error.with_traceback(None)))

    def _send(self, key: K, call: Call) -> None:
        request = call.request
        found = self._transport.ready(call)
        if found is None:
            self._retry(key, call)
            return
        connection, headers, timeout = found
        try:
            connection.send(request.method, request.url(timeout), headers, request.body, timeout=timeout)
        except HTTPError as error:
            self._transport.ended(call, connection, error)
            self._retry(key, call)
        else:
            self._flying[connection.number] = key, call, connection
            self._poll.register(connection.number, select.POLLIN)

    def _wait(self) -> None:
        """Wait for an answer or for the next time limit; then take in all answers."""
        timing, flying = self._transport.timing, self._flying
        left = self._pause or math.inf
        if self._waiting and not self._pause and len(flying) < self._window.size:
            left = min(left, self._waiting[0][0] - timing.clock())
        if not flying:
            timing.sleep(max(left, 0.0))
            return
        first = min([call.expires for _, call, _ in flying.values()])
        for number, _ in self._poll.poll(max(min(left, first - time.monotonic()), 0.0) * 1000):
            connection = flying[number][2]
            try:
                received = connection.receive()
            except HTTPError as error:
                self._land(number, error)
            else:
                if received is not None:
                    self._land(number, received)
        if (now := time.monotonic()) >= first:
            for number in [number for number, (_, call, _) in flying.items() if call.expires <= now]:
                self._land(number, TooLate("timed out"))

    def _land(self, number: int, came: Received | HTTPError) -> None:
        """End a flight: by its answer, or by what came instead."""
        key, call, connection = self._flying.pop(number)
        self._poll.unregister(number)
        if isinstance(came, Received):
            now = self._transport.timing.clock()
            if came.status in _THROTTLED:
                self._window.throttled(call.sent, now)
            else:
                self._window.answered(now - call.sent)
        try:
            body = self._transport.ended(call, connection, came)
        except MigratorError as error:
            self._done.append((key, call.request, error.with_traceback(None)))
            return
        if body is None:
            self._retry(key, call)
        else:
            self._done.append((key, call.request, body))

    def _retry(self, key: K, call: Call) -> None:
        at = self._transport.timing.clock() + call.wait
        heapq.heappush(self._waiting, (at, next(self._numbers), key, call))
