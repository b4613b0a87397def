"""Why a run gives up, and the error that says so: its exit code is the cluster's state."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from migrator.errors import (
    ClusterError,
    ForeignOperator,
    Interrupted,
    LeaseLost,
    LostRace,
    LostReply,
    MigratorError,
    NotAuthorised,
    NotReverted,
    Refused,
    Reverted,
    UsageError,
)
from migrator.run.decisions import Exit, Lease, Op, Rec, Sets, Situation, Step, Why
from migrator.run.execute import TreeConflict
from migrator.run.observation import Observation, refused
from migrator.run.operator import Operator

_REASONS: Final[tuple[tuple[tuple[type[BaseException], ...], Why], ...]] = (
    ((LeaseLost, KeyboardInterrupt), Why.ENDS_HERE),
    ((ForeignOperator,), Why.FOREIGN),
    ((Refused, UsageError, NotAuthorised), Why.REFUSED),
    ((LostRace,), Why.BUSY),
    ((Interrupted,), Why.STOPPED),
    ((ClusterError, LostReply), Why.NONE),
)


@dataclass(slots=True)
class Memory:
    """All that a run remembers beside its Leases and what it saw last; moments are the clock's."""

    idle_until: float  # sets may become idle until then
    failed: Step | None = None  # the step that failed last
    times: int = 0  # in a row
    waiting: float | None = None  # since when others are waited for
    back_since: float | None = None  # since when sets are brought back
    tried: Counter[Step] = field(default_factory=Counter)  # the steps that write to sets
    unseen: Step | None = None  # tried since the last observation
    cause: BaseException | None = None  # of giving up


def reason_of(error: BaseException, *, skips: bool) -> Why:
    """Why an error ends a run; ``NONE`` for one that may pass. ``skips``: a conflict stops its own set only."""
    if isinstance(error, TreeConflict):
        return Why.SKIP if skips else Why.CONFLICT
    return next((reason for kinds, reason in _REASONS if isinstance(error, kinds)), Why.FAILED)


def cause_of(reason: Why, seen: Observation) -> MigratorError:
    """The error that stands for a reason to give up that was seen."""
    installed, refusal = seen.operator, refused(seen.plan)
    if reason is Why.REFUSED and refusal is not None:
        return refusal
    if reason is Why.FOREIGN and installed is not None:
        said = (
            "is not the target's: somebody started an operator during the run (keep it at zero, or name the target's "
            "image with --target-image)"
        )
        if not seen.fenced:
            said = "runs: scale it to zero, or run with --stop-operator"
        elif seen.op is Op.LOOSE:
            said = "acts without waiting for the Lease: stop it, then run again"
        return ForeignOperator(f"{_described(installed)} {said}")
    return LeaseLost("the Lease is not ours any more: nothing more may be written")


def overdue(what: str, seen: Observation) -> LostRace:
    """What we wait for, by name."""
    if seen.operator is not None and seen.operator.pods and seen.own.standing is Lease.OURS:
        return LostRace(f"{what}: operator pods still exist: {_described(seen.operator)}; wait until they are gone")
    held = [lease for lease in (seen.own, *seen.theirs) if lease.standing is Lease.HELD]
    names = "; ".join(f"Lease {lease.name} is held by {lease.holder}" for lease in held)
    said = "another migration or an operator is running; stop it or wait for its end, then run again"
    return LostRace(f"{what}: {names}: {said}" if names else f"{what}; run again")


def _described(installed: Operator) -> str:
    if installed.pods:
        return f"operator pod {installed.pods[0].ref} ({installed.pods[0].image})"
    return f"{installed} with replicas {installed.replicas} and image {installed.image}"


def reason_code(memory: Memory, seen: Situation) -> int:
    """The exit code that the reason chooses."""
    nothing_to_do = seen.sets is Sets.DONE and not seen.begun and not seen.open
    if seen.why is Why.NONE or seen.achieved or seen.finished or (seen.why is Why.STOPPED and nothing_to_do):
        return Exit.DONE
    if seen.why is Why.SKIP and seen.begun:
        return Exit.LOST
    if memory.tried[Step.BACKWARD]:
        return Exit.REVERTED
    code = memory.cause.exit_code if isinstance(memory.cause, MigratorError) else Exit.FAILED
    return code if code in {Exit.USAGE, Exit.REFUSED, Exit.LOST} else Exit.FAILED


def error_of(code: int, cause: BaseException | None, seen: Situation) -> BaseException:
    """The error that says so; its class is the exit code's."""
    cause = cause or ClusterError("the run ended")
    if isinstance(cause, KeyboardInterrupt | Interrupted):
        cause = Interrupted("interrupted before the first write; run again" if code == Exit.FAILED else "interrupted")
    if code == Exit.REVERTED:
        said = "everything was put back"
        if seen.record is not Rec.NONE:
            said = "what this run wrote was put back, and what an earlier run migrated stays so: do not start the old "
            said += "operator"
        return Reverted(f"{cause}; {said}")
    if code == Exit.STUCK:
        return NotReverted(f"{cause}; {_left(seen)}")
    if code == Exit.LOST and seen.why is Why.SKIP and seen.begun:
        return LostRace(
            f"{cause}; that set was brought back to the old hashes, and the other sets are migrated. Run again, or "
            "`run --revert`"
        )
    if isinstance(cause, MigratorError) and cause.exit_code == code:
        return LeaseLost(f"{cause}; run again") if isinstance(cause, LeaseLost) else cause
    return ClusterError(str(cause)) if isinstance(cause, MigratorError) else cause


def _left(seen: Situation) -> str:
    """What is left, and what to do next."""
    if not seen.begun and not seen.restore_due:
        return "whether the record of the run is closed was not seen: run again"
    left = "what was written is still there" if seen.begun else "the operator is at zero and was not given back"
    if seen.begun and not seen.backable:
        start = "" if seen.live else " (start it; docs/upgrade.md has the command that gives up a parked Lease)"
        return (
            f"{left}: run again; if that is refused, let the target's operator run{start}, which knows what was written"
        )
    return f"{left}: keep the operator at zero, and run again, or `run --revert`"
