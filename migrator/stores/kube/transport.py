"""Requests to the API server, over the connection pool of the official client.

The pool retries nothing. A read, and a write of a server-side dry run, is sent again after any failure that may pass. A
write is sent again only after an answer, or if it was not sent. A write whose answer was lost must be looked up, not
sent again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn

import urllib3
from kubernetes.client import ApiClient
from urllib3 import exceptions as http

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
from migrator.stores.kube.kubeconfig import Credentials

JSON: Final = "application/json"
_USER_AGENT: Final = f"grove-migrator/{__version__}"

#: How long one request may take, in seconds.
_REQUEST_TIMEOUT: Final = 15.0

#: How often one request is sent at most. A server that has never answered is more likely a wrong address than one that
#: is just being restarted.
ATTEMPTS: Final = 8
_FIRST_ATTEMPTS: Final = 3

#: How long a read is tried for, in seconds, all attempts together. A write is tried no longer than one request may
#: take, because the next holder of our Lease waits that long for writes still under way.
BUDGET: Final = 60.0

#: The wait after the first attempt, and the longest one, in seconds.
_FIRST_WAIT: Final = 0.25
_LONGEST_WAIT: Final = 8.0

#: Another attempt needs this much time, in seconds: with less it would only lose its reply.
_LEAST_TIME: Final = 1.0

#: A Lease must be renewed well within its duration, so no request for one may hang for longer; client-go halves its
#: renew deadline of 10 s in the same way (``tools/leaderelection/resourcelock/interface.go:NewFromKubeconfig``).
_LEASE_TIMEOUT: Final = 5.0

#: What urllib3 accepts as a timeout, in seconds.
_SHORTEST_TIMEOUT: Final = 0.001

#: The part of a write's time in which a connection must be made; the server gets the rest.
_CONNECTING: Final = 1 / 3

#: Errors of urllib3 after which the server cannot have the request; after any other it may. TLS errors are among those:
#: with TLS 1.3 a server refuses a certificate after the request was sent.
NOT_SENT: Final = (
    http.ClosedPoolError,
    http.ConnectTimeoutError,
    http.EmptyPoolError,
    http.LocationValueError,
    http.ProxyError,
)


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
        limits = [] if self.method == "GET" else [f"timeout={limit:.3f}s"]
        query = "&".join([*filter(None, [self.query]), *limits])
        return f"{self.path}?{query}" if query else self.path


@dataclass(frozen=True, slots=True)
class Timing:
    """Clocks and chance, so that tests can replace them."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random


@dataclass(slots=True)
class _Call:
    """One request with its attempts so far, which end at ``until`` on the clock; one takes ``longest`` seconds."""

    request: Request
    longest: float
    until: float
    attempts: int = 0
    in_doubt: bool = False  # an earlier attempt of a write may have been applied


class Transport:
    """Sends requests, from any number of threads.

    ``request_timeout`` is how long one request may take, in seconds, and a write with all its attempts too. ``renew``
    reads the credentials of the client anew.
    """

    def __init__(
        self,
        api_client: ApiClient,
        *,
        renew: Callable[[], None],
        request_timeout: float = _REQUEST_TIMEOUT,
        deadline: Deadline | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._request_timeout = request_timeout
        self.server = str(api_client.configuration.host)
        self._pool = api_client.rest_client.pool_manager
        self._timing = timing or Timing()
        self._credentials = Credentials(api_client.configuration, renew, self._timing.clock)
        self._deadline = deadline or Deadline(self._timing.clock)
        self._has_answered = False  # whether there has ever been an answer

    def send(self, request: Request) -> bytes:
        """The body of a successful answer.

        Raises :class:`~migrator.errors.Unreachable` when time or attempts run out, another
        :class:`~migrator.errors.ClusterError` for a definite failure, and :class:`~migrator.errors.LostReply` for a
        write that may have been applied.
        """
        longest = _LEASE_TIMEOUT if request.of_lease else self._request_timeout
        patient = request.repeatable and self._has_answered
        call = _Call(request, longest, self._timing.clock() + (max(longest, BUDGET) if patient else longest))
        while True:
            asked: float | None = None
            try:
                answer = self._attempt(call)
            except http.HTTPError as error:
                failure = self._unanswered(request, error)
            else:
                self._has_answered = True
                if answer.status in responses.OK:
                    body: bytes = answer.data
                    return body
                failure, asked = self._failed(call, answer)
            wait = delay(call.attempts, asked, self._timing.chance())
            if not self._may_repeat(call, wait):
                self._give_up(call, failure)
            self._timing.sleep(wait)

    def _attempt(self, call: _Call) -> urllib3.BaseHTTPResponse:
        """Send a request once; the hold on the Lease is asked for right before."""
        request = call.request
        call.attempts += 1
        try:
            headers = {"Accept": request.accept, "User-Agent": _USER_AGENT, **self._credentials.headers(request.what)}
            connecting, working = self._limits(call)
        except MigratorError as error:
            if call.in_doubt:
                raise _lost(call, error) from error
            raise
        if request.content_type:
            headers["Content-Type"] = request.content_type
        return self._pool.urlopen(
            request.method,
            self.server.rstrip("/") + request.url(working),
            body=request.body or None,
            headers=headers,
            timeout=urllib3.Timeout(connect=connecting, read=working),
            retries=False,
            redirect=False,
        )

    def _limits(self, call: _Call) -> tuple[float, float]:
        """How long the next attempt may take to connect, and how long the server then has, in seconds.

        Both together end before the hold on the Lease does, so that a slow handshake sends nothing late. All attempts
        of a write share the time of one. Raises :class:`~migrator.errors.LeaseLost` if no time is left.
        """
        request, limit = call.request, call.longest
        if request.method == "GET":
            return limit, limit
        if not request.repeatable:
            limit = max(min(limit, call.until - self._timing.clock()), _SHORTEST_TIMEOUT)
        left = LONGEST_WRITE if request.left is None else request.left()
        if left <= 0:
            raise LeaseLost(f"{request.what}: the hold on the Lease has ended, so the request is not sent")
        limit = min(limit, left, LONGEST_WRITE)
        return limit * _CONNECTING, limit * (1 - _CONNECTING)

    def _failed(self, call: _Call, answer: urllib3.BaseHTTPResponse) -> tuple[str, float | None]:
        """What an answer says, and the wait that it asks for, if the request may be sent again; else raises."""
        request, failure = call.request, responses.Failure.of(answer.status, answer.data)
        if not failure.is_transient:
            error = failure.error(request.what, patching=request.method == "PATCH")
            if isinstance(error, NotAuthorised):
                self._credentials.expire()
            if call.in_doubt and isinstance(error, TestFailed | Conflict | AlreadyExists):
                raise _lost(call, error) from error
            raise error
        if not request.repeatable and answer.status in responses.SERVER_ERRORS:
            call.in_doubt = True  # a timeout of etcd is a 500
        return str(failure), responses.retry_after(answer.headers)

    def _unanswered(self, request: Request, error: http.HTTPError) -> str:
        """What went wrong without an answer, if the request may be sent again; else raises what it ends with."""
        proxy = self._pool.proxy
        host = f"{self.server} through the proxy {proxy.scheme}://{proxy.netloc}" if proxy else self.server
        text = _explain(error)
        if isinstance(error, http.SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise Unreachable(f"cannot reach the API server {host}: its certificate is not trusted: {text}") from error
        if isinstance(error, http.LocationValueError):
            raise Unreachable(f"cannot reach the API server {host}: this is not an address: {text}") from error
        if not request.repeatable and not isinstance(error, NOT_SENT):
            raise LostReply(f"{request.what}: the request was sent and no answer came from {host}: {text}") from error
        return f"{'no answer from' if self._has_answered else 'cannot reach the API server'} {host}: {text}"

    def _may_repeat(self, call: _Call, wait: float) -> bool:
        least = min(_LEAST_TIME, call.longest / 4)
        left = min(call.until - self._timing.clock() - least, self._deadline.remaining())
        return call.attempts < (ATTEMPTS if self._has_answered else _FIRST_ATTEMPTS) and wait < left

    def _give_up(self, call: _Call, failure: str) -> NoReturn:
        tries = f"{call.attempts} attempts" if call.attempts > 1 else "1 attempt"
        what = f"{call.request.what}: " if self._has_answered else ""  # a wrong address is no matter of one request
        text = f"{what}{failure} (gave up after {tries})"
        raise LostReply(text) if call.in_doubt else Unreachable(text)


def delay(attempt: int, retry_after: float | None, fraction: float) -> float:
    """The wait after the failed ``attempt`` (from 1), in seconds.

    Exponential with full jitter, ``fraction`` being a random number in [0, 1), and never sooner than the server asked
    for.
    """
    jittered = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** (attempt - 1)) * fraction
    return jittered if retry_after is None else retry_after + min(jittered, _FIRST_WAIT)


def _lost(call: _Call, error: MigratorError) -> LostReply:
    return LostReply(f"{call.request.what}: an earlier attempt may have been applied ({error})")


def _explain(error: BaseException) -> str:
    """The innermost cause in its own words: urllib3 wraps it with addresses of Python objects.

    An error that is being handled while the request is sent is no cause of it, though Python chains it on.
    """
    cause = error
    while (inner := cause.__cause__ or cause.__context__) is not None and not isinstance(inner, MigratorError):
        cause = inner
    return str(getattr(cause, "strerror", None) or str(cause) or type(cause).__name__)[:200]
