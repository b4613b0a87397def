"""The cluster in memory with a few words for what these tests do to it, and a clock that moves only on request."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from migrator.errors import LostReply
from migrator.exact_json import JSONObject
from migrator.resources import Resource
from migrator.run.context import Context
from migrator.store import Deadline
from tests.support.memory_store import MemoryStore, Request

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Clock:
    """Monotonic seconds and wall time that move together, by sleeping or by hand."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.slept: list[float] = []
        self.on_sleep: list[Callable[[float], object]] = []

    def __call__(self) -> float:
        """Monotonic seconds."""
        return self.seconds

    def now(self) -> datetime:
        """Wall time."""
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
    threads: bool = False,
) -> Context:
    """Surroundings with these clocks; without ``log`` nothing is logged."""
    silent = structlog.wrap_logger(
        structlog.ReturnLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
    )
    return Context(
        clock=clock,
        now=now,
        sleep=sleep,
        rest=sleep,
        identity=identity,
        run_id=identity,
        log=silent if log is None else log,
        stop=threading.Event(),
        deadline=Deadline(clock),
        threads=threads,
    )


class SmallCluster(MemoryStore):
    """A cluster of objects that are given with their resource instead of apiVersion and kind."""

    def __init__(self, *objects: tuple[Resource, JSONObject]) -> None:
        super().__init__()
        for resource, body in objects:
            self.add(resource, body)

    def add(self, resource: Resource, body: JSONObject) -> None:
        """Store an object as somebody else would have written it."""
        self.put({**body, "apiVersion": resource.api_version, "kind": resource.kind})

    def names(self, resource: Resource) -> list[str]:
        """The names of all objects of a kind."""
        return sorted(body["metadata"]["name"] for body in self.everything(resource))

    def lose_reply(self, *, verb: str, times: int = 1) -> None:
        """Apply the next requests of this verb, and let their answers get lost."""
        self.inject(lambda: LostReply("no reply"), when=lambda r: r.verb == verb, times=times, applied=True)

    def fail(self, error: Callable[[], BaseException], *, verb: str, times: int = 1) -> None:
        """Answer the next requests of this verb with an error, and apply nothing."""
        self.inject(error, when=lambda r: r.verb == verb, times=times)

    def meanwhile(self, action: Callable[[], object], *, verb: str, times: int = 1) -> None:
        """Let somebody else act just before the next requests of this verb arrive."""
        left = [times]

        def hook(request: Request) -> None:
            if request.verb == verb and left[0] > 0:
                left[0] -= 1
                action()

        self.before.append(hook)
