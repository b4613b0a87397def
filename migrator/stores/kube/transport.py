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
from functools import lru_cache
from typing import Any, Final, NoReturn
from urllib.parse import urlencode

import urllib3
from kubernetes.client import ApiClient
from kubernetes.config import ConfigException
from urllib3.exceptions import ConnectTimeoutError, HTTPError, LocationValueError, ProxyError, SSLError
from urllib3.response import BaseHTTPResponse
from urllib3.util import parse_url

from migrator import __version__
from migrator.errors import AlreadyExists, Conflict, LeaseLost, LostReply, NotAuthorised, TestFailed, Unreachable
from migrator.store import LONGEST_WRITE, Deadline
from migrator.stores.kube import responses
from migrator.stores.kube.retry import RateLimit, Retry
from migrator.stores.kube.wire import Connector

#: ``method``, path, HTTP status (0 where there was no answer) and seconds of every request sent.
OnRequest = Callable[[str, str, int, float], None]

JSON: Final = "application/json"
_USER_AGENT: Final = f"grove-migrator/{__version__}"
_LEAST_TIME: Final = 1.0

#: What the HTTP library accepts as a timeout, in seconds.
SHORTEST_TIMEOUT: Final = 0.001

#: For how long, in seconds, credentials are taken for fresh: asking the official client for them at every request costs
#: more than signing does, and it renews them minutes before they end.
_FRESH: Final = 1.0

#: A server that has never answered is more likely a wrong address than one that is just being restarted.
_FIRST_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``what`` names it in messages.

    ``repeatable``: sending it twice does no harm. ``timeout``: for this request alone, in seconds. ``urgent``: the
    rate limit does not apply. ``left``: how many seconds remain in which it may be under way; it may raise.
    """

    method: str
    path: str
    query: Mapping[str, str]
    what: str
    accept: str = JSON
    body: bytes | None = None
    content_type: str = JSON
    repeatable: bool = False
    timeout: float | None = None
    urgent: bool = False
    left: Callable[[], float] | None = None

    def url(self, limit: float) -> str:
        """Path and query; a write asks the server to work on it no longer than ``limit`` seconds.

        Without that a patch may be applied 34 s later (measured; ``k8s.io/apiserver`` ``endpoints/handlers``).
        """
        query = [_encoded(tuple(self.query.items()))] if self.query else []
        if self.method != "GET":
            query.append(f"timeout={limit:.3f}s")
        return f"{self.path}?{'&'.join(query)}" if query else self.path


@lru_cache(maxsize=64)
def _encoded(query: tuple[tuple[str, str], ...]) -> str:
    """Thousands of patches share one query."""
    return urlencode(query)


@dataclass(frozen=True, slots=True)
class Timing:
    """Clocks and chance, so that tests may hold them."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))


@dataclass(slots=True)
class Course:
    """The course of one request so far; ``wait`` is how long before it may be sent again, in seconds."""

    request: Request
    until: float
    attempt: int = 0
    doubtful: bool = False  # an earlier attempt of a write may have been applied
    wait: float = 0.0
    last: str = ""  # what was wrong with the last attempt


class Transport:
    """Sends requests over the official client's connection pool, with its authentication.

    ``request_timeout`` is how long one request may take, in seconds, and a write with all its attempts too.
    """

    def __init__(
        self,
        api_client: ApiClient,
        *,
        request_timeout: float,
        retry: Retry | None = None,
        limit: RateLimit | None = None,
        deadline: Deadline | None = None,
        timing: Timing | None = None,
        on_request: OnRequest | None = None,
    ) -> None:
        self.request_timeout = request_timeout
        self.server = str(api_client.configuration.host)
        self._configuration = api_client.configuration
        self._connections = _Connections(api_client)
        self._retry = retry or Retry()
        self.limit = limit
        self.timing = timing or Timing()
        self._deadline = deadline or Deadline(self.timing.clock)
        self.on_request = on_request
        self._credentials = threading.Lock()
        self._signature: tuple[float, dict[str, str]] = (-math.inf, {})  # when it was asked for, and what it is
        self._has_answered = False  # whether there has ever been an answer

    def send(self, request: Request) -> bytes:
        """The body of a successful answer.

        Raises :class:`~migrator.errors.Unreachable` when the bounds are reached, another
        :class:`~migrator.errors.ClusterError` for a definite failure, and :class:`~migrator.errors.LostReply` for a
        write that may have been applied.
        """
        course = self.begin(request)
        while True:
            if self.limit is not None and not request.urgent:
                self.limit.take()
            headers, timeout = self.prepare(course)
            try:
                response = self._exchange(request, headers, timeout)
            except HTTPError as error:
                self.unanswered(course, error, sent=not _before_sending(error))
            else:
                body = self.answered(course, response.status, response.headers, response.data)
                if body is not None:
                    return body
            self.timing.sleep(course.wait)

    def begin(self, request: Request) -> Course:
        """A request that was not sent yet."""
        return Course(request, self._until(request))

    def connector(self) -> Connector:
        """What makes connections of the same kind, outside the pool."""
        return self._connections.connector()

    def _until(self, request: Request) -> float:
        timeout = request.timeout or self.request_timeout
        patient = request.repeatable and self._has_answered
        budget = max(timeout, self._retry.budget) if patient else timeout
        return self.timing.clock() + budget

    def prepare(self, course: Course) -> tuple[dict[str, str], float]:
        """The headers of the next attempt, and how long it may take; to be asked right before it is sent.

        Raises what the request ends with if it must not be sent.
        """
        course.attempt += 1
        headers = self._headers(course.request)
        try:
            return headers, self._timeout(course)
        except LeaseLost as error:
            if course.doubtful:
                text = f"{course.request.what}: an earlier attempt may have been applied ({error})"
                raise LostReply(text) from error
            raise

    def answered(self, course: Course, code: int, headers: Mapping[str, str], data: bytes) -> bytes | None:
        """The body, or ``None`` where the request may be sent again after ``course.wait``; raises what it ends with."""
        request = course.request
        self._has_answered = True
        if code in responses.OK:
            return data
        status = responses.status_of(data)
        if not responses.is_transient(code, status):
            failure = responses.error_of(code, status, request.what, patching=request.method == "PATCH")
            if course.doubtful and isinstance(failure, TestFailed | Conflict | AlreadyExists):
                raise LostReply(f"{request.what}: an earlier attempt may have been applied ({failure})") from failure
            raise failure
        if not request.repeatable and responses.may_have_been_applied(code):
            course.doubtful = True
        asked = responses.retry_after(headers, status, self.timing.now())
        self._again(course, responses.describe(code, status), asked)
        return None

    def late(self, course: Course) -> None:
        """Give up a request that is to be sent again, and whose time is over by now."""
        left = course.until - self.timing.clock()
        if course.attempt and not course.request.repeatable and left < self._least(course.request) / 2:
            self._give_up(course)

    def _exchange(self, request: Request, headers: Mapping[str, str], timeout: float) -> BaseHTTPResponse:
        started, code = self.timing.clock(), 0
        try:
            response = self._connections.urlopen(
                request.method,
                request.url(timeout),
                body=request.body,
                headers=headers,
                timeout=urllib3.Timeout(total=timeout),
                retries=False,
                redirect=False,
            )
            code = response.status
        finally:
            if self.on_request is not None:
                self.on_request(request.method, request.path, code, self.timing.clock() - started)
        return response

    def _headers(self, request: Request) -> dict[str, str]:
        headers = {"Accept": request.accept, "User-Agent": _USER_AGENT}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        try:
            headers.update(self._signed())
        except (ConfigException, OSError) as error:
            raise NotAuthorised(f"{request.what}: the credentials cannot be renewed: {error}") from error
        return headers

    def _signed(self) -> dict[str, str]:
        """The headers with our credentials."""
        asked, signature = self._signature
        if self.timing.clock() - asked < _FRESH:
            return signature
        with self._credentials:  # a credential plugin must not be started by every thread at once
            asked, signature = self._signature
            now = self.timing.clock()
            if now - asked >= _FRESH:
                settings = self._configuration.auth_settings().values()
                signature = {setting["key"]: setting["value"] for setting in settings}
                self._signature = (now, signature)
        return signature

    def _timeout(self, course: Course) -> float:
        """How long the next attempt may take: all attempts of a write share the time of one.

        Raises :class:`~migrator.errors.LeaseLost` where no time is left in which a write may be under way.
        """
        request = course.request
        timeout = request.timeout or self.request_timeout
        if request.method == "GET":
            return timeout
        if not request.repeatable:
            timeout = max(min(timeout, course.until - self.timing.clock()), SHORTEST_TIMEOUT)
        if request.left is not None:
            left = request.left()
            if left <= 0:
                raise LeaseLost(f"{request.what}: our hold of the Lease has ended, so the request is not sent")
            timeout = min(timeout, left)
        return min(timeout, LONGEST_WRITE)

    def _least(self, request: Request) -> float:
        """The time without which another attempt is not worth it: cut short, it would only lose its reply."""
        return min(_LEAST_TIME, (request.timeout or self.request_timeout) / 4)

    def unanswered(self, course: Course, error: HTTPError, *, sent: bool) -> None:
        """Return if the request may be sent again after ``course.wait``, or raise what it ends with.

        ``sent``: the server may have it.
        """
        host, text = self._configuration.host, _explain(error)
        if isinstance(error, SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise Unreachable(
                f"{course.request.what}: {host} presents a certificate that is not trusted: {text}"
            ) from error
        if isinstance(error, LocationValueError):
            raise Unreachable(f"{course.request.what}: {host} is not an address: {text}") from error
        if not course.request.repeatable and sent:
            raise LostReply(
                f"{course.request.what}: the request was sent and no answer came from {host}: {text}"
            ) from error
        self._again(course, f"no answer from {host}: {text}", None)

    def _again(self, course: Course, last: str, asked: float | None) -> None:
        delay = self._retry.delay(course.attempt, asked, self.timing.chance())
        left = min(course.until - self.timing.clock() - self._least(course.request), self._deadline.remaining())
        attempts = self._retry.attempts if self._has_answered else min(self._retry.attempts, _FIRST_ATTEMPTS)
        course.wait, course.last = delay, last
        if course.attempt >= attempts or delay >= left:
            self._give_up(course)

    def _give_up(self, course: Course) -> NoReturn:
        tries = f"{course.attempt} attempts" if course.attempt > 1 else "1 attempt"
        what = f"{course.request.what}: {course.last} (gave up after {tries})"
        raise LostReply(what) if course.doubtful else Unreachable(what)


class _Connections:
    """The connections of the official client's pool to its one server.

    They are looked up once: finding them anew for every request costs a tenth of it. Through an HTTP proxy the
    pool manager has more to do than that.
    """

    def __init__(self, api_client: ApiClient) -> None:
        self._manager: urllib3.PoolManager = api_client.rest_client.pool_manager
        self._host: str = api_client.configuration.host
        self._found: tuple[urllib3.HTTPConnectionPool, str] | None = None

    def connector(self) -> Connector:
        """What makes connections of its own, as the pool would."""
        return Connector(self._manager, self._host)

    def urlopen(self, method: str, path: str, **options: Any) -> BaseHTTPResponse:  # noqa: ANN401 - urllib3's own
        """Send one request; ``path`` is relative to the server's address."""
        if isinstance(self._manager, urllib3.ProxyManager):
            return self._manager.urlopen(method, self._host + path, **options)
        if self._found is None:
            self._found = self._manager.connection_from_url(self._host), (parse_url(self._host).path or "").rstrip("/")
        connections, prefix = self._found
        return connections.urlopen(method, prefix + path, assert_same_host=False, **options)


def _before_sending(error: HTTPError) -> bool:
    """Whether the connection was never made, so that nothing can have been sent."""
    if isinstance(error, ProxyError):
        return True  # urllib3 raises it only while connecting to or through the proxy
    return isinstance(error, ConnectTimeoutError)  # NewConnectionError and NameResolutionError are kinds of it


def _explain(error: HTTPError) -> str:
    """The innermost cause in its own words: urllib3 wraps them with addresses of Python objects."""
    cause: BaseException = error
    while cause.__cause__ is not None or cause.__context__ is not None:
        cause = cause.__cause__ or cause.__context__ or cause
    text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return str(text)[:200]
