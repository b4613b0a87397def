"""What a run is given, and what it gives back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import structlog

from migrator.grove.model import Plan
from migrator.planning.images import is_target
from migrator.planning.options import Direction, PlanOptions, direction
from migrator.run.operator import Flags, Operator
from migrator.store import MAX_CONCURRENCY, Deadline


@dataclass(frozen=True, slots=True)
class Context:
    """Clock, sleep, identity and log, so that tests may give something else.

    ``clock`` is monotonic, in seconds; ``now`` is the wall clock in UTC, for records and for gang termination
    only. ``identity`` is unique to this process: it is what the Lease names. ``run_id`` is in every log line and
    in the record. ``stop`` is set by SIGTERM; ``sleep`` ends early then, and ``rest`` does not. ``deadline`` is the
    run's, shared with its store. ``namespace`` is our own pod's, if we are one. ``concurrency`` is how many patches may
    be under way. Without ``threads`` what goes on in the background is left in ``beats``, to be called.
    """

    clock: Callable[[], float]
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    rest: Callable[[float], None]
    identity: str
    run_id: str
    log: structlog.typing.FilteringBoundLogger
    stop: threading.Event
    deadline: Deadline
    concurrency: int = MAX_CONCURRENCY
    namespace: str | None = None
    threads: bool = True
    beats: list[Callable[[], object]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user asks of a run; times are in seconds."""

    plan: PlanOptions
    revert: bool = False
    stop_operator: bool = False
    wait_for_idle: float | None = None
    max_downtime: float | None = None
    on_conflict: Literal["stop", "skip"] = "stop"
    flags: Flags = field(default_factory=Flags)
    target_image: str | None = None
    target_digests: frozenset[str] = frozenset()
    interval: float = 1.0

    @property
    def way(self) -> Direction:
        """The schemes that are meant."""
        return direction(self.plan)

    def speaks(self, image: str) -> bool:
        """Whether an operator of this image is the target's."""
        targets = {self.way.target_of(scheme) for scheme in self.way.candidates}
        return any(is_target(image, target, self.target_image, self.target_digests) for target in targets)


@dataclass(slots=True)
class RunResult:
    """What a run did. ``seconds`` holds the time of each stage, ``patches`` what the server applied.

    ``operator`` is the installation as it was seen last; a dry run and a run on a file do not say.
    """

    plan: Plan
    patches: int = 0
    trees: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    operator_replicas: int | None = None
    operator_image: str | None = None
    operator: Operator | None = None
