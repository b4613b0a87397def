"""What a run does next: one table for a first run, a rerun after a crash, and a revert. Pure.

What is seen decides the goal: to go on, to go back, or to leave. Both decide the next step.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum, auto
from typing import Final


class Step(StrEnum):
    """One action of a run; each is safe to repeat."""

    LOOK = auto()  # read the sets
    WAIT = auto()  # for another holder, for pods to end, for sets to become idle
    TAKE_LEASE = auto()  # our own
    OPEN_RECORD = auto()
    STOP_OPERATOR = auto()  # after it is recorded
    TAKE_OPERATOR_LEASES = auto()
    FORWARD = auto()
    BACKWARD = auto()  # every set that the open run began, or those that are half-written
    RESTORE_OPERATOR = auto()
    CLOSE_RECORD = auto()  # a migration that is complete
    FORGET_RECORD = auto()  # of a run that has left nothing in the cluster
    END = auto()


class RecordState(StrEnum):
    """How far a run got; the record holds these words."""

    NONE = auto()
    CLOSED = "done"
    STOPPING = auto()  # nothing was written to a set
    WRITING = auto()
    REVERTING = auto()
    OTHER = auto()  # a run between other schemes that may have written


class Lease(StrEnum):
    """The state of one Lease; several Leases have the state of the worst one: lost, else held, else free."""

    FREE = auto()  # nobody's, expired, or parked
    HELD = auto()
    OURS = auto()
    LOST = auto()  # it was ours


class OperatorState(StrEnum):
    """What the operator may do; ``LOOSE`` is known only behind the fence, when all Leases are ours."""

    GONE = auto()  # no pod exists, and none can come
    ENDING = auto()  # it was stopped, and its pods still exist
    TARGET = auto()  # it is the target's; behind the fence it waits for the Lease
    LOOSE = auto()  # it is the target's, and does not wait for the Lease
    OTHER = auto()  # it is not the target's


class Phase(StrEnum):
    """When the sets were read: before anything, behind the fence, or after a write."""

    START = auto()
    FENCED = auto()
    WRITTEN = auto()


class Sets(StrEnum):
    """What is to be done to the selected sets."""

    UNREAD = auto()
    DONE = auto()
    PENDING = auto()
    REFUSED = auto()
    BUSY = auto()  # refused, but waiting may help


class Why(StrEnum):
    """Why a run gives up."""

    NONE = auto()
    REFUSED = auto()  # a guard, wrong flags, a missing right: known before a write
    FAILED = auto()  # repeated errors or rejections, a bug, a timeout
    CONFLICT = auto()  # somebody else writes to a set
    SKIP = auto()  # a conflict, and the user lets the other sets go on
    FOREIGN = auto()  # an operator that does not know what is written
    BUSY = auto()  # somebody else holds what we wait for
    STOPPED = auto()  # asked to end
    ENDS_HERE = auto()  # the Lease is lost, or the API server does not answer, or a second signal came


@dataclass(frozen=True, slots=True)
class Situation:
    """The input of :func:`decide`."""

    revert: bool = False
    record: RecordState = RecordState.NONE
    ours: Lease = Lease.FREE
    theirs: Lease = Lease.FREE
    operator: OperatorState = OperatorState.GONE
    stoppable: bool = True  # we may scale the operator to zero
    sets: Sets = Sets.UNREAD
    phase: Phase = Phase.START
    begun: bool = False  # a write of the open run is in the cluster, or may be
    whole: bool = True  # no set is half-written
    restore_due: bool = False  # we stopped the operator, and should restore it
    backable: bool = True  # no operator of the target runs, or ran before this run
    tired: bool = False  # giving up has failed too often, or takes too long
    why: Why = Why.NONE

    @property
    def open(self) -> bool:
        """Whether a recorded run did not end; this one counts too."""
        return self.record in OPEN

    @property
    def live(self) -> bool:
        """Whether an operator may act, or only our hold of its Leases prevents it."""
        return self.operator in {OperatorState.TARGET, OperatorState.LOOSE, OperatorState.OTHER}

    @property
    def fenced(self) -> bool:
        """Whether all Leases are ours."""
        return self.ours is Lease.OURS and self.theirs is Lease.OURS

    @property
    def foreign(self) -> bool:
        """Whether an operator does not wait for the Lease, or does not know the target's hashes."""
        return self.fenced and not self.revert and self.operator in {OperatorState.OTHER, OperatorState.LOOSE}

    @property
    def read(self) -> bool:
        """Whether the sets were read behind the fence."""
        return self.sets is not Sets.UNREAD and self.phase is not Phase.START

    @property
    def achieved(self) -> bool:
        """Whether every value is as it should be, even if operator and record are not in order yet."""
        against = self.foreign or self.why in {Why.ENDS_HERE, Why.FOREIGN}
        return self.sets is Sets.DONE and self.read and not against

    @property
    def finished(self) -> bool:
        """Whether record and operator are in order too: a late signal changes nothing then."""
        in_order = self.record is RecordState.NONE and not self.restore_due if self.revert else not self.open
        ours = Lease.LOST not in {self.ours, self.theirs}
        return self.sets is Sets.DONE and self.phase is Phase.WRITTEN and in_order and ours


class Goal(StrEnum):
    """The goal of a run."""

    ONWARD = auto()
    BACK = auto()
    LEAVE = auto()


OPEN: Final = frozenset({RecordState.STOPPING, RecordState.WRITING, RecordState.REVERTING})
_WROTE: Final = frozenset({RecordState.WRITING, RecordState.REVERTING})


def why(seen: Situation) -> Why:
    """The reason to give up: the one that is known already, or else one that follows from what is seen."""
    if Lease.LOST in {seen.ours, seen.theirs}:
        return Why.ENDS_HERE
    if seen.why is not Why.NONE:
        return seen.why
    if seen.foreign:
        return Why.FOREIGN
    may_go_back = seen.phase is Phase.START and seen.record in _WROTE and seen.backable and not seen.revert
    if seen.sets is Sets.REFUSED and not may_go_back:
        return Why.REFUSED
    if seen.live and not seen.stoppable and not seen.fenced and (seen.begun or seen.ours is Lease.OURS):
        return Why.FOREIGN
    return Why.NONE


def goal(seen: Situation) -> Goal:  # noqa: PLR0911 - a table
    """The goal that follows from what is seen."""
    reason = why(seen)
    if reason is Why.NONE:
        return Goal.ONWARD
    if seen.achieved and reason is not Why.ENDS_HERE and not seen.tired:
        return Goal.ONWARD
    if reason in {Why.ENDS_HERE, Why.STOPPED, Why.BUSY} or seen.revert or not seen.begun or seen.record not in _WROTE:
        return Goal.LEAVE
    if seen.tired or not seen.backable or seen.operator is OperatorState.LOOSE or seen.ours is Lease.HELD:
        return Goal.LEAVE
    if seen.live and not seen.stoppable and not seen.fenced:
        return Goal.LEAVE
    if reason is Why.SKIP and seen.read and seen.whole:
        return Goal.LEAVE
    return Goal.BACK


def decide(seen: Situation) -> Step:
    """The next step."""
    return {Goal.ONWARD: _onward, Goal.BACK: _back, Goal.LEAVE: _leave}[goal(seen)](seen)


def _onward(seen: Situation) -> Step:  # noqa: PLR0911 - a table
    if seen.sets is Sets.BUSY:
        return Step.WAIT
    if not seen.fenced:
        if seen.sets is Sets.UNREAD and (seen.ours is not Lease.OURS or not seen.open):
            return Step.LOOK
        if seen.sets is Sets.DONE and not _untidy(seen):
            return Step.END
    step = _fence(seen)
    if step is not None or not seen.read:
        return step or Step.LOOK
    if seen.sets is Sets.PENDING:
        return Step.FORWARD if seen.open else Step.OPEN_RECORD
    if seen.restore_due:
        return Step.RESTORE_OPERATOR
    if not seen.open:
        return Step.END
    return Step.FORGET_RECORD if seen.revert else Step.CLOSE_RECORD


def _untidy(seen: Situation) -> bool:
    """Whether a dead run has left a record to close or an operator to restore; that can wait while an operator runs."""
    return (seen.open or (seen.revert and seen.record is RecordState.CLOSED)) and not seen.live


def _fence(seen: Situation) -> Step | None:
    """The next step towards holding every Lease with no operator at work; ``None`` once that is so."""
    if seen.ours is not Lease.OURS:
        return Step.TAKE_LEASE if seen.ours is Lease.FREE else Step.WAIT
    if seen.fenced:
        return None if seen.open or seen.read else Step.OPEN_RECORD
    if not seen.open:
        return Step.OPEN_RECORD
    if seen.live:
        return Step.STOP_OPERATOR
    if seen.operator is OperatorState.ENDING or seen.theirs is Lease.HELD:
        return Step.WAIT
    return Step.TAKE_OPERATOR_LEASES


def _back(seen: Situation) -> Step:
    return _fence(seen) or (Step.BACKWARD if seen.read else Step.LOOK)


def _leave(seen: Situation) -> Step:
    if seen.sets is Sets.UNREAD and seen.phase is Phase.WRITTEN and not seen.tired:
        return Step.LOOK  # the exit code reports what is there now
    if seen.theirs is Lease.LOST or (seen.begun and not seen.restore_due) or not seen.open or seen.tired:
        return Step.END
    if seen.ours is not Lease.OURS:
        if seen.record is RecordState.STOPPING and seen.restore_due and why(seen) is Why.REFUSED:
            return Step.TAKE_LEASE if seen.ours is Lease.FREE else Step.WAIT
        return Step.END
    return Step.RESTORE_OPERATOR if seen.restore_due else Step.FORGET_RECORD


class Exit(IntEnum):
    """The exit codes of a run."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    LOST = 4
    REVERTED = 5
    STUCK = 6


def exit_code(reason: int, seen: Situation) -> int:
    """The exit code: the reason proposes it, and what was seen last may overrule it.

    If the sets could not be read, or a revert may have written, the run counts as begun.
    """
    if reason == Exit.DONE:
        return reason if seen.sets is Sets.DONE and not (seen.revert and seen.restore_due) else Exit.STUCK
    if reason == Exit.LOST and seen.why is Why.BUSY and seen.ours is Lease.HELD:
        return Exit.LOST  # what is there is the work of the run that holds the Lease
    if seen.begun or (seen.revert and seen.record is RecordState.REVERTING):
        return Exit.LOST if reason == Exit.LOST and seen.whole and seen.sets is not Sets.UNREAD else Exit.STUCK
    if reason == Exit.LOST and Lease.LOST in {seen.ours, seen.theirs}:
        return reason  # the run that has the Lease now restores the operator
    return Exit.STUCK if seen.restore_due or seen.record is RecordState.OTHER else reason


def parks(code: int, seen: Situation) -> bool:
    """Whether to park the operator's Leases at the end, so that every operator waits.

    The target's may act if nothing was written since the fence: it finds what it read before it was stopped.
    """
    if code == Exit.STUCK:
        return not (seen.operator is OperatorState.TARGET and seen.phase is Phase.FENCED)
    return seen.begun and code != Exit.DONE and seen.operator is not OperatorState.GONE
