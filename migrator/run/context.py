"""What a run is given, and what it gives back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from migrator.cluster import Deadline
from migrator.errors import Interrupted
from migrator.grove.objects import Ref
from migrator.planning.model import Plan, Severity
from migrator.planning.options import PlanOptions
from migrator.releases import table
from migrator.run.operator import Operator, OperatorFlags

if TYPE_CHECKING:
    import structlog  # `--help` imports this module, and no logger

#: How long, in seconds, to wait for a call under way to return.
_LONGEST_CALL: Final = 5.0


def periodically(call: Callable[[], object], pause: float) -> Callable[[], None]:
    """Call something in a thread every ``pause`` seconds; the returned function ends this after a call under way."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(pause):
            call()

    def end() -> None:
        stop.set()
        thread.join(_LONGEST_CALL)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return end


def unseen(_stage: str, _done: int, _total: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, slots=True)
class Context:
    """Clock, sleep, identity and log, so that tests can replace them.

    ``repeat`` calls a function every so many seconds until the function that it returned is called. ``progress`` is
    told the stage, and how many of how many patches are sent; it must not raise.
    """

    clock: Callable[[], float]  # monotonic seconds
    now: Callable[[], datetime]  # the wall clock in UTC, for records, for the times in Leases, and for gang termination
    sleep: Callable[[float], object]  # ends early when `stop` is set
    rest: Callable[[float], None]  # does not end early
    identity: str  # of this process alone; in the Lease
    run_id: str  # in every log line and in the record
    log: structlog.typing.FilteringBoundLogger
    stop: threading.Event  # set by SIGTERM, SIGINT or SIGHUP
    deadline: Deadline  # the run's, shared with its cluster
    concurrency: int  # patches under way
    namespace: str | None = None  # of our pod, if we run in one
    repeat: Callable[[Callable[[], object], float], Callable[[], None]] = periodically
    progress: Callable[[str, int, int], None] = unseen

    def stage(self, name: str) -> None:
        """Log that a stage begins, and show it."""
        self.log.info("stage", stage=name)
        self.progress(name, 0, 0)

    def is_over(self) -> bool:
        """Whether nothing more is to be begun: a signal has come, or --timeout has expired."""
        return self.stop.is_set() or self.deadline.remaining() <= 0

    def heed_signals(self) -> None:
        """Raise :class:`~migrator.errors.Interrupted` if the run is to end."""
        if self.is_over():
            asked = self.stop.is_set()
            raise Interrupted("the run was asked to end" if asked else "--timeout has expired: give a longer one")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user asks of a run; ``wait`` is for how many seconds an update in flight is waited for."""

    plan: PlanOptions
    revert: bool = False
    stop_operator: bool = False
    wait: float = 0.0
    flags: OperatorFlags = field(default_factory=OperatorFlags)
    target_image: str | None = None

    def is_target(self, image: str) -> bool:
        """Whether an operator of this image is the target's."""
        return table.is_target(image, self.plan.target.scheme, self.target_image)

    def is_upgraded(self, image: str) -> bool:
        """Whether it is also no older release than the one that the user named, which may use the same hashes."""
        installed, named = table.release_in(image), self.plan.target.release
        is_older = installed is not None and named is not None and table.is_before(installed.name, named.name)
        return self.is_target(image) and not is_older


@dataclass(slots=True)
class RunResult:
    """What a run did; a dry run does not know its operator."""

    plan: Plan  # as it was before the first patch
    patches: int = 0  # that the server may have applied
    sets: set[Ref] = field(default_factory=set)  # that are written whole
    operator: Operator | None = None  # as it was seen last
    reverted_to: str = ""  # the image of the old operator, by the record that a revert has closed


def log_findings(plan: Plan, log: structlog.typing.FilteringBoundLogger) -> None:
    """Log one line for each finding."""
    for finding in plan.all_findings:
        refuses = finding.severity is Severity.REFUSAL
        (log.error if refuses else log.warning)(
            "guard_refusal" if refuses else "guard_warning",
            code=finding.code,
            object=str(finding.ref) if finding.ref else None,
            field=finding.field,
            message=finding.message,
            **({"remedy": finding.remedy} if finding.remedy else {}),
        )
