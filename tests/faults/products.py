"""A fault, or a whole second command, at each step of a first command: requests, renewals and sleeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from migrator.errors import Reverted
from migrator.resources import LEASES
from testbed.trees import Object
from tests.faults import cluster
from tests.faults.process import (
    DONE,
    ERRORS,
    FAILED,
    KILLED,
    MOMENTS,
    NO_RECORD,
    REFUSED,
    STUCK,
    At,
    Ending,
    Moment,
    Process,
    Step,
    raising,
)
from tests.faults.steps import Command, perform, prepared, steps
from tests.faults.world import LONGER_THAN_A_LEASE, World

_YEAR: Final = timedelta(days=365)
_SHORTER_THAN_A_HOLD: Final = 20.0
_STEPS: Final = 2000  # more than any command takes that ends by itself


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens to a process at one step; ``kinds`` are the steps to which it can.

    ``lasts``: at every step from then on.
    """

    name: str
    strike: Callable[[Process], object]
    kinds: frozenset[str] = frozenset({"read", "dry run", "write", "sleep"})
    moments: tuple[Moment, ...] = ("before",)
    lasts: bool = False

    def may(self, step: Step) -> bool:
        """Whether it can happen there: only a patch fails by a test, only what writes is rejected."""
        patched = self.name in {"a failed test", "a conflict"} and step.verb != "patch"
        return step.kind in self.kinds and step.moment in self.moments and not patched


def _error(name: str, kinds: frozenset[str], *moments: Moment, lasts: bool = False) -> Fault:
    return Fault(name, raising(ERRORS[name]), kinds, moments or ("before",), lasts)


def _jump(by: timedelta) -> Callable[[Process], object]:
    def strike(process: Process) -> None:
        process.skew += by

    return strike


_REQUESTS: Final = frozenset({"read", "dry run", "write"})
_SENT: Final = frozenset({"write", "dry run"})
_ALL: Final = (
    Fault("a kill", Process.kill, moments=MOMENTS),
    _error("a lost reply", _SENT, *MOMENTS),
    _error("an outage", _REQUESTS),
    _error("a lasting outage", _REQUESTS, lasts=True),
    _error("a bug of the server", _REQUESTS),
    _error("a missing right", _REQUESTS),
    _error("a void token", _REQUESTS, lasts=True),
    _error("a rejection", _SENT),
    _error("a failed test", _SENT),
    _error("a conflict", frozenset({"write"})),
    Fault("a bug of ours", raising(lambda: ValueError("timeout"))),
    Fault("too little memory", raising(MemoryError)),
    Fault("SIGTERM", lambda process: process.stop.set(), moments=MOMENTS),
    Fault("two signals", raising(KeyboardInterrupt), moments=MOMENTS),
    Fault("a short pause", lambda process: process.world.advance(_SHORTER_THAN_A_HOLD)),
    Fault("a long pause", lambda process: process.world.advance(LONGER_THAN_A_LEASE)),
    Fault("a pause in which others take the Leases", lambda process: process.world.steal_leases()),
    Fault("a clock that jumps ahead", _jump(_YEAR)),
    Fault("a clock that jumps back", _jump(-_YEAR)),
)
FAULTS: Final = {fault.name: fault for fault in _ALL}


def chosen(command: Command, name: str, *, every: int = 1, first: int = 0) -> Iterator[tuple[int, Moment]]:
    """At which steps it happens: at every one, or at one of so many."""
    able = [(step.number, step.moment) for step in steps(command) if FAULTS[name].may(step)]
    yield from able[first % every :: every]


def strikes(fault: Fault, number: int, moment: Moment) -> At:
    """The fault, at that step; afterwards nothing may go on for ever."""

    def at(step: Step) -> None:
        assert step.number < _STEPS, "the command does not end"
        if (step.number, step.moment) == (number, moment) or (fault.lasts and step.number > number and fault.may(step)):
            fault.strike(step.process)

    return at


def suffer(command: Command, name: str, number: int, moment: Moment, *, back: bool = False) -> int:
    """One history: what the exit code says is so, and what comes next ends well: a rerun, or with ``back`` a revert.

    Returns that exit code.
    """
    world = prepared(command)
    process = world.start(at=strikes(FAULTS[name], number, moment))
    ending = perform(process, command)
    truthful(world, process, command, ending)
    world.free_leases()
    put_right(world, command, back=back)
    return ending.code


def truthful(world: World, process: Process, command: Command, ending: Ending) -> None:
    """What the exit code of the only command that ran says is so."""
    found = world.grove()
    if command == "forward":
        assert world.lies(ending) == []
    elif command == "revert":
        assert world.wrongs == []
        if ending.code == DONE:
            assert (found == world.before, world.replicas) == (True, 1), str(ending)
        elif ending.code in {FAILED, NO_RECORD, REFUSED}:
            assert (found == world.after, world.replicas) == (True, 0), str(ending)
        else:
            assert ending.code in {STUCK, KILLED}, str(ending)
    else:
        assert (found == world.after, world.replicas, process.wrote) == (True, 1, False), str(ending)
        assert {step.resource.plural for step in process.writes} <= {LEASES.plural, "configmaps"}
    wrote_as_claimed(process, ending)


def wrote_as_claimed(process: Process, ending: Ending) -> None:
    """Exit 1 to 3 says that nothing was written, or that all of it was restored."""
    if ending.code in {FAILED, NO_RECORD, REFUSED} and not isinstance(ending.error, Reverted):
        assert not process.wrote, str(ending)


def put_right(world: World, command: Command, *, back: bool) -> None:
    """A rerun or a revert ends well, whatever happened before."""
    if command == "verify":
        ending = world.start().verify()
        assert ending.code in {DONE, NO_RECORD}, str(ending)
        assert (world.grove() == world.after, world.replicas) == (True, 1)
        return
    if back:
        _revert(world)
    ending = world.run()
    assert (ending.code, world.grove() == world.after, world.replicas) == (DONE, True, 0), str(ending)
    assert "grove-migrator-run" in world.records
    if not back:
        _revert(world)


def _revert(world: World) -> None:
    """A revert ends well; without a record there is nothing to undo, and after it there is none."""
    stopped = world.replicas == 0
    code = DONE if "grove-migrator-run" in world.records else NO_RECORD
    ending = world.run(revert=True)
    assert (ending.code, world.grove() == world.before, world.replicas) == (code, True, 1), str(ending)
    assert world.records == [] or not stopped


def _last_look(command: Command) -> int:
    """The last step at which the command reads anything but Leases; after it, it only releases them and reports."""
    looks = (step for step in steps(command) if step.kind == "read" and not step.target.startswith(LEASES.plural))
    return max(step.number for step in looks)


def overtaken(first: Command, second: Command, number: int, moment: Moment, *, alive: bool) -> None:
    """A whole second command while the first stands at one of its steps, or, ``alive``, renews its Leases there."""
    world = prepared(first)
    met: list[Ending] = []
    found: list[dict[cluster.Key, Object]] = []

    def at(step: Step) -> None:
        assert step.number < _STEPS, "the command does not end"
        if (step.number, step.moment) != (number, moment) or met:
            return
        met.append(Ending(KILLED))
        found.append(world.grove())

        def sleep(seconds: float) -> None:
            world.advance(seconds)
            if alive:
                step.process.renew()

        other = world.start(sleep=sleep)
        met[:] = [perform(other, second)]
        if met[0].code == DONE and second != "verify":
            assert world.grove() == (world.after if second == "forward" else world.before), str(met[0])
        wrote_as_claimed(other, met[0])

    process = world.start(at=at)
    ending = perform(process, first)
    assert met
    assert world.wrongs == [], (str(ending), str(met[0]))
    if ending.code == DONE and first != "verify":
        seen = found[0] if number > _last_look(first) else world.grove()
        assert seen == (world.after if first == "forward" else world.before), (str(ending), str(met[0]))
    wrote_as_claimed(process, ending)
    assert ending.code in {DONE, FAILED, NO_RECORD, REFUSED, STUCK, 7}, str(ending)
    world.advance(LONGER_THAN_A_LEASE)
    last = world.run()
    assert (last.code, world.grove() == world.after) == (DONE, True), str(last)
    recorded = bool(world.records)
    back = world.run(revert=True, source=cluster.SOURCE)
    assert back.code == DONE, str(back)
    if recorded:  # without a record nobody knows which values were the target's before
        assert world.grove() == world.before
    assert world.replicas == (1 if world.image == cluster.OLD_IMAGE else 0)
