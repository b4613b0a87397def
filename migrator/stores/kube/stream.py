"""Many writes, several at a time, in one thread: each under the transport's rules, on a connection of its own.

Threads that wait for one answer each spend most of their time on taking turns: measured, a patch costs a sixth of the
CPU this way. The rules of sending, of retries and of what an answer means are those of a single request.
"""

from __future__ import annotations

import heapq
import math
import selectors
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Generic, TypeVar

from urllib3.exceptions import HTTPError
from urllib3.exceptions import TimeoutError as TooLate

from migrator.errors import MigratorError
from migrator.store import FIRST_CONCURRENCY
from migrator.stores.kube import responses
from migrator.stores.kube.retry import ConcurrencyWindow
from migrator.stores.kube.transport import SHORTEST_TIMEOUT, Course, Request, Transport
from migrator.stores.kube.wire import Connection

K = TypeVar("K")

_THROTTLED: Final = frozenset({responses.TOO_MANY_REQUESTS, responses.UNAVAILABLE})


@dataclass(eq=False, slots=True)
class _Flight(Generic[K]):
    """A request, from its taking to its end. ``expires`` is of the monotonic clock, as a socket's timeout is."""

    key: K
    course: Course
    connection: Connection | None = None
    sent: float = 0.0
    expires: float = math.inf


@dataclass(eq=False, slots=True)
class Stream(Generic[K]):
    """One stream of writes. ``take`` gives the next with its key, and is called only when it may be sent at once."""

    transport: Transport
    take: Callable[[], tuple[K, Request] | None]
    window: ConcurrencyWindow
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _flying: dict[Connection, _Flight[K]] = field(default_factory=dict)
    _waiting: list[tuple[float, int, _Flight[K]]] = field(default_factory=list)  # to be sent again, and when
    _idle: list[Connection] = field(default_factory=list)
    _done: deque[tuple[K, bytes | MigratorError]] = field(default_factory=deque)
    _numbers: count[int] = field(default_factory=count)
    _pause: float = 0.0  # what the rate limit asks for

    def run(self) -> Generator[tuple[K, bytes | MigratorError], None, None]:
        """The outcome of each, as soon as it is known: the body of the answer, or an error. See ``Store.patches``."""
        connector = self.transport.connector()
        try:
            while True:
                self._fill(connector.connect)
                while self._done:
                    yield self._done.popleft()
                    self._fill(connector.connect)
                if not self._flying and not self._waiting and not self._pause:
                    return
                self._wait()
        finally:
            self._waiting.clear()
            self._pause = 0.0
            while self._flying:
                self._wait()
                self._waiting.clear()
            for connection in self._idle:
                connection.close()
            self._selector.close()

    def _fill(self, connect: Callable[[float], Connection]) -> None:
        """Send what may be sent now: first what is due again, then what is new."""
        clock = self.transport.timing.clock
        self._pause = 0.0
        while len(self._flying) < self.window.size:
            if self._waiting and self._waiting[0][0] <= clock():
                flight = self._waiting[0][2]
            elif len(self._flying) + len(self._waiting) < self.window.size:
                flight = None
            else:
                return
            limit = self.transport.limit
            if limit is not None:
                self._pause = limit.wait()
                if self._pause:
                    return
            if flight is not None:
                heapq.heappop(self._waiting)
            else:
                found = self.take()
                if found is None:
                    return
                flight = _Flight(found[0], self.transport.begin(found[1]))
            if limit is not None:
                limit.spend()
            try:
                self._send(flight, connect)
            except MigratorError as error:
                self._done.append((flight.key, error))

    def _send(self, flight: _Flight[K], connect: Callable[[float], Connection]) -> None:
        """Send a request. All that takes time comes before the question whether it may still be sent."""
        course, request = flight.course, flight.course.request
        self.transport.late(course)
        try:
            connection = self._connection(connect, max(course.until - self.transport.timing.clock(), SHORTEST_TIMEOUT))
        except HTTPError as error:
            course.attempt += 1
            self._report(request, 0, 0.0)
            self.transport.unanswered(course, error, sent=False)
            self._retry(flight)
            return
        try:
            headers, timeout = self.transport.prepare(course)
        except BaseException:
            self._idle.append(connection)
            raise
        flight.sent, flight.expires = self.transport.timing.clock(), time.monotonic() + timeout
        flight.connection = connection
        try:
            connection.send(request.method, request.url(timeout), headers, request.body or b"", timeout=timeout)
        except HTTPError as error:
            self._lost(flight, error)
            return
        self._flying[connection] = flight

    def _connection(self, connect: Callable[[float], Connection], timeout: float) -> Connection:
        """An open connection, or a new one."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_idle():
                return connection
            self._close(connection)
        connection = connect(timeout)
        self._selector.register(connection, selectors.EVENT_READ)
        return connection

    def _wait(self) -> None:
        """Wait for an answer or for the next time limit; then take in all answers."""
        timing = self.transport.timing
        left = self._pause or math.inf
        if self._waiting and len(self._flying) < self.window.size:
            left = min(left, self._waiting[0][0] - timing.clock())
        if not self._flying:
            timing.sleep(max(left, 0.0))
            return
        first = min(flight.expires for flight in self._flying.values())
        for key, _ in self._selector.select(max(min(left, first - time.monotonic()), 0.0)):
            connection: Connection = key.fileobj  # type: ignore[assignment]
            if connection in self._flying:
                self._receive(connection)
            elif not connection.is_idle():
                self._idle.remove(connection)
                self._close(connection)
        if (now := time.monotonic()) >= first:
            for flight in [flight for flight in self._flying.values() if flight.expires <= now]:
                self._settle(flight, TooLate("timed out"))

    def _receive(self, connection: Connection) -> None:
        flight = self._flying[connection]
        try:
            received = connection.receive()
        except HTTPError as error:
            self._settle(flight, error)
            return
        if received is None:
            return
        del self._flying[connection]
        if received.reusable:
            self._idle.append(connection)
        else:
            self._close(connection)
        clock = self.transport.timing.clock()
        self._report(flight.course.request, received.status, clock - flight.sent)
        if received.status in _THROTTLED:
            self.window.throttled(flight.sent, clock)
        else:
            self.window.answered(clock - flight.sent)
        try:
            body = self.transport.answered(flight.course, received.status, received.headers, received.data)
        except MigratorError as error:
            self._done.append((flight.key, error))
            return
        if body is None:
            self._retry(flight)
        else:
            self._done.append((flight.key, body))

    def _settle(self, flight: _Flight[K], error: HTTPError) -> None:
        """End a flight that gets no answer."""
        if flight.connection is not None:
            self._flying.pop(flight.connection, None)
        try:
            self._lost(flight, error)
        except MigratorError as failure:
            self._done.append((flight.key, failure))

    def _lost(self, flight: _Flight[K], error: HTTPError) -> None:
        if flight.connection is not None:
            self._close(flight.connection)
        self._report(flight.course.request, 0, self.transport.timing.clock() - flight.sent)
        self.transport.unanswered(flight.course, error, sent=True)
        self._retry(flight)

    def _retry(self, flight: _Flight[K]) -> None:
        at = self.transport.timing.clock() + flight.course.wait
        heapq.heappush(self._waiting, (at, next(self._numbers), flight))

    def _close(self, connection: Connection) -> None:
        self._selector.unregister(connection)
        connection.close()

    def _report(self, request: Request, code: int, seconds: float) -> None:
        if self.transport.on_request is not None:
            self.transport.on_request(request.method, request.path, code, seconds)


def stream(
    transport: Transport, take: Callable[[], tuple[K, Request] | None], *, concurrency: int
) -> Generator[tuple[K, bytes | MigratorError], None, None]:
    """Send what ``take`` gives, at most ``concurrency`` at a time."""
    return Stream(transport, take, ConcurrencyWindow(concurrency, first=FIRST_CONCURRENCY)).run()
