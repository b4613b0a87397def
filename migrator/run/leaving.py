"""The way out of a run that failed: look, and leave the cluster in an order that the exit code names.

Nothing of the run is there: the operator is restored and the record removed. Something may be: the operator's Lease
stays parked (exit code 6). Or it must go back, because it can never be finished (3).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from migrator import errors
from migrator.errors import ClusterError, ForeignOperator, HalfWay, LeaseLost, LostReply, MigratorError
from migrator.planning.model import pending
from migrator.planning.planner import contradicting
from migrator.run import endings
from migrator.run.record import Record, State
from migrator.run.seen import read_sets
from migrator.run.session import BEFORE_RETRY, READINGS, Session
from migrator.run.write import SetConflict

#: Seconds: to leave, and to go back.
_TIME_TO_LEAVE: Final = 60.0
_TIME_TO_GO_BACK: Final = 600.0


def leave(run: Session, error: BaseException, close: Callable[[Session], None]) -> BaseException | None:
    """Look, and leave the cluster in order; returns the error that is true, or ``None`` if all is done.

    ``close`` ends a run whose values are all as asked.
    """
    try:
        run.context.deadline.extend(_TIME_TO_LEAVE)
        if run.seen.continues or run.wrote or run.stops:
            run.log.warning("ending_run", error=str(error))
        if isinstance(error, LeaseLost):  # nothing more may be written, whatever is there
            return _half_way(run, error, is_read=False)
        run.look()
        return _in_order(run, error, close)
    except (Exception, KeyboardInterrupt) as late:  # noqa: BLE001 - what cannot be read is not known
        with suppress(Exception, KeyboardInterrupt):
            if str(late) != str(error):  # the same failure, met again, is told once
                run.log.warning("cleanup_failed", error=str(late))
        return _unknown(run, late if isinstance(late, HalfWay) else error)


def _in_order(run: Session, error: BaseException, close: Callable[[Session], None]) -> BaseException | None:
    """Put the cluster in order as far as that is ours to do; returns the error that is true."""
    record, may_be_dirty = run.seen.open, run.seen.dirty or _left_something(run)
    if run.leases is None or not run.leases.held:
        return endings.unchanged(error) if _is_known(run, error) and not may_be_dirty else _half_way(run, error)
    if _complete(run, error):
        close(run)
        return None
    scheme = record.scheme if record is not None and may_be_dirty and _must_go_back(run, error, record) else ""
    if may_be_dirty and not scheme:
        return _half_way(run, error)
    if scheme:
        _go_back(run, scheme)
    if record is not None and not run.restore(record.stopped):
        return _half_way(run, error, next_step=endings.changed(run.seen.operator, record.stopped))
    try:
        run.let_operators_in()
    except ClusterError as late:
        return endings.half_way(late, endings.LOCKED_OUT)
    if record is not None:
        earlier = replace(record, state=State.DONE, stopped=None, revert=False)
        run.save(earlier if record.repeats and not scheme else None)
    return endings.reverted(error, scheme) if scheme else endings.unchanged(error)


def _is_known(run: Session, error: BaseException) -> bool:
    """Whether no run has left anything half-way, or may be about to: by records, as our own Lease is not ours."""
    record = run.seen.open
    if record is not None:
        return record.state is State.STOPPING and not (run.stops or isinstance(error, errors.LeaseHeld))
    return not (run.seen.locked_out or run.seen.may_be_half_way_elsewhere)


def _left_something(run: Session) -> bool:
    """Whether a patch of this run has taken effect, or may have: not every planned change is still to be made."""
    present = {change for set_plan in run.seen.plan.set_plans for change in set_plan.changes}
    return run.wrote and any(not present.issuperset(p.changes) for p in pending(run.result.plan))


def _complete(run: Session, error: BaseException) -> bool:
    """Whether every value is as asked, so that only record and operator are to be put in order."""
    plan, left = run.seen.plan, run.seen.continues or run.seen.dirty or run.wrote
    done = left and not (pending(plan) or plan.refusals or run.seen.other_migration)
    return done and not isinstance(error, ForeignOperator | SetConflict)


def _must_go_back(run: Session, error: BaseException, record: Record) -> bool:
    """Whether no rerun could finish: a lasting rejection, a bug, or an operator that could not be kept out."""
    if run.options.revert or run.seen.other_migration or _beside_target(run, record):
        return False
    if isinstance(error, ForeignOperator | errors.LeaseHeld):
        return run.seen.acts
    lasting = isinstance(error, errors.Rejected) or type(error) is errors.ApiError
    return lasting or (isinstance(error, Exception) and not isinstance(error, MigratorError))


def _beside_target(run: Session, record: Record) -> bool:
    """Whether an operator of the target ran before this run or runs now: then it relies on the target's hashes."""
    installed = run.seen.operator
    images = {was.image for was in (record.operator, record.stopped) if was is not None}
    images |= {*(installed.images if installed is not None else ()), *run.seen.found.others.values()}
    return any(map(run.options.is_target, images))


def _go_back(run: Session, scheme: str) -> None:
    """Restore the old hashes of every set, with the operator at zero."""
    run.context.deadline.extend(_TIME_TO_GO_BACK)
    run.log.warning("reverting", scheme=scheme)
    options = replace(run.options, revert=True, plan=replace(run.options.plan, source=scheme))
    for _ in range(READINGS):
        try:
            run.look_at_operators()
            run.keep_at_zero()
            back = read_sets(run.unfenced, replace(run.seen, options=options), run.context, search=False)
            if contradicting(back.plan) is not None:
                raise MigratorError(f"the old hashes are not only those of {scheme}")
            if not pending(back.plan):
                return
            run.send(back.phases, back=True)
        except (ClusterError, LostReply, SetConflict) as error:
            run.log.warning("reading_again", error=str(error))
            run.context.rest(BEFORE_RETRY)
    raise ClusterError("not every old hash could be restored")


def _half_way(run: Session, error: BaseException, *, next_step: str = "", is_read: bool = True) -> HalfWay:
    """The error for what is half-way, or not known; the record keeps it."""
    if isinstance(error, HalfWay):
        return error
    record = run.seen.open
    if not next_step:
        next_step = endings.next_step(run.seen, revert=run.options.revert) if is_read else errors.HALF_WAY
        next_step = next_step if run.leases is not None else endings.UNREAD
        if run.closed and not isinstance(error, ForeignOperator):
            next_step = endings.LOCKED_OUT
        if record is not None and not run.options.revert and not record.revert and _beside_target(run, record):
            next_step = endings.BESIDE_TARGET
    true = endings.half_way(error, next_step)
    if record is not None and run.leases is not None and run.leases.held:
        with suppress(MigratorError, KeyboardInterrupt):
            run.save(replace(record, error=endings.said(error)))
    return true


def _unknown(run: Session, error: BaseException) -> BaseException:
    """The error for a cluster that could not be read before the run ended."""
    record = run.seen.open
    known = not (run.wrote or run.stops or run.seen.dirty) and (record is None or record.state is State.STOPPING)
    if known and isinstance(error, errors.NotAuthorised | errors.UsageError | errors.Refused):
        was_read = run.leases is not None or not isinstance(error, errors.NotAuthorised)
        return endings.unchanged(error) if was_read else endings.unread(error)
    return _half_way(run, error, is_read=False)
