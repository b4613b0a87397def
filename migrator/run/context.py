"""What a run is given, and what it gives back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import structlog

from migrator.planning.images import is_target
from migrator.planning.model import Plan
from migrator.planning.options import Direction, PlanOptions, direction
from migrator.run.operator import Operator, OperatorFlags
from migrator.store import CONCURRENCY, Deadline


@dataclass(frozen=True, slots=True)
class Context:
    """Clock, sleep, identity and log, so that tests can replace them."""

    clock: Callable[[], float]  # monotonic seconds
    now: Callable[[], datetime]  # the wall clock in UTC, for records and gang termination only
    sleep: Callable[[float], None]  # ends early when `stop` is set
    rest: Callable[[float], None]  # does not end early
    identity: str  # of this process alone; in the Lease
    run_id: str  # in every log line and in the record
    log: structlog.typing.FilteringBoundLogger
    stop: threading.Event  # set by SIGTERM
    deadline: Deadline  # the run's, shared with its store
    concurrency: int = CONCURRENCY  # patches under way
    namespace: str | None = None  # of our pod, if we run in one
    threads: bool = True
    beats: list[Callable[[], object]] = field(default_factory=list)  # to be called often where there are no threads


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user asks of a run; times are in seconds."""

    plan: PlanOptions
    revert: bool = False
    stop_operator: bool = False
    wait_for_idle: float | None = None
    max_downtime: float | None = None
    on_conflict: Literal["stop", "skip"] = "stop"
    flags: OperatorFlags = field(default_factory=OperatorFlags)
    target_image: str | None = None
    target_digests: frozenset[str] = frozenset()
    interval: float = 1.0

    @property
    def way(self) -> Direction:
        """The schemes of the plan."""
        return direction(self.plan)

    def speaks(self, image: str) -> bool:
        """Whether an operator of this image is the target's."""
        targets = {self.way.target_of(scheme) for scheme in self.way.candidates}
        return any(is_target(image, target, self.target_image, self.target_digests) for target in targets)


@dataclass(slots=True)
class RunResult:
    """What a run did; only a run that writes to a cluster knows its operator."""

    plan: Plan
    patches: int = 0  # that the server applied
    trees: int = 0
    seconds: dict[str, float] = field(default_factory=dict)  # of each stage
    operator_replicas: int | None = None
    operator_image: str | None = None
    operator: Operator | None = None  # as it was seen last
