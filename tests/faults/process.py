"""One migrator process: each request and sleep is a step, at which it can be killed, disturbed or overtaken."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal

from migrator.cluster import Cluster, Deadline
from migrator.errors import Forbidden, Interrupted, LostReply, MigratorError, VerificationFailed
from migrator.kinds import LEASES, Resource
from migrator.run import migration, verify
from migrator.run.context import Context, RunOptions
from migrator.run.verify import VerifyOptions
from tests.faults import cluster
from tests.faults.invariants import none
from tests.support.builders import options_of
from tests.support.clock import context_of
from tests.support.memory_store import MemoryCluster, Request

if TYPE_CHECKING:
    from tests.faults.world import World

Moment = Literal["before", "after"]
Kind = Literal["read", "dry run", "write", "sleep"]
MOMENTS: Final[tuple[Moment, Moment]] = ("before", "after")
KILLED: Final = -9
#: What the exit codes claim, see :meth:`tests.faults.world.World.lies`.
DONE: Final = 0
FAILED: Final = 1
NO_RECORD: Final = 2
REFUSED: Final = 3
STUCK: Final = 6


class Killed(BaseException):
    """The process is dead: no more code of it runs, not even handlers of errors."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request or sleep of a process, before or after it happened; ``number`` counts from 1.

    ``write`` counts what changes something, also from 1; it is 0 for reads, dry runs and sleeps.
    """

    number: int
    moment: Moment
    kind: Kind
    verb: str
    target: str
    process: Process
    write: int = 0
    resource: Resource | None = None
    name: str = ""
    subresource: str = ""

    @property
    def is_grove(self) -> bool:
        return self.write > 0 and self.resource in cluster.RESOURCES.values()


At = Callable[[Step], None]
#: How a command must end: with this code, with one of these, or anyhow.
Codes = int | tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: its exit code, or ``KILLED``; and the error."""

    code: int
    error: Exception | None = None

    def __str__(self) -> str:
        return f"{self.code}: {type(self.error).__name__}: {self.error}"


class Process:
    """A migrator: its identity, its clock, its life.

    ``writes`` are those that it sent, ``applied`` those of them that the cluster applied. ``at`` is called before and
    after each step; the process meets the error that it raises. ``sleep`` passes its time. ``skew`` is by how much its
    wall clock is wrong; ``log`` is what it logs to, if anything. ``namespace`` is that of its pod, if it runs in one.
    """

    _numbers: Final = count(1)

    def __init__(
        self,
        world: World,
        *,
        sleep: Callable[[float], None] | None = None,
        at: At | None = None,
        log: Any = None,
    ) -> None:
        self.world = world
        self.name = f"migrator_{next(self._numbers)}"
        self.skew = timedelta()
        self.namespace: str | None = None
        self.stop = threading.Event()
        self.writes: list[Step] = []
        self.applied: list[Step] = []
        self._renewals: list[Callable[[], object]] = []
        self._steps = count(1)
        self._dead = False
        self._delay: float | None = None
        self._sleep = sleep or world.advance
        self._at = at or (lambda _step: None)
        self._log = log

    def run(
        self,
        *,
        code: Codes = DONE,
        source: str = "auto",
        target: str = cluster.TARGET,
        timeout: float | None = None,
        **more: Any,
    ) -> Ending:
        """``grove-migrator run --stop-operator`` with these options, which must end with ``code``."""
        of_plan = {name: more.pop(name) for name in ("allow", "skip_refused") if name in more}
        plan = options_of(source=source, target=target, **of_plan)
        store: Cluster = _Connection(self)
        store = store.in_dry_run() if more.pop("dry_run", False) else store
        options = RunOptions(plan=plan, stop_operator=more.pop("stop_operator", True), **more)
        return self._ended(lambda: migration.run(store, options, self._context(timeout)), code)

    def verify(self, *, code: Codes = DONE) -> Ending:
        """``grove-migrator verify --after-upgrade``."""
        options = VerifyOptions(options_of(target=cluster.TARGET), after_upgrade=True)

        def judge() -> None:
            if problems := verify.verify(_Connection(self), options, self._context(None)).problems:
                raise VerificationFailed("; ".join(one.message for one in problems))

        return self._ended(judge, code)

    @property
    def wrote(self) -> int:
        """How many of its writes to objects of Grove's the cluster applied."""
        return sum(step.is_grove for step in self.applied)

    def kill(self) -> None:
        """End it here and now: what it would do next never happens."""
        self._dead = True
        raise Killed

    def hold_back(self, seconds: float) -> None:
        """Let the write that is about to be sent get no reply, and arrive only after so many seconds."""
        self._delay = seconds

    def _send_later(self, request: Request, step: Step, seconds: float) -> None:
        """The network has it, and the process has given it up."""

        def arrive() -> None:
            with suppress(MigratorError):  # as the API server would answer, to nobody
                cluster_of = self.world.store
                self.world.checker.remember(step)
                if request.verb == "create":
                    cluster_of.create(request.resource, request.namespace, dict(request.body))
                else:
                    where = (request.resource, request.namespace, request.name, request.ops)
                    cluster_of.patch(*where, subresource=request.subresource)
                self.applied.append(step)
                self.world.checker.after_write(step)

        self.world.later(seconds, arrive)
        raise LostReply("no answer")

    def renew(self) -> None:
        """Do what threads of its own do in the product."""
        for renewal in tuple(self._renewals):
            renewal()

    def _repeat(self, call: Callable[[], object], pause: float) -> Callable[[], None]:
        """Calls at requests and sleeps, instead of a thread, so that a schedule gives one history."""
        due = self.world.seconds + pause

        def beat() -> None:
            nonlocal due
            if self.world.seconds >= due:
                due = math.inf  # one at a time: it sends requests, too
                call()
                due = self.world.seconds + pause

        self._renewals.append(beat)
        return lambda: self._renewals.remove(beat)

    @contextmanager
    def sends(self, request: Request, left: Callable[[], float]) -> Iterator[None]:
        """A request on its way; with nothing ``left`` of a hold the store sends no write."""
        self._live()
        if request.resource != LEASES:
            self.renew()
        if request.writes and left() <= 0:
            yield
            return
        self.world.advance(self.world.latency)
        if request.writes:
            of_write = (len(self.writes) + 1, request.resource, request.name, request.subresource)
            step = Step(next(self._steps), "before", "write", request.verb, request.target, self, *of_write)
            self.writes.append(step)
            self.world.checker.before_write(step)
        else:
            kind: Kind = "read" if request.reads else "dry run"
            target = f"{request.resource.plural}/{request.name}" if request.reads else request.target
            step = Step(next(self._steps), "before", kind, request.verb, target, self)
        self._meet(step)
        self.world.checker.remember(step)
        if step.write and self._delay is not None:
            seconds, self._delay = self._delay, None
            self._send_later(request, step, seconds)
        yield
        if step.write:
            self.applied.append(step)
            self.world.checker.after_write(step)
        self._meet(replace(step, moment="after"))

    def _rest(self, seconds: float) -> None:
        """Sleep; the Lease is renewed meanwhile."""
        self._live()
        step = Step(next(self._steps), "before", "sleep", "sleep", "", self)
        self._meet(step)
        self._sleep(seconds)
        self._live()
        self._meet(replace(step, moment="after"))
        self.renew()

    def _meet(self, step: Step) -> None:
        """Let others act at a step; what they assert is kept, because to a run an ``AssertionError`` is any bug."""
        try:
            self._at(step)
        except AssertionError as error:
            self.world.checker.wrongs.append(str(error))
            raise

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
                log=self._log,
            ),
            rest=self._rest,
            namespace=self.namespace,
            stop=self.stop,
            deadline=Deadline(lambda: self.world.seconds, timeout),
            repeat=self._repeat,
        )

    def _ended(self, command: Callable[[], object], code: Codes) -> Ending:
        ending = Ending(DONE)
        try:
            command()
        except MigratorError as error:
            ending = Ending(error.exit_code, error)
        except Exception as error:  # noqa: BLE001 - as the command line does: a bug is 1
            ending = Ending(FAILED, error)
        except KeyboardInterrupt as error:
            ending = Ending(FAILED, Interrupted(str(error)))
        except Killed:
            ending = Ending(KILLED)
        none("wrong", self.world.checker.wrongs)
        assert code is None or ending.code in (code if isinstance(code, tuple) else (code,)), str(ending)
        return ending


class _Connection(MemoryCluster):
    """A process's view of the cluster, of which each request is a step of the process."""

    def __init__(self, process: Process) -> None:
        vars(self).update(vars(process.world.store))
        self.process = process

    @contextmanager
    def _sent(self, request: Request) -> Iterator[Request]:
        with self.process.sends(request, self._left), super()._sent(request) as sent:
            yield sent


def when(chosen: Callable[[Step], bool], action: Callable[[Step], object], *, times: int = 10**6) -> At:
    """Act at the first steps that are chosen."""
    met: list[Step] = []

    def at(step: Step) -> None:
        if len(met) < times and chosen(step):
            met.append(step)
            action(step)

    return at


def forbidding(chosen: Callable[[Step], bool]) -> At:
    """Lack the permission for the steps that are chosen."""
    return when(lambda step: step.moment == "before" and chosen(step), raising(lambda: Forbidden("HTTP 403")))


def do_at(number: int, moment: Moment, action: Callable[[Step], object]) -> At:
    """Let somebody else act at the process's write of that number."""
    return when(lambda step: (step.write, step.moment) == (number, moment), action)


def kill(step: Step) -> None:
    step.process.kill()


def kill_at(number: int, moment: Moment) -> At:
    """Kill the process at its write of that number."""
    return do_at(number, moment, kill)


#: Kills a run as soon as it has scaled the operator.
stopped: Final = when(lambda step: (step.subresource, step.moment) == ("scale", "after"), kill)


def raising(error: Callable[[], BaseException]) -> Callable[[object], None]:
    """What lets a step end in an error, and a write unapplied unless it comes after that."""

    def strike(_: object) -> None:
        raise error()

    return strike
