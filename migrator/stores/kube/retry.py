"""How often, how long and how fast requests are sent: policy, deadline and rate.

Pure but for the clocks, sleeps and random numbers that are passed in; :mod:`migrator.stores.kube.store` decides what
may be sent again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retry:
    """How often one request is sent, and how long to wait in between; times in seconds.

    ``budget`` is how long a read is tried for, all attempts together. A write is tried no longer than one request
    may take, because whoever takes our Lease over waits that long for writes still under way.
    """

    attempts: int = 8
    base: float = 0.25
    cap: float = 8.0
    budget: float = 60.0

    def delay(self, attempt: int, retry_after: float | None, fraction: float) -> float:
        """The wait after the failed ``attempt`` (from 1).

        Exponential with full jitter, ``fraction`` being a random number in [0, 1), and never sooner than the server
        asked for.
        """
        jittered = min(self.cap, self.base * 2.0 ** (attempt - 1)) * fraction
        return jittered if retry_after is None else retry_after + min(jittered, self.base)


class RateLimit:
    """A token bucket that threads share: ``qps`` requests per second, after a burst of a second's worth."""

    def __init__(self, qps: float, *, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._qps = qps
        self._burst = max(1.0, qps)
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._tokens = self._burst
        self._filled = clock()

    def take(self) -> None:
        """Return when one more request may be sent; threads are served in the order of their calls."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._qps) - 1.0
            self._filled = now
            wait = -self._tokens / self._qps
        if wait > 0:
            self._sleep(wait)
