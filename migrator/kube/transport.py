"""Requests to the API server, over the connection pool of the official client.

The pool retries nothing. A read, and a write of a server-side dry run, is sent again after any failure that may pass. A
write is sent again only after an answer, or if it was not sent. A write whose answer was lost must be looked up, not
sent again.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, NamedTuple, NoReturn
from urllib.parse import urlencode

import urllib3
from urllib3 import exceptions as http
from urllib3.util import Url

from migrator import __version__, errors
from migrator.cluster import LONGEST_WRITE, Deadline
from migrator.kube import responses
from migrator.kube.credentials import Credentials, Read
from migrator.words import count

JSON: Final = "application/json"
_USER_AGENT: Final = f"grove-migrator/{__version__}"

#: How long the answer to one request may take as a whole, in seconds. A page of a list may take longer, and a request
#: for a Lease must end well within its duration: client-go halves its renew deadline of 10 s in the same way
#: (``tools/leaderelection/resourcelock/interface.go:NewFromKubeconfig``).
_LONGEST: Final = LONGEST_WRITE
LONGEST_PAGE: Final = 60.0
LONGEST_OF_LEASE: Final = 5.0

#: How often one request is sent at most with the same credentials. A server that has never answered is more likely a
#: wrong address than one that is just being restarted.
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

#: The part of a write's time in which a connection must be made; the server gets the rest.
_CONNECTING: Final = 1 / 3

#: Errors of urllib3 after which the server cannot have the request; after any other it may, TLS errors included:
#: with TLS 1.3 a server refuses a certificate after the request was sent.
NOT_SENT: Final = (http.ConnectTimeoutError, http.LocationValueError)


class Request(NamedTuple):
    """One request; ``what`` names it in messages.

    ``longest``: how many seconds the answer may take as a whole. ``left``: how many remain in which it may be under
    way; it may raise.
    """

    path: str
    what: str
    query: Mapping[str, object] = MappingProxyType({})
    method: str = "GET"
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    left: Callable[[], float] | None = None
    dry_run: bool = False
    longest: float = _LONGEST

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice does no harm."""
        return self.dry_run or self.method == "GET"

    def url(self, limit: float) -> str:
        """Path and query; a write asks the server to work on it no longer than ``limit`` seconds.

        Without that a patch may be applied 34 s later (measured; ``k8s.io/apiserver`` ``endpoints/handlers``).
        """
        limits = {} if self.method == "GET" else {"timeout": f"{limit:.3f}s"}
        query = urlencode({**self.query, **limits})
        return f"{self.path}?{query}" if query else self.path

    def held_for(self) -> float:
        """How many seconds a write may be under way; raises :class:`~migrator.errors.LeaseLost` if none is left."""
        left = LONGEST_WRITE if self.left is None else self.left()
        if left <= 0:
            raise errors.LeaseLost(f"{self.what}: the hold on the Lease has ended, so the request is not sent")
        return left

    def parts_of_body(self) -> Iterator[bytes]:
        """The body, asked for after the headers are sent, if the hold still lasts.

        The process may have stood still since the request was made (SIGSTOP, ``docker pause``). Standing still later
        does no harm: the server's time for a request begins with its headers.
        """
        self.held_for()
        yield self.body


class _Trouble(NamedTuple):
    """A failure of one attempt that may pass.

    ``asked``: the wait that the server asks for, in seconds. ``in_doubt``: a write may have been applied all the same.
    ``error``: what it is if it does not pass.
    """

    text: str
    asked: float | None = None
    in_doubt: bool = False
    error: errors.MigratorError | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """Clocks, chance and ``longest``, beyond which no request goes on, so that tests can replace them."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    longest: float = math.inf


class Transport:
    """Sends requests, from any number of threads; making it sends nothing yet."""

    def __init__(self, read: Read, deadline: Deadline | None, timing: Timing) -> None:
        self._timing = timing
        self._credentials = Credentials(read)
        self.server = self._credentials.server
        self._deadline = deadline or Deadline(timing.clock)
        self._has_answered = False  # whether there has ever been an answer
        self._permitted = set[str]()  # paths that could be read

    def send(self, request: Request, *, renew: bool = True) -> bytes:
        """The body of a successful answer.

        With ``renew``, credentials that are refused are read again, and the request is sent once more.
        Raises :class:`~migrator.errors.Unreachable` when time or attempts run out, another
        :class:`~migrator.errors.ClusterError` for a definite failure, and :class:`~migrator.errors.LostReply` for a
        write that may have been applied; and what the hold on the Lease raises.
        """
        longest = min(request.longest, self._timing.longest)
        patient = request.repeatable and self._has_answered
        until = self._timing.clock() + (BUDGET if patient else longest)
        attempt, in_doubt = 0, False
        while True:
            attempt += 1
            try:
                answer = self._attempt(request, longest, until, renew=renew)
                if isinstance(answer, bytes):
                    return answer
                in_doubt = in_doubt or answer.in_doubt
                wait = delay(attempt, answer.asked, self._timing.chance())
                most = ATTEMPTS if self._has_answered else _FIRST_ATTEMPTS
                left = min(until - self._timing.clock() - _LEAST_TIME, self._deadline.remaining())
                if attempt >= most or wait >= left:
                    self._give_up(request, attempt, answer)
            except errors.MigratorError as error:  # of this attempt, or because it was the last one
                if in_doubt and not isinstance(error, errors.NotFound):  # what is gone holds nothing that was written
                    raise errors.LostReply(f"{error}; an attempt may have been applied") from error
                raise
            self._timing.sleep(wait)

    def _attempt(self, request: Request, longest: float, until: float, *, renew: bool) -> bytes | _Trouble:
        """The body of a successful answer to one attempt, or the trouble; checks the hold on the Lease right before."""
        access = self._credentials.access
        headers = {"Accept": request.accept, "User-Agent": _USER_AGENT, **access.headers}
        if request.body:
            headers |= {"Content-Type": request.content_type, "Content-Length": str(len(request.body))}
        connecting, working = self._limits(request, longest, until)
        try:
            answer = access.pool.urlopen(
                request.method,
                self.server.rstrip("/") + request.url(working),
                body=request.parts_of_body() if request.body else None,
                headers=headers,
                timeout=urllib3.Timeout(connect=connecting, read=working),
                retries=False,
                redirect=False,
            )
        except http.HTTPError as error:
            return _Trouble(self._unanswered(request, error, access.pool.proxy))
        if answer.status in responses.OK:
            self._has_answered = True
            if request.method == "GET":
                self._permitted.add(request.path)
            body: bytes = answer.data
            return body
        failure = responses.Failure.of(answer.status, answer.data)
        if failure.is_page:  # whether there is an API server behind it nobody knows
            return _Trouble(f"{self.server}: {failure}")
        self._has_answered = True
        if failure.is_transient:
            doubtful = answer.status in responses.SERVER_ERRORS and not request.repeatable  # a timeout of etcd is a 500
            return _Trouble(str(failure), responses.retry_after(answer.headers), doubtful)
        if answer.status == HTTPStatus.UNAUTHORIZED and renew:
            self._credentials.renew(access, request.what)
            return self.send(request, renew=False)  # with all its time: a credential plugin may wait for a person
        where = f" at {self.server}" if answer.status == HTTPStatus.UNAUTHORIZED else ""
        definite = failure.error(f"{request.what}{where}", patching=request.method == "PATCH")
        if isinstance(definite, errors.Forbidden) and request.path in self._permitted and request.method == "GET":
            return _Trouble(str(failure), error=definite)  # an API server that has just started knows no roles yet
        raise definite

    def _limits(self, request: Request, longest: float, until: float) -> tuple[float, float]:
        """How long an attempt may take to connect, and how long the server then has, in seconds.

        Both together end before the hold on the Lease does, so that a slow handshake sends nothing late. All attempts
        of a write share the time of one. Raises :class:`~migrator.errors.LeaseLost` if no time is left.
        """
        if request.method == "GET":
            return min(longest, _LONGEST), longest
        left = request.held_for()
        limit = min(longest, max(until - self._timing.clock(), _LEAST_TIME), left)
        return limit * _CONNECTING, limit * (1 - _CONNECTING)

    def _unanswered(self, request: Request, error: http.HTTPError, proxy: Url | None) -> str:
        """What went wrong without an answer, if the request may be sent again; otherwise raises its error."""
        host = f"{self.server} through the proxy {proxy.scheme}://{proxy.netloc}" if proxy else self.server
        text = _explain(error)
        if isinstance(error, http.SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise errors.Unreachable(
                f"cannot reach the API server {host}: its certificate is not trusted: {text}. Compare the address and "
                "the certificate-authority of the kubeconfig with the server's"
            ) from error
        # urllib3 calls it a proxy's error too where a connection through one ends after the request was sent.
        cause = error.original_error if isinstance(error, http.ProxyError) else error
        if not request.repeatable and not isinstance(cause, NOT_SENT):
            raise errors.LostReply(
                f"{request.what}: the request was sent and no answer came from {host}: {text}"
            ) from error
        return f"{'no answer from' if self._has_answered else 'cannot reach the API server'} {host}: {text}"

    def _give_up(self, request: Request, attempts: int, trouble: _Trouble) -> NoReturn:
        if trouble.error is not None:
            self._permitted.clear()  # a role that was taken away is waited for once
            raise trouble.error
        what = f"{request.what}: " if self._has_answered else ""  # a wrong address is no matter of one request
        raise errors.Unreachable(f"{what}{trouble.text} (gave up after {count(attempts, 'attempt')})")


def delay(attempt: int, retry_after: float | None, fraction: float) -> float:
    """The wait after the failed ``attempt`` (from 1), in seconds.

    Exponential with full jitter, ``fraction`` being a random number in [0, 1), and never sooner than the server asked
    for.
    """
    jittered = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** (attempt - 1)) * fraction
    return jittered if retry_after is None else retry_after + min(jittered, _FIRST_WAIT)


def _explain(error: BaseException) -> str:
    """The innermost cause in its own words: urllib3 wraps it with addresses of Python objects.

    An error that is being handled while the request is sent is no cause of it, though Python chains it on.
    """
    cause = error
    while (inner := cause.__cause__ or cause.__context__) is not None and not isinstance(inner, errors.MigratorError):
        cause = inner
    return str(getattr(cause, "strerror", None) or str(cause) or type(cause).__name__)[:200]
