"""One request to the API server: sent, and sent again where that is safe.

The HTTP library retries nothing. Reads, and writes of a server-side dry run, are sent again after any failure that
may pass. A write is sent again only after a definite answer, or when it cannot have been sent; a write whose answer
was lost must be looked up, not repeated.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, NamedTuple, NoReturn

from kubernetes.client import ApiClient
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError, LocationValueError, SSLError

from migrator import __version__
from migrator.errors import (
    AlreadyExists,
    Conflict,
    LeaseLost,
    LostReply,
    MigratorError,
    NotAuthorised,
    TestFailed,
    Unreachable,
)
from migrator.store import LONGEST_WRITE, Deadline
from migrator.stores.kube import responses
from migrator.stores.kube.retry import ATTEMPTS, BUDGET, RateLimit, delay
from migrator.stores.kube.wire import Connection, Connector, Received, lines_of, way_to

JSON: Final = "application/json"
_USER_AGENT: Final = f"grove-migrator/{__version__}"
_LEAST_TIME: Final = 1.0

#: A Lease must be renewed well within its duration, so no request for one may hang for longer; client-go halves its
#: renew deadline of 10 s in the same way (``tools/leaderelection/resourcelock/interface.go:NewFromKubeconfig``).
_LEASE_TIMEOUT: Final = 5.0

#: What the HTTP library accepts as a timeout, in seconds.
SHORTEST_TIMEOUT: Final = 0.001

#: For how long, in seconds, credentials are taken for fresh: asking the official client for them at every request costs
#: more than signing does, and it renews them minutes before they end.
_FRESH: Final = 1.0

#: A server that has never answered is more likely a wrong address than one that is just being restarted.
_FIRST_ATTEMPTS: Final = 3


class Request(NamedTuple):
    """One request; ``what`` names it in messages, and ``query`` is encoded.

    ``repeatable``: sending it twice does no harm. ``of_lease``: it has a time limit of its own. ``left``: how many
    seconds remain in which it may be under way; it may raise.
    """

    path: str
    what: str
    body: bytes = b""
    left: Callable[[], float] | None = None
    method: str = "GET"
    query: str = ""
    accept: str = JSON
    content_type: str = ""
    repeatable: bool = False
    of_lease: bool = False

    def url(self, limit: float) -> str:
        """Path and query; a write asks the server to work on it no longer than ``limit`` seconds.

        Without that a patch may be applied 34 s later (measured; ``k8s.io/apiserver`` ``endpoints/handlers``).
        """
        if self.method == "GET":
            return f"{self.path}?{self.query}" if self.query else self.path
        return f"{self.path}?{self.query}{'&' if self.query else ''}timeout={limit:.3f}s"


@dataclass(frozen=True, slots=True)
class Timing:
    """Clocks and chance, so that tests can replace them."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))


@dataclass(slots=True)
class Call:
    """One request with its attempts so far; ``wait`` is how long before it may be sent again, in seconds.

    ``until`` and ``sent`` are times of the clock, ``expires`` is of the monotonic clock, as a socket's timeout is.
    """

    request: Request
    until: float
    attempt: int = 0
    doubtful: bool = False  # an earlier attempt of a write may have been applied
    wait: float = 0.0
    sent: float = 0.0
    expires: float = math.inf
    last: str = ""  # what was wrong with the last attempt


class Flight(NamedTuple):
    """An attempt under way; one without a connection has failed, and another may be made."""

    call: Call
    connection: Connection | None = None
    timeout: float = 0.0

    def drop(self) -> None:
        """End an attempt whose answer nobody waits for."""
        if self.connection is not None:
            self.connection.close()


class Transport:
    """Sends requests over connections that the official client makes, with its authentication.

    ``request_timeout`` is how long one request may take, in seconds, and a write with all its attempts too.
    """

    def __init__(
        self,
        api_client: ApiClient,
        *,
        request_timeout: float,
        limit: RateLimit | None = None,
        deadline: Deadline | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.request_timeout = request_timeout
        self.server = str(api_client.configuration.host)
        self._configuration = api_client.configuration
        self._pools = api_client.rest_client.pool_manager
        self._idle: list[Connection] = []
        self.limit = limit
        self.timing = timing or Timing()
        self._deadline = deadline or Deadline(self.timing.clock)
        self._credentials = threading.Lock()
        self._known: tuple[float, dict[tuple[str, str], dict[str, str]]] = (-math.inf, {})  # see _signed
        self.ahead = Ahead(self)
        self._has_answered = False  # whether there has ever been an answer

    def send(self, request: Request, begun: Flight | None = None) -> bytes:
        """The body of a successful answer; ``begun`` is the first attempt where :meth:`begin` has made it.

        Raises :class:`~migrator.errors.Unreachable` when time or attempts run out, another
        :class:`~migrator.errors.ClusterError` for a definite failure, and :class:`~migrator.errors.LostReply` for a
        write that may have been applied.
        """
        flight = begun or self.begin(request)
        while (body := self._answer(flight)) is None:
            self.timing.sleep(flight.call.wait)
            flight = self._attempt(flight.call)
        return body

    def begin(self, request: Request) -> Flight:
        """Send a request, and do not wait for its answer; raises what :meth:`send` raises."""
        return self._attempt(Call(request, self.until(request)))

    def _attempt(self, call: Call) -> Flight:
        """Send a request once; raises what it ends with where it must not be sent again."""
        found, request = self.ready(call), call.request
        if found is None:
            return Flight(call)
        connection, headers, timeout = found
        try:
            connection.send(request.method, request.url(timeout), headers, request.body, timeout=timeout)
        except HTTPError as error:
            self.ended(call, connection, error)
            return Flight(call)
        return Flight(call, connection, timeout)

    def _answer(self, flight: Flight) -> bytes | None:
        """Wait for the body; ``None`` where the request may be sent again after ``call.wait``."""
        call, connection, timeout = flight
        if connection is None:
            return None
        try:
            came: Received | HTTPError = connection.wait(timeout)
        except HTTPError as error:
            came = error
        return self.ended(call, connection, came)

    def ready(self, call: Call) -> tuple[Connection, Mapping[str, str], float] | None:
        """An open connection, the headers of the next attempt, and how long it may take; ask right before sending.

        The hold on the Lease is checked last, after all that takes time. Returns ``None`` if no connection was made and
        the request may be sent again after ``call.wait``; raises what it ends with if it must not be sent.
        """
        request = call.request
        if call.attempt and not request.repeatable and call.until - self.timing.clock() < self._least(request) / 2:
            self._give_up(call)  # its time ended while other requests went first
        call.attempt += 1
        try:
            connection = self._connection(call)
        except HTTPError as error:
            self._unanswered(call, error, sent=False)
            return None
        try:
            headers, timeout = self._headers(call.request), self._timeout(call)
        except BaseException as error:
            self._idle.append(connection)
            if call.doubtful and isinstance(error, MigratorError):
                text = f"{call.request.what}: an earlier attempt may have been applied ({error})"
                raise LostReply(text) from error
            raise
        call.sent, call.expires = self.timing.clock(), time.monotonic() + timeout
        return connection, headers, timeout

    @cached_property
    def _connector(self) -> Connector:
        return Connector(self._pools, self._configuration.host)

    def _connection(self, call: Call) -> Connection:
        try:
            while not (connection := self._idle.pop()).is_idle():
                connection.close()
        except IndexError:  # other threads take connections too, so that asking first would prove nothing
            connection = None
        if connection is None:
            left = min(call.until - self.timing.clock(), self._limit_of(call.request))
            connection = self._connector.connect(max(left, SHORTEST_TIMEOUT))
        return connection

    def _limit_of(self, request: Request) -> float:
        return _LEASE_TIMEOUT if request.of_lease else self.request_timeout

    def until(self, request: Request) -> float:
        """The time of the clock at which a request that begins now is given up."""
        timeout = self._limit_of(request)
        patient = request.repeatable and self._has_answered
        return self.timing.clock() + (max(timeout, BUDGET) if patient else timeout)

    def ended(self, call: Call, connection: Connection, came: Received | HTTPError) -> bytes | None:
        """The body, or ``None`` where the request may be sent again after ``call.wait``; raises what it ends with.

        ``came`` is the answer, or what came instead of one after the request was sent.
        """
        if isinstance(came, HTTPError):
            connection.close()
            self._unanswered(call, came, sent=True)
            return None
        request, code = call.request, came.status
        if came.reusable:
            self._idle.append(connection)
        else:
            connection.close()
        self._has_answered = True
        if code in responses.OK:
            return came.data
        status = responses.status_of(came.data)
        if not responses.is_transient(code, status):
            failure = responses.error_of(code, status, request.what, patching=request.method == "PATCH")
            if call.doubtful and isinstance(failure, TestFailed | Conflict | AlreadyExists):
                raise LostReply(f"{request.what}: an earlier attempt may have been applied ({failure})") from failure
            raise failure
        if not request.repeatable and code in responses.SERVER_ERRORS:
            call.doubtful = True  # a timeout of etcd is a 500
        asked = responses.retry_after(came.headers, status, self.timing.now())
        self._again(call, responses.describe(code, status), asked)
        return None

    def _headers(self, request: Request) -> Mapping[str, str]:
        """The headers of a request, with our credentials; one mapping for all that are alike."""
        try:
            known = self._signed()
        except (ConfigException, OSError) as error:
            raise NotAuthorised(f"{request.what}: the credentials cannot be renewed: {error}") from error
        form = request.accept, request.content_type
        if form not in known:
            headers = {"Accept": request.accept, "User-Agent": _USER_AGENT, **known["", ""]}
            if request.content_type:
                headers["Content-Type"] = request.content_type
            try:
                lines_of(headers)
            except ValueError:  # which is not quoted: a token could be in it
                raise NotAuthorised(
                    f"{request.what}: the credentials cannot be sent: the token has a line break, or a character other "
                    "than printable ASCII; correct it in the kubeconfig, or where its credential plugin gets it"
                ) from None
            known[form] = headers
        return known[form]

    def _signed(self) -> dict[tuple[str, str], dict[str, str]]:
        """Headers with fresh credentials by form of request; those of no form have the credentials alone."""
        asked, known = self._known
        if self.timing.clock() - asked < _FRESH:
            return known
        with self._credentials:  # a credential plugin must not be started by every thread at once
            asked, known = self._known
            now = self.timing.clock()
            if now - asked >= _FRESH:
                settings = self._configuration.auth_settings().values()
                # A file with a token may end with a line break, which client-go strips too.
                known = {("", ""): {setting["key"]: setting["value"].strip() for setting in settings}}
                self._known = (now, known)
        return known

    def _timeout(self, call: Call) -> float:
        """How long the next attempt may take: all attempts of a write share the time of one.

        Raises :class:`~migrator.errors.LeaseLost` where no time is left in which a write may be under way.
        """
        request = call.request
        timeout = self._limit_of(request)
        if request.method == "GET":
            return timeout
        if not request.repeatable:
            timeout = max(min(timeout, call.until - self.timing.clock()), SHORTEST_TIMEOUT)
        left = LONGEST_WRITE if request.left is None else request.left()
        if left <= 0:
            raise LeaseLost(f"{request.what}: our hold of the Lease has ended, so the request is not sent")
        return min(timeout, left, LONGEST_WRITE)

    def _least(self, request: Request) -> float:
        """The least time for another attempt: with less it would only lose its reply."""
        return min(_LEAST_TIME, self._limit_of(request) / 4)

    def _unanswered(self, call: Call, error: HTTPError, *, sent: bool) -> None:
        """Return if the request may be sent again after ``call.wait``, or raise what it ends with.

        ``sent``: the server may have it.
        """
        what, host, text = call.request.what, way_to(self.server, self._pools), _explain(error)
        if isinstance(error, SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise Unreachable(f"{what}: {host} presents a certificate that is not trusted: {text}") from error
        if isinstance(error, LocationValueError):
            raise Unreachable(f"{what}: {host} is not an address: {text}") from error
        if not call.request.repeatable and sent:
            raise LostReply(f"{what}: the request was sent and no answer came from {host}: {text}") from error
        self._again(call, f"no answer from {host}: {text}", None)

    def _again(self, call: Call, last: str, asked: float | None) -> None:
        left = min(call.until - self.timing.clock() - self._least(call.request), self._deadline.remaining())
        call.wait, call.last = delay(call.attempt, asked, self.timing.chance()), last
        if call.attempt >= (ATTEMPTS if self._has_answered else _FIRST_ATTEMPTS) or call.wait >= left:
            self._give_up(call)

    def _give_up(self, call: Call) -> NoReturn:
        tries = f"{call.attempt} attempts" if call.attempt > 1 else "1 attempt"
        what = f"{call.request.what}: {call.last} (gave up after {tries})"
        raise LostReply(what) if call.doubtful else Unreachable(what)


class Ahead:
    """Sends the next request before an answer is parsed; its answer waits in the socket's buffers."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._coming: tuple[Request, Flight | MigratorError] | None = None

    def begin(self, request: Request | None) -> None:
        """Send a request that is likely to be next; an error is raised if it is, and nothing is tried again."""
        if request is not None:
            try:
                self._coming = request, self._transport.begin(request)
            except MigratorError as error:
                self._coming = request, error

    def send(self, request: Request) -> bytes:
        """The answer to a request, which may have begun; any other that has begun is dropped, so no answer gets old."""
        if self._coming is not None and self._coming[0] != request:
            self.drop()
        (_, begun), self._coming = self._coming or (request, None), None
        if isinstance(begun, MigratorError):
            raise begun
        return self._transport.send(request, begun)

    def drop(self) -> None:
        """Drop what was sent ahead: nobody knows when the next request comes."""
        coming, self._coming = self._coming, None
        if coming is not None and not isinstance(coming[1], MigratorError):
            coming[1].drop()


def _explain(error: HTTPError) -> str:
    """The innermost cause in its own words: urllib3 wraps them with addresses of Python objects."""
    cause: BaseException = error
    while cause.__cause__ is not None or cause.__context__ is not None:
        cause = cause.__cause__ or cause.__context__ or cause
    return str(getattr(cause, "strerror", None) or str(cause) or type(cause).__name__)[:200]
