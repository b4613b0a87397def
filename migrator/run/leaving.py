"""The way out of a run that failed: look, and leave the cluster in an order that the exit code names.

Nothing of the run is there: the operator is restored and the record removed. Something may be: the operator's Lease
stays parked (exit code 6). Or it must go back, because it can never be finished (3). The error says first what
happened, then what the cluster is like now and what is next, and never more than was seen.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from migrator import errors
from migrator.errors import ForeignOperator, HalfWay, LeaseLost, MigratorError
from migrator.grove.places import stored_hashes
from migrator.planning.detect import Verdict
from migrator.planning.model import pending
from migrator.releases.table import accepts
from migrator.run.leases import LOCKED_OUT
from migrator.run.record import OperatorBefore, Record, State
from migrator.run.seen import Observation
from migrator.run.session import Session
from migrator.run.write import SetConflict

Step = Callable[[Session], None]

#: Seconds: to leave, and to go back.
_TIME_TO_LEAVE: Final = 60.0
_TIME_TO_GO_BACK: Final = 600.0

#: What exit code 6 says if only a Lease in another namespace, where anybody may write one, shows an earlier run, or if
#: nothing could be read.
_UNSEEN: Final = "If a run of yours may have left sets half-way, keep the operator at zero replicas."
UNREAD: Final = f"{_UNSEEN} {errors.AGAIN}"


def leave(run: Session, error: BaseException, close: Step, revert: Step) -> BaseException | None:
    """Look, and leave the cluster in order; returns the error that is true, or ``None`` if all is done.

    ``close`` ends a run whose values are all as asked, and ``revert`` writes and reads back those of a revert.
    """
    try:
        run.context.deadline.extend(_TIME_TO_LEAVE)
        if _has_begun(run):
            run.log.warning("ending_run", error=errors.said(error))
        if isinstance(error, LeaseLost):  # nothing more may be written, whatever is there
            return half_way(run, error, is_read=False)
        run.look()
        return _in_order(run, error, close, revert)
    except (Exception, KeyboardInterrupt) as late:  # noqa: BLE001 - what cannot be read is not known
        with suppress(Exception, KeyboardInterrupt):
            if _has_begun(run):
                run.log.warning("cleanup_failed", error=errors.said(late))
        if isinstance(late, errors.LeaseHeld):  # it waited in vain to close: nothing was sent since the last reading
            return half_way(run, late)
        if isinstance(late, LeaseLost):  # another run may write by now, and what operators wait for may still be parked
            return half_way(run, error, is_read=False)
        return _unknown(run, late if isinstance(late, HalfWay) else error)


def _has_begun(run: Session) -> bool:
    """Whether there may be something to put in order, of this run or of an earlier one."""
    return run.seen.open_record is not None or run.wrote


def _in_order(run: Session, error: BaseException, close: Step, revert: Step) -> BaseException | None:
    """Put the cluster in order as far as that is ours to do; returns the error that is true."""
    record = run.seen.open_record
    if not run.leases.held:
        is_under_way = record is not None and isinstance(error, errors.LeaseHeld)
        return _unchanged(error) if _is_untouched(run) and not is_under_way else half_way(run, error)
    if _complete(run, error):
        close(run)
        return None
    if not (run.seen.dirty or _left_something(run)):
        # An earlier run to the same target that ended well stays recorded.
        earlier = run.record_before if record is not None and record.repeats else None
        ended = earlier and replace(earlier, state=State.DONE, stopped=None, revert=False)
        was = record.stopped if record is not None else None
        return _give_back(run, error, was, ended) or _unchanged(error)
    if record is None or not record.scheme or not _must_go_back(run, error, record):
        return half_way(run, error)
    return _go_back(run, error, record, revert)


def _go_back(run: Session, error: BaseException, record: Record, revert: Step) -> MigratorError:
    """Restore every old hash, and the operator if it knows them; returns the error that is true."""
    scheme = record.scheme
    run.context.deadline.extend(_TIME_TO_GO_BACK)
    run.go_back(scheme)
    # An operator that outlives the wait though its Lease is parked elects no leader: to wait again does not help.
    outlives = run.seen.parked and isinstance(error, errors.LeaseHeld)
    if not (run.fenced or outlives):
        run.read()  # the record needs the plan of a revert
        run.fence()
        record = run.seen.open_record or record  # with the operator that this has stopped
    revert(run)
    run.let_pods_end()  # before the last look, because somebody may install another operator meanwhile
    run.look_at_operators()
    if run.seen.wrong_operator:  # it waits, and would replace every pod
        return half_way(run, error)
    was, old = record.stopped, record.operator
    is_old = old is not None and was is not None and old.image == was.image and not run.seen.dirty
    knows = was is not None and (is_old or accepts(was.image, {scheme}))
    return _give_back(run, error, was if knows else None, None) or _reverted(run, error, scheme)


def _give_back(run: Session, error: BaseException, was: OperatorBefore | None, record: Record | None) -> HalfWay | None:
    """Start the operator that was stopped, and replace the open record; returns an error if it is another one now."""
    if was is not None and not run.restore(was):
        now = "No stored hash is changed, but no operator runs, and what is installed is not the one that was stopped"
        return half_way(run, error, f"{now} ({was.image}). Start the old operator, or run again")
    run.let_operators_in()
    if run.seen.open_record is not None:
        run.save(record)
    return None


def _reverted(run: Session, error: BaseException, scheme: str) -> errors.Reverted:
    """The error of a run that has gone back to this scheme: whether the operator runs, or is to be started."""
    installed = run.seen.operator
    up = installed is not None and installed.replicas
    state = f", and {installed} has its replicas again" if up else f": you can start an operator of {scheme}"
    return errors.Reverted(f"{errors.said(error)}. Every old hash was restored{state}")


def _is_untouched(run: Session) -> bool:
    """Whether no run has written, this one included, and none keeps the operator out, by all that was seen."""
    return not (run.wrote or run.seen.dirty or _keeps_operator_out(run))


def _keeps_operator_out(run: Session) -> bool:
    """Whether this run or a dead one has stopped the operator or parked its Lease, and that still holds."""
    record, installed = run.seen.open_record, run.seen.operator
    if run.options.revert and record is not None and run.seen.last_run is None:
        return bool(run.stops)  # its target is another one, and the refusal names the command for that
    at_zero = installed is None or not installed.replicas
    was_stopped = record is not None and record.stopped is not None and at_zero
    parked = run.seen.parked or run.leases.keeps_operators_out
    return bool(run.stops) or parked or was_stopped


def _left_something(run: Session) -> bool:
    """Whether a patch of this run has taken effect, or may have: not every planned change is still to be made."""
    present = {change for set_plan in run.seen.plan.set_plans for change in set_plan.changes}
    return run.wrote and any(not present.issuperset(p.changes) for p in pending(run.result.plan))


def _complete(run: Session, error: BaseException) -> bool:
    """Whether every value is as asked, so that only record and operator are to be put in order."""
    plan, begun = run.seen.plan, run.seen.open_record or run.seen.dirty or run.wrote
    return bool(begun) and not (pending(plan) or plan.refusals) and not isinstance(error, ForeignOperator | SetConflict)


def _must_go_back(run: Session, error: BaseException, record: Record) -> bool:
    """Whether no rerun could finish: a lasting rejection, a bug, or an operator that could not be kept out."""
    if run.options.revert or run.seen.other_migration or _beside_target(run, record):
        return False
    if isinstance(error, ForeignOperator | errors.LeaseHeld):
        return run.seen.acts
    lasting = isinstance(error, errors.Rejected) or type(error) is errors.ApiError
    return lasting or (isinstance(error, Exception) and not isinstance(error, MigratorError))


def _beside_target(run: Session, record: Record | None) -> bool:
    """Whether an operator of the target ran before this run or runs now: then it relies on the target's hashes."""
    installed = run.seen.operator
    stopped = (record.operator, record.stopped) if record is not None else ()
    images = {was.image for was in stopped if was is not None}
    images |= {*(installed.images if installed is not None else ()), *run.seen.found.others.values()}
    return any(map(run.options.is_target, images))


def half_way(run: Session, error: BaseException, next_step: str = "", *, is_read: bool = True) -> HalfWay:
    """The error for what is half-way, or not known; the record keeps what happened.

    Without ``is_read`` the sets may have changed since they were read.
    """
    if isinstance(error, HalfWay):
        return error
    record = run.seen.open_record
    true = HalfWay(f"{errors.said(error)}. {next_step or _advice(run, error, is_read=is_read)}")
    true.details = getattr(error, "details", {})
    if record is not None and run.leases.held:
        with suppress(Exception, KeyboardInterrupt):  # the note is for people, and the error is true without it
            run.save(replace(record, error=errors.said(error)))
    return true


def _advice(run: Session, error: BaseException, *, is_read: bool) -> str:
    """What the cluster is like, and the one thing that is next: never more than was seen."""
    record, installed = run.seen.open_record, run.seen.operator
    if run.closed and run.leases.held and not isinstance(error, ForeignOperator):
        return LOCKED_OUT
    if _names_next_command(run, error):
        is_here = record or run.seen.parked or run.seen.has_new_hashes or not isinstance(error, errors.Refused)
        return f"{errors.MAY_DIFFER} {errors.STAY_AT_ZERO}" if is_here else _UNSEEN
    reverts = run.options.revert or (record is not None and record.revert)
    if not reverts and _beside_target(run, record):
        start = "start it"
        if installed is not None and installed.deployment and run.options.is_target(installed.image):
            start = f"`{installed.start_command}`"
        return (
            "Remove the cause, and run again. Only if you cannot, let the target's operator run, which recreates the "
            f"pods of sets that are not migrated: {start}, and delete its Lease if that is parked"
        )
    if not run.has_read_record:
        return UNREAD
    again = "Run it without `--dry-run`" if run.is_rehearsal else errors.AGAIN
    again += "" if run.is_asked_to_revert else errors.OR_REVERT
    if run.seen.plan.waits_for_an_operator:  # until then, every rerun is refused
        again = errors.UNDO_FIRST
    delete_job = errors.DELETE_JOB if run.context.namespace is not None and not run.is_asked_to_revert else ""
    held = _held_hashes(run.seen) if is_read else errors.MAY_DIFFER
    return f"{held} {errors.STAY_AT_ZERO} {again}{delete_job}"


def _held_hashes(seen: Observation) -> str:
    """Which hashes the sets hold by the last reading."""
    sets = [(one.tree, one.hashes) for one in seen.plan.set_plans if one.hashes is not None]
    values = {pair.classify(item) for tree, pair in sets for item in stored_hashes(tree)}
    holds_target, holds_source = seen.has_new_hashes, Verdict.SOURCE in values  # a revert's target is the old scheme
    if Verdict.FOREIGN in values or holds_target == holds_source:  # foreign: of a template before an edit
        return errors.MAY_DIFFER
    return f"No stored hash is {'a new' if holds_target == seen.options.revert else 'an old'} one."


def _names_next_command(run: Session, error: BaseException) -> bool:
    """Whether the error itself names the command that is next, so that another one would contradict it."""
    if isinstance(error, errors.Refused):
        return bool(run.seen.other_migration or (run.seen.witnesses and run.options.flags.namespace is None))
    return isinstance(error, errors.UsageError) and not isinstance(error, errors.InputError)


def _unknown(run: Session, error: BaseException) -> BaseException:
    """The error for a cluster that could not be read before the run ended."""
    if not _is_untouched(run) or _may_be_overtaken(run):
        return half_way(run, error, is_read=False)
    if isinstance(error, errors.NotAuthorised) and not run.has_read_record:
        return unread(error)
    if isinstance(error, errors.NotAuthorised | errors.UsageError | errors.Refused):
        return _unchanged(error)
    # The last look has seen the operator at work, and no request has stopped it: no earlier run is half-way either.
    record, installed = run.seen.open_record, run.seen.operator
    is_left_alone = (record is None or (run.leases.taken and record.stopped is None)) and not run.seen.to_open
    is_at_work = run.has_read_record and installed is not None and installed.live
    return _unchanged(error) if is_at_work and is_left_alone else half_way(run, error, is_read=False)


def _may_be_overtaken(run: Session) -> bool:
    """Whether another run may have written since the last look, because it held our Lease then, or may hold it now."""
    return not (run.judged and run.leases.held) if run.leases.taken else run.leases.contended


def _unchanged(error: BaseException) -> BaseException:
    """The error of a run that has left nothing in the cluster."""
    if isinstance(error, KeyboardInterrupt):
        error = errors.Interrupted("interrupted")
    if not isinstance(error, MigratorError) or error.exit_code >= HalfWay.exit_code:
        return error
    return error.ending("Nothing is changed; run again" if error.exit_code == 1 else "Nothing is changed")


def unread(error: MigratorError) -> MigratorError:
    """The error of a run that could not read the cluster at all."""
    if isinstance(error, errors.NotAuthorised):
        return error.ending(UNREAD)
    return HalfWay(f"{errors.said(error)}. {UNREAD}")
