"""A clock that moves only on request, and the surroundings of a run that is under it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from migrator.cluster import Deadline
from migrator.run.context import Context

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
#: A log that nobody reads.
SILENT: Any = structlog.wrap_logger(
    structlog.ReturnLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
)


class Clock:
    """Monotonic seconds and wall time that move together, by sleeping or by hand."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.slept: list[float] = []
        self.on_sleep: list[Callable[[float], object]] = []

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def sleep(self, seconds: float) -> None:
        """Move on, and remember it."""
        self.slept.append(seconds)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move on; observers see it."""
        self.seconds += seconds
        for observer in list(self.on_sleep):
            observer(seconds)


def context_of(
    clock: Callable[[], float],
    now: Callable[[], datetime],
    identity: str = "we_1",
    *,
    sleep: Callable[[float], None] = time.sleep,
    log: Any = None,
    repeat: Callable[[Callable[[], object], float], Callable[[], None]] = lambda _call, _pause: lambda: None,
) -> Context:
    """Surroundings with these clocks; without ``log`` nothing is logged.

    One patch is under way at a time, so that a schedule gives one history.
    """
    return Context(
        clock=clock,
        now=now,
        sleep=sleep,
        rest=sleep,
        identity=identity,
        run_id=identity,
        log=SILENT if log is None else log,
        stop=threading.Event(),
        deadline=Deadline(clock),
        concurrency=1,
        repeat=repeat,
    )


def hurried(make: Callable[..., Context]) -> Callable[..., Context]:
    """What makes surroundings for the command line, with naps for sleeps: on a cluster in memory nothing is late."""

    def hurry(*arguments: Any) -> Context:
        made = make(*arguments)
        return replace(
            made, sleep=lambda seconds: made.stop.wait(seconds / 50), rest=lambda seconds: time.sleep(seconds / 50)
        )

    return hurry
