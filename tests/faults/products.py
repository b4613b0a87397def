"""A fault, or a whole second command, at each step of a first command: requests, renewals and sleeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from migrator.cluster import LONGEST_WRITE
from migrator.errors import (
    ApiError,
    Conflict,
    LostReply,
    NotAuthorised,
    NotFound,
    Rejected,
    Reverted,
    TestFailed,
    Unreachable,
)
from migrator.kinds import LEASES, POD_CLIQUE_SETS
from migrator.run.leases import PARKED
from testbed.trees import Object
from tests.faults import cluster
from tests.faults.invariants import none
from tests.faults.process import (
    DONE,
    FAILED,
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
from tests.faults.steps import perform, prepared, steps
from tests.faults.world import LONGER_THAN_A_LEASE, Command, World

#: GitOps gives the operator its replicas back.
RESTORED: Final = "replicas that come back"
_YEAR: Final = timedelta(days=365)
_SHORTER_THAN_A_HOLD: Final = 20.0
_LATE: Final = LONGEST_WRITE - 1  # sockets are set up so that nothing arrives later
_STEPS: Final = 2000  # more than any command takes that ends by itself


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens to a process at one step, of these ``kinds`` and that is ``of`` its sort.

    ``lasts``: at every step from then on.
    """

    name: str
    strike: Callable[[Process], object]
    kinds: frozenset[str] = frozenset({"read", "dry run", "write", "sleep"})
    moments: tuple[Moment, ...] = ("before",)
    lasts: bool = False
    of: Callable[[Step], bool] = lambda _step: True

    def may(self, step: Step) -> bool:
        return step.kind in self.kinds and step.moment in self.moments and self.of(step)


def _patches(step: Step) -> bool:
    """Only a patch has tests and a version."""
    return step.verb == "patch"


def _jump(by: timedelta) -> Callable[[Process], object]:
    def strike(process: Process) -> None:
        process.skew += by

    return strike


def _forget(process: Process) -> None:
    process.world.rewrite_record()


def _forget_and_end(process: Process) -> None:
    _forget(process)
    process.stop.set()


_REQUESTS: Final = frozenset({"read", "dry run", "write"})
_SENT: Final = frozenset({"write", "dry run"})
_ALL: Final = (
    Fault("a kill", Process.kill, moments=MOMENTS),
    Fault("a lost reply", raising(lambda: LostReply("no answer")), _SENT, MOMENTS),
    Fault("a write that arrives late", lambda process: process.hold_back(_LATE), frozenset({"write"})),
    Fault("an outage", raising(lambda: Unreachable("HTTP 503, 8 times")), _REQUESTS),
    Fault("a lasting outage", raising(lambda: Unreachable("HTTP 503, at every request")), _REQUESTS, lasts=True),
    Fault("a bug of the server", raising(lambda: ApiError("HTTP 400")), _REQUESTS),
    Fault("a missing right", raising(lambda: NotAuthorised("HTTP 403")), _REQUESTS),
    Fault("a void token", raising(lambda: NotAuthorised("HTTP 401")), _REQUESTS, lasts=True),
    Fault("a rejection", raising(lambda: Rejected("is invalid: spec: forbidden")), _SENT),
    Fault("a failed test", raising(lambda: TestFailed("a test does not hold")), _SENT, of=_patches),
    Fault("a conflict", raising(lambda: Conflict("modified")), frozenset({"write"}), of=_patches),
    Fault(
        "a missing kind",  # of sets: of other kinds an object may be absent, so that 404 is no fault
        raising(lambda: NotFound("no such resource")),
        frozenset({"read"}),
        of=lambda step: step.target == f"{POD_CLIQUE_SETS.plural}/",
    ),
    Fault("a bug of ours", raising(lambda: ValueError("timeout"))),
    Fault("too little memory", raising(MemoryError)),
    Fault("SIGTERM", lambda process: process.stop.set(), moments=MOMENTS),
    Fault("two signals", raising(KeyboardInterrupt), moments=MOMENTS),
    Fault("a short pause", lambda process: process.world.advance(_SHORTER_THAN_A_HOLD)),
    Fault("a long pause", lambda process: process.world.advance(LONGER_THAN_A_LEASE), moments=MOMENTS),
    Fault("a theft of the Leases", lambda process: process.world.steal_leases(), moments=MOMENTS),
    Fault(
        RESTORED,
        lambda process: process.world.deploy(replicas=1),
        frozenset({"write"}),
        MOMENTS,
        of=lambda step: step.is_grove,  # among these the operator is stopped
    ),
    Fault("a clock that jumps ahead", _jump(_YEAR)),
    Fault("a clock that jumps back", _jump(-_YEAR)),
    Fault("a deleted record", _forget, moments=MOMENTS),
    Fault("a deleted record, and SIGTERM", _forget_and_end, moments=MOMENTS),
)
FAULTS: Final = {fault.name: fault for fault in _ALL}


def able(command: Command, name: str) -> list[Step]:
    return [step for step in steps(command) if FAULTS[name].may(step)]


def strikes(fault: Fault, where: Step) -> At:
    """The fault, at that step; afterwards nothing may go on for ever."""

    def at(step: Step) -> None:
        assert step.number < _STEPS, "the command does not end"
        lasts = fault.lasts and step.number > where.number and fault.may(step)
        if lasts or (step.number, step.moment) == (where.number, where.moment):
            fault.strike(step.process)

    return at


def suffer(command: Command, name: str, where: Step) -> int:
    """One history: what the exit code says is so, and what comes next ends well: a rerun or a revert, by turns.

    A revert needs the record, so that one which was deleted is followed by a rerun. Returns that exit code.
    """
    world = prepared(command)
    forgets, second = "deleted" in name, (where.number + len(where.moment)) % 2 == 0
    world.keeps_lease = forgets and second
    process = world.start(at=strikes(FAULTS[name], where))
    ending = perform(process, command)
    none("lies", world.lies(ending, command))
    wrote_as_claimed(process, command, ending)
    if world.holder == PARKED:
        assert world.replicas == 0 if forgets else world.record, f"nothing says why operators are kept out: {ending}"
    put_right(world, command, back=second and not forgets)
    return ending.code


def wrote_as_claimed(process: Process, command: Command, ending: Ending) -> None:
    """Exit 1 to 3 says that nothing was written, or that all of it was restored; a verification writes its record."""
    if ending.code in {FAILED, NO_RECORD, REFUSED} and not isinstance(ending.error, Reverted):
        assert not process.wrote, str(ending)
    if command == "verify":
        assert {step.resource.plural for step in process.writes if step.resource} <= {LEASES.plural}


def put_right(world: World, command: Command, *, back: bool) -> None:
    """A rerun or a revert ends well, whatever happened before."""
    if command == "verify":
        world.start().verify(code=(DONE, NO_RECORD))
        assert world.grove() == world.after
        assert world.replicas == 1
        return
    if back:
        _revert(world)
    world.run()
    assert world.grove() == world.after
    assert world.replicas == 0
    assert world.holder != PARKED
    assert world.record
    if not back:
        _revert(world)


def _revert(world: World) -> None:
    """A revert ends well, and leaves no record; without one it asks for --from, unless every hash is old."""
    stopped = world.replicas == 0
    code = DONE if world.record or world.grove() == world.undone else NO_RECORD
    world.run(revert=True, code=code)
    back = world.undone if world.grove() != world.before else world.before
    assert world.grove() == back
    assert world.replicas == 1
    assert not world.record or not stopped


def _last_look(command: Command) -> int:
    """The last step at which the command reads anything but Leases; after it, it only releases them and reports."""
    looks = (step for step in steps(command) if step.kind == "read" and not step.target.startswith(LEASES.plural))
    return max(step.number for step in looks)


def overtaken(first: Command, second: Command, where: Step, *, alive: bool) -> None:
    """A whole second command while the first stands at one of its steps, or, ``alive``, renews its Leases there."""
    world = prepared(first)
    found: list[dict[cluster.Key, Object]] = []

    def sleep(seconds: float) -> None:
        world.advance(seconds)
        if alive:
            process.renew()

    def at(step: Step) -> None:
        assert step.number < _STEPS, "the command does not end"
        if (step.number, step.moment) != (where.number, where.moment) or found:
            return
        found.append(world.grove())
        other = world.start(sleep=sleep)
        ending = perform(other, second)
        if ending.code == DONE and second != "verify":
            assert world.grove() == (world.after if second == "forward" else world.undone), str(ending)
        wrote_as_claimed(other, second, ending)

    process = world.start(at=at)
    ending = perform(process, first)
    [seen] = found
    if ending.code == DONE and first != "verify":
        seen = seen if where.number > _last_look(first) else world.grove()
        assert seen == (world.after if first == "forward" else world.undone), str(ending)
    wrote_as_claimed(process, first, ending)
    assert ending.code in {DONE, FAILED, NO_RECORD, REFUSED, STUCK, 7}, str(ending)
    world.advance(LONGER_THAN_A_LEASE)
    world.run()
    assert world.grove() == world.after
    world.run(revert=True, source=cluster.SOURCE)
    assert world.grove() == world.undone
    assert world.replicas == (1 if world.image == cluster.OLD_IMAGE else 0)
