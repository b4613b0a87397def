"""What a run is given from outside, so that tests may give it something else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from migrator.store import Deadline


@dataclass(frozen=True, slots=True)
class Context:
    """Clock, sleep, identity and log.

    ``clock`` is monotonic, in seconds; ``now`` is the wall clock in UTC, for records and for gang termination
    only. ``identity`` is unique to this process: it is what the Lease names. ``run_id`` is in every log line and
    in the record. ``stop`` is set by SIGTERM. ``deadline`` is the run's, shared with its store. ``namespace`` is
    our own pod's, if we are one.
    """

    clock: Callable[[], float]
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    identity: str
    run_id: str
    log: structlog.typing.FilteringBoundLogger
    stop: threading.Event
    deadline: Deadline
    workers: int = 8
    namespace: str | None = None

    def until(self, seconds: float) -> float:
        """The time of the clock in so many seconds, or the deadline if that is sooner."""
        return min(self.clock() + seconds, self.deadline.at)
