"""How often, how long and how fast requests are sent."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Final

from migrator.store import FIRST_CONCURRENCY

#: How often one request is sent at most.
ATTEMPTS: Final = 8

#: How long a read is tried for, in seconds, all attempts together. A write is tried no longer than one request may
#: take, because the next holder of our Lease waits that long for writes still under way.
BUDGET: Final = 60.0

#: The wait after the first attempt, and the longest one, in seconds.
_BASE: Final = 0.25
_CAP: Final = 8.0

#: How much longer than in the best round an answer may take, before that counts as growing latency.
_NEARLY: Final = 1.25
_ROUNDING: Final = 1e-9


def delay(attempt: int, retry_after: float | None, fraction: float) -> float:
    """The wait after the failed ``attempt`` (from 1), in seconds.

    Exponential with full jitter, ``fraction`` being a random number in [0, 1), and never sooner than the server asked
    for.
    """
    jittered = min(_CAP, _BASE * 2.0 ** (attempt - 1)) * fraction
    return jittered if retry_after is None else retry_after + min(jittered, _BASE)


class RateLimit:
    """A token bucket that threads share: ``qps`` patches per second, after a burst of one second's patches."""

    def __init__(self, qps: float, *, clock: Callable[[], float]) -> None:
        self._qps = qps
        self._burst = max(1.0, qps)
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens = self._burst
        self._filled = clock()

    def take(self) -> float:
        """Count a request that may be sent now, and return zero; else the seconds after which to ask again."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._qps)
            self._filled = now
            if self._tokens < 1.0 - _ROUNDING:
                return (1.0 - self._tokens) / self._qps
            self._tokens -= 1.0
            return 0.0


class ConcurrencyWindow:
    """How many requests may be under way: more while latency does not grow with them, fewer when the server throttles.

    It begins with FIRST_CONCURRENCY or ``most``, whichever is less. A round is as many answers as it allows; after each
    it grows by one if the mean latency is about that of the best round. If not, it shrinks by one, but not below its
    first size. A throttled request halves it; others that were sent before do not halve it again.
    """

    def __init__(self, most: int) -> None:
        self.size = self._first = max(1, min(FIRST_CONCURRENCY, most))
        self._most = most
        self._best = math.inf
        self._seconds = 0.0
        self._answers = 0
        self._halved = -math.inf

    def answered(self, seconds: float) -> None:
        """Record an answer, which came after this many seconds."""
        self._seconds += seconds
        self._answers += 1
        if self._answers < self.size:
            return
        mean = self._seconds / self._answers
        self._seconds, self._answers = 0.0, 0
        self._best = min(self._best, mean)
        if self.size < self._first or mean <= self._best * _NEARLY:
            self.size = min(self.size + 1, max(1, self._most))
        elif self.size > self._first:
            self.size -= 1

    def throttled(self, sent: float, now: float) -> None:
        """Record that the server throttled a request; ``sent`` and ``now`` are times of the clock."""
        if sent < self._halved:
            return
        self.size = max(1, self.size // 2)
        self._halved = now
        self._seconds, self._answers = 0.0, 0
