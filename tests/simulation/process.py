"""One migrator process: every request and sleep of it is a step, at which it may be killed, disturbed or overtaken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal

from migrator.errors import Interrupted, MigratorError
from migrator.planning.options import PlanOptions
from migrator.resources import LEASES, Resource
from migrator.run import loop, verify
from migrator.run.context import Context, RunOptions
from migrator.run.operator import OperatorFlags
from migrator.run.verify import VerifyOptions
from migrator.store import Deadline, DryRun
from tests.simulation import cluster
from tests.support.memory_store import MemoryStore, Request
from tests.support.small_cluster import context_of

if TYPE_CHECKING:
    from tests.simulation.world import World

Moment = Literal["before", "after"]
Kind = Literal["read", "dry run", "write", "sleep"]
MOMENTS: Final[tuple[Moment, Moment]] = ("before", "after")
KILLED: Final = -9
_LATENCY: Final = 0.3


class Killed(BaseException):
    """The process is dead: no code of it runs any more, handlers of errors least of all."""


@dataclass(frozen=True, slots=True)
class Write:
    """One write of a process, before or after the cluster applied it; ``number`` counts from 1."""

    number: int
    moment: Moment
    resource: Resource
    name: str
    subresource: str
    target: str
    process: Process


@dataclass(frozen=True, slots=True)
class Step:
    """One request or sleep of a process, reads, dry runs and renewals included; ``number`` counts from 1."""

    number: int
    moment: Moment
    kind: Kind
    verb: str
    target: str
    process: Process


Fault = Callable[[Write], None]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: its exit code, or ``KILLED``; and the error."""

    code: int
    error: Exception | None = None

    def __str__(self) -> str:
        return f"{self.code}: {type(self.error).__name__}: {self.error}"


class Process:
    """A migrator: its identity, its clock, its life.

    ``writes`` are those that it sent, ``applied`` those of them that the cluster applied. ``fault`` is called before
    and after each write, ``at`` before and after each step, and what they raise is what the process meets there.
    ``gate`` is where it lets others go first; ``sleep`` passes its time. ``skew`` is by how much its wall clock is
    wrong.
    """

    _numbers: Final = count(1)

    def __init__(
        self,
        world: World,
        *,
        fault: Fault | None = None,
        gate: Callable[[], None] = lambda: None,
        sleep: Callable[[float], None] | None = None,
        at: Callable[[Step], None] = lambda _step: None,
    ) -> None:
        self.world = world
        self.name = f"migrator_{next(self._numbers)}"
        self.skew = timedelta()
        self.stop = threading.Event()
        self.writes: list[Write] = []
        self.applied: list[Write] = []
        self._beats: list[Callable[[], object]] = []
        self._steps = count(1)
        self._dead = False
        self._fault = fault or (lambda _write: None)
        self._gate = gate
        self._sleep = sleep or world.advance
        self._at = at

    def run(
        self, *, source: str = "auto", target: str = cluster.TARGET, timeout: float | None = None, **more: Any
    ) -> Ending:
        """``grove-migrator run --stop-operator``, with these options."""
        of_plan = {name: more.pop(name) for name in ("allow", "skip_refused", "selection") if name in more}
        plan = PlanOptions(source=source, target=target, **of_plan)
        flags = OperatorFlags(lease_name=more.pop("lease_name", None))
        store = _Connection(self).in_dry_run(more.pop("dry_run", DryRun.NONE))
        options = RunOptions(plan=plan, stop_operator=more.pop("stop_operator", True), flags=flags, **more)
        return self._ended(lambda: loop.run(store, options, self._context(timeout)))

    def verify(self) -> Ending:
        """``grove-migrator verify --after-upgrade``."""
        options = VerifyOptions(PlanOptions(target=cluster.TARGET), after_upgrade=True)
        return self._ended(lambda: verify.verify(_Connection(self), options, self._context(None)))

    def kill(self) -> None:
        """End it here and now: what it would do next never happens."""
        self._dead = True
        raise Killed

    def renew(self) -> None:
        """Do what threads of its own do in the product."""
        for beat in self._beats:
            beat()

    @contextmanager
    def sends(self, request: Request, left: Callable[[], float]) -> Iterator[None]:
        """A request on its way; with nothing ``left`` of a hold the store sends no write."""
        self._live()
        if request.resource != LEASES:
            self.renew()
        self._gate()
        self._live()
        if request.writes and left() <= 0:
            yield
            return
        self.world.advance(_LATENCY)
        if not request.writes:
            target = f"{request.resource.plural}/{request.name}"
            with self._step("read" if request.reads else "dry run", request.verb, target):
                yield
            return
        number, target = len(self.writes) + 1, request.target
        write = Write(number, "before", request.resource, request.name, request.subresource, target, self)
        self.writes.append(write)
        self._fault(write)
        with self._step("write", request.verb, target):
            yield
            self.applied.append(write)
            self._fault(replace(write, moment="after"))

    def _rest(self, seconds: float) -> None:
        """Sleep; the Lease is renewed meanwhile."""
        self._live()
        with self._step("sleep", "sleep", ""):
            self._sleep(seconds)
            self._live()
        self.renew()

    @contextmanager
    def _step(self, kind: Kind, verb: str, target: str) -> Iterator[None]:
        step = Step(next(self._steps), "before", kind, verb, target, self)
        self._at(step)
        yield
        self._at(replace(step, moment="after"))

    def _live(self) -> None:
        if self._dead:
            raise Killed

    def _context(self, timeout: float | None) -> Context:
        return replace(
            context_of(
                clock=lambda: self.world.seconds,
                now=lambda: self.world.now() + self.skew,
                identity=self.name,
                sleep=lambda seconds: self._rest(0.0 if self.stop.is_set() else seconds),
            ),
            rest=self._rest,
            stop=self.stop,
            deadline=Deadline(lambda: self.world.seconds, timeout),
            beats=self._beats,
        )

    def _ended(self, command: Callable[[], object]) -> Ending:
        try:
            command()
        except MigratorError as error:
            return Ending(error.exit_code, error)
        except Exception as error:  # noqa: BLE001 - as the command line does: a bug is 1
            return Ending(1, error)
        except KeyboardInterrupt as error:
            return Ending(1, Interrupted(str(error)))
        except Killed:
            return Ending(KILLED)
        return Ending(0)


class _Connection(MemoryStore):
    """A process's view of the cluster, of which each request is a step of the process."""

    def __init__(self, process: Process) -> None:
        vars(self).update(vars(process.world.store))
        self.process = process

    @contextmanager
    def _sent(self, request: Request) -> Iterator[Request]:
        with self.process.sends(request, self._left), super()._sent(request) as sent:
            yield sent


def do_at(number: int, moment: Moment, action: Callable[[Write], object]) -> Fault:
    """Let somebody else act at the process's write of that number."""

    def strike(write: Write) -> None:
        if write.number == number and write.moment == moment:
            action(write)

    return strike


def kill_at(number: int, moment: Moment) -> Fault:
    """Kill the process at its write of that number."""
    return do_at(number, moment, lambda write: write.process.kill())


def raise_at(number: int, moment: Moment, error: Callable[[], BaseException]) -> Fault:
    """Let a write end in an error: before, it was not applied; after, it was."""

    def strike(_write: Write) -> None:
        raise error()

    return do_at(number, moment, strike)
