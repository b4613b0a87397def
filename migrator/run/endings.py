"""Why a run gives up, and the error with which it ends; its exit code reports the cluster's state."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from migrator import errors
from migrator.run.decisions import Exit, Lease, OperatorState, RecordState, Sets, Situation, Step, Why
from migrator.run.execute import TreeConflict
from migrator.run.observation import Observation, refused

_REASONS: Final[tuple[tuple[tuple[type[BaseException], ...], Why], ...]] = (
    ((errors.LeaseLost, KeyboardInterrupt), Why.ENDS_HERE),
    ((errors.ForeignOperator,), Why.FOREIGN),
    ((errors.Refused, errors.UsageError, errors.NotAuthorised), Why.REFUSED),
    ((errors.LostRace,), Why.BUSY),
    ((errors.Interrupted,), Why.STOPPED),
    ((errors.ClusterError, errors.LostReply), Why.NONE),
)


@dataclass(slots=True)
class Memory:
    """All that a run remembers beside its Leases and what it saw last; times are those of the context's clock."""

    idle_until: float  # sets may become idle until then
    failed: Step | None = None  # the step that failed last
    times: int = 0  # in a row
    waiting: float | None = None  # since when others are waited for
    back_since: float | None = None  # since when sets are brought back
    tried: Counter[Step] = field(default_factory=Counter)  # of the steps that write to sets
    unseen: Step | None = None  # the step since the last observation
    cause: BaseException | None = None  # of giving up


def reason_of(error: BaseException, *, skips: bool) -> Why:
    """Why an error ends a run; ``NONE`` for one that may pass. ``skips``: a conflict stops its own set only."""
    if isinstance(error, TreeConflict):
        return Why.SKIP if skips else Why.CONFLICT
    return next((reason for kinds, reason in _REASONS if isinstance(error, kinds)), Why.FAILED)


def cause_of(reason: Why, seen: Observation) -> errors.MigratorError:
    """The error for a reason to give up that was observed, not raised."""
    installed, refusal = seen.operator, refused(seen.plan)
    if reason is Why.REFUSED and refusal is not None:
        return refusal
    if reason is Why.FOREIGN and installed is not None:
        does = (
            "is not the target's: somebody started an operator during the run (keep it at zero, or name the target's "
            "image with --target-image)"
        )
        if not seen.fenced:
            does = "runs: scale it to zero, or run with --stop-operator"
        elif seen.operator_state is OperatorState.LOOSE:
            does = "acts without waiting for the Lease: stop it, then run again"
        return errors.ForeignOperator(f"{installed.evidence} {does}")
    return errors.LeaseLost("the Lease is not ours any more: nothing more may be written")


def overdue(what: str, seen: Observation) -> errors.LostRace:
    """The error that names what was waited for."""
    if seen.operator is not None and seen.operator.pods and seen.own.standing is Lease.OURS:
        return errors.LostRace(f"{what}: {seen.operator.evidence} still exists; wait until it is gone")
    held = [lease for lease in (seen.own, *seen.theirs) if lease.standing is Lease.HELD]
    names = "; ".join(f"Lease {lease.name} is held by {lease.holder}" for lease in held)
    if not names:
        return errors.LostRace(f"{what}; run again")
    advice = "another migration or an operator is running; stop it or wait for its end, then run again"
    return errors.LostRace(f"{what}: {names}: {advice}")


def reason_code(memory: Memory, seen: Situation) -> int:
    """The exit code that follows from the reason."""
    nothing_to_do = seen.sets is Sets.DONE and not seen.begun and not seen.open
    if seen.why is Why.NONE or seen.achieved or seen.finished or (seen.why is Why.STOPPED and nothing_to_do):
        return Exit.DONE
    if seen.why is Why.SKIP and seen.begun:
        return Exit.LOST
    if memory.tried[Step.BACKWARD]:
        return Exit.REVERTED
    code = memory.cause.exit_code if isinstance(memory.cause, errors.MigratorError) else Exit.FAILED
    return code if code in {Exit.USAGE, Exit.REFUSED, Exit.LOST} else Exit.FAILED


def error_of(code: int, cause: BaseException | None, seen: Situation) -> BaseException:
    """The error with this exit code; its message has the cause and the next step."""
    cause = cause or errors.ClusterError("the run ended")
    if isinstance(cause, KeyboardInterrupt | errors.Interrupted):
        cause = errors.Interrupted(
            "interrupted before the first write; run again" if code == Exit.FAILED else "interrupted"
        )
    if code == Exit.REVERTED:
        result = "everything was put back"
        if seen.record is not RecordState.NONE:
            result = (
                "the writes of this run were put back, and those of an earlier run stay: do not start the old operator"
            )
        return errors.Reverted(f"{cause}; {result}")
    if code == Exit.STUCK:
        return errors.NotReverted(f"{cause}; {_left(seen)}")
    if code == Exit.LOST and seen.why is Why.SKIP and seen.begun:
        return errors.LostRace(
            f"{cause}; that set was brought back to the old hashes, and the other sets are migrated. Run again, or "
            "`run --revert`"
        )
    if isinstance(cause, errors.MigratorError) and cause.exit_code == code:
        return errors.LeaseLost(f"{cause}; run again") if isinstance(cause, errors.LeaseLost) else cause
    return errors.ClusterError(str(cause)) if isinstance(cause, errors.MigratorError) else cause


def _left(seen: Situation) -> str:
    """What is left, and what to do next."""
    if not seen.begun and not seen.restore_due:
        return "it is not known whether the record of the run is closed: run again"
    unrestored = "the operator is at zero and its replicas were not restored"
    left = "what was written is still there" if seen.begun else unrestored
    if seen.begun and not seen.backable:
        start = "" if seen.live else " (start it; docs/upgrade.md has the command that gives up a parked Lease)"
        return f"{left}: run again; if that is refused, let the target's operator run{start}: it knows what was written"
    return f"{left}: keep the operator at zero, and run again, or `run --revert`"
