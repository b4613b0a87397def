"""Why a run gives up, and the error that says so: its exit code is the cluster's state."""

from __future__ import annotations

from dataclasses import dataclass

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
from migrator.run.decisions import Exit, Lease, Op, Phase, Rec, Sets, Situation, Step, Why
from migrator.run.execute import TreeConflict
from migrator.run.observation import Control, SetsSeen, describe, refused


@dataclass(frozen=True, slots=True)
class Memory:
    """All that a run remembers beside its Leases.

    ``failed`` is the step that failed last, and how often in a row; ``waiting`` since when others are waited for;
    ``idle_until`` until when sets may become idle. ``why`` and ``cause`` are the reason to give up; ``went_back`` tells
    whether sets were brought back for it, ``tries`` how often sets were written to, and ``back_since`` from when on
    they are brought back. ``unseen`` is the step that was tried since the last observation.
    """

    failed: tuple[Step | None, int] = (None, 0)
    waiting: float | None = None
    idle_until: float = 0.0
    why: Why = Why.NONE
    cause: BaseException | None = None
    went_back: bool = False
    tries: int = 0
    backs: int = 0
    back_since: float | None = None
    phase: Phase = Phase.START
    sets: SetsSeen | None = None
    unseen: Step | None = None


def reason_of(error: BaseException) -> Why:
    """Why an error ends a run; ``NONE`` for one that may pass."""
    kinds: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], Why], ...] = (
        ((LeaseLost, KeyboardInterrupt), Why.ENDS_HERE),
        (ForeignOperator, Why.FOREIGN),
        (TreeConflict, Why.CONFLICT),
        ((Refused, UsageError, NotAuthorised), Why.REFUSED),
        (LostRace, Why.BUSY),
        (Interrupted, Why.STOPPED),
        ((ClusterError, LostReply), Why.NONE),
    )
    return next((reason for kind, reason in kinds if isinstance(error, kind)), Why.FAILED)


def cause_of(reason: Why, seen: Situation, control: Control, sets: SetsSeen | None) -> MigratorError:
    """The error that stands for a reason to give up that was seen."""
    installed = control.found.operator
    if reason is Why.FOREIGN and installed is not None:
        if not seen.fenced:
            return ForeignOperator(f"{describe(installed)} runs: scale it to zero, or run with --stop-operator")
        return ForeignOperator(
            f"{describe(installed)} is not the target's: somebody started an operator during the run (keep it at "
            "zero, or name the target's image with --target-image)"
            if seen.operator is not Op.LOOSE
            else f"{describe(installed)} acts without waiting for the Lease: stop it, then run again"
        )
    refusal = refused(sets.plan) if sets is not None else None
    if reason is Why.REFUSED and refusal is not None:
        return refusal
    if reason is Why.BUSY:
        return overdue("an operator runs", control)
    return LeaseLost("the Lease is not ours any more: nothing more may be written")


def overdue(what: str, control: Control) -> LostRace:
    """What we wait for, by name."""
    held = [lease for lease in (control.own, *control.theirs) if lease.standing is Lease.HELD]
    installed = control.found.operator
    if installed is not None and installed.pods and control.own.standing is Lease.OURS:
        return LostRace(f"{what}: operator pods still exist: {describe(installed)}; wait until they are gone")
    names = "; ".join(f"Lease {lease.name} is held by {lease.holder}" for lease in held)
    said = "another migration or an operator is running; stop it or wait for its end, then run again"
    return LostRace(f"{what}: {names}: {said}" if names else f"{what}; run again")


def reason_code(memory: Memory, seen: Situation) -> int:
    """The exit code that the reason chooses."""
    nothing_to_do = seen.sets is Sets.DONE and not seen.begun and not seen.open
    if memory.why is Why.NONE or seen.achieved or seen.finished or (memory.why is Why.STOPPED and nothing_to_do):
        return Exit.DONE
    if memory.why is Why.CONFLICT and seen.skip and seen.begun:
        return Exit.LOST
    if memory.went_back:
        return Exit.REVERTED
    code = memory.cause.exit_code if isinstance(memory.cause, MigratorError) else Exit.FAILED
    return code if code in {Exit.USAGE, Exit.REFUSED, Exit.LOST} else Exit.FAILED


def error_of(code: int, memory: Memory, seen: Situation) -> BaseException:
    """The error that says so; its class is the exit code's."""
    cause = memory.cause or ClusterError("the run ended")
    if isinstance(cause, KeyboardInterrupt | Interrupted):
        cause = Interrupted("interrupted before the first write; run again" if code == Exit.FAILED else "interrupted")
    earlier = seen.record is not Rec.NONE
    if code == Exit.REVERTED:
        stays = "what this run wrote was put back, and what an earlier run migrated stays so: do not start the old "
        return Reverted(f"{cause}; {f'{stays}operator' if earlier else 'everything was put back'}")
    if code == Exit.STUCK:
        return _stuck(cause, seen)
    if code == Exit.LOST and memory.why is Why.CONFLICT and seen.begun:
        return LostRace(
            f"{cause}; that set was brought back to the old hashes, and the other sets are migrated. Run again, or "
            "`run --revert`"
        )
    if isinstance(cause, MigratorError) and cause.exit_code == code:
        return LeaseLost(f"{cause}; run again") if isinstance(cause, LeaseLost) else cause
    return ClusterError(str(cause)) if isinstance(cause, MigratorError) else cause


def _stuck(cause: BaseException, seen: Situation) -> NotReverted:
    """The error that says what is left and what to do next."""
    if not seen.begun and not seen.restore_due:
        return NotReverted(f"{cause}; whether the record of the run is closed was not seen: run again")
    left = "what was written is still there" if seen.begun else "the operator is at zero and was not given back"
    if seen.begun and not seen.backable:
        start = "" if seen.live else " (start it; docs/upgrade.md has the command that gives up a parked Lease)"
        said = f"run again; if that is refused, let the target's operator run{start}, which knows what was written"
        return NotReverted(f"{cause}; {left}: {said}")
    return NotReverted(f"{cause}; {left}: keep the operator at zero, and run again, or `run --revert`")
