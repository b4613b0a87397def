"""A run, from top to bottom.

::

    look -> prove -> lock -> stop -> park the operator's Lease -> read -> write -> read back ... -> close -> release

Whatever ends it early goes through :mod:`migrator.run.leaving`, which looks before it leaves.

A run decides by what it reads each time: the sets, its Lease with the record, and the operator. So a rerun after a
crash is the same function, and every step may be repeated. A revert is the same run with the schemes exchanged, the
commit records first, and without the rules that refuse.
"""

from __future__ import annotations

from typing import Final

from migrator import errors
from migrator.cluster import Cluster
from migrator.errors import ClusterError, HalfWay, LostReply
from migrator.planning import model
from migrator.planning.detect import unlabelled
from migrator.planning.guards.values import FOREIGN
from migrator.planning.verification import CLOCKS
from migrator.releases.table import release_in
from migrator.run import admission, leaving
from migrator.run.context import Context, RunOptions, RunResult, log_findings
from migrator.run.keeping_out import to_stop
from migrator.run.record import State
from migrator.run.seen import Observation
from migrator.run.session import Session
from migrator.run.write import SetConflict

#: Seconds between two readings: for sets to become idle, and for labels of pods that were just made.
_IDLE_EVERY: Final = 2.0
_SETTLE_EVERY: Final = 2.0
_SETTLES: Final = 3

#: How often the sets are read to be written before that is given up, and how many seconds after an error.
_READINGS: Final = 6
_BEFORE_RETRY: Final = 5.0


def look_ahead(cluster: Cluster, options: RunOptions, context: Context) -> Observation:
    """What a run reads first; raises what it would raise."""
    session = Session(cluster, options, context)
    session.look(search=True)
    return session.seen


def run(cluster: Cluster, options: RunOptions, context: Context) -> RunResult:
    """Migrate, or with ``revert`` undo a migration; returns once every planned value is proven to be there.

    Raises a :class:`~migrator.errors.MigratorError` whose exit code names the state of the cluster.
    """
    session = Session(cluster, options, context)
    try:
        return _rehearse(session) if session.is_rehearsal else _run(session)
    except KeyboardInterrupt as error:  # in the middle of putting things in order
        raise HalfWay(f"interrupted again. {leaving.UNREAD}") from error


def _run(session: Session) -> RunResult:
    """Migrate; an error ends with the one that is true of the cluster."""
    first = final = None
    try:
        _migrate(session)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, the cluster is put in order
        first, final = error, leaving.leave(session, error, _close, _write_until_read_back)
    if session.leases.taken:
        session.close_webhooks()
        session.leases.release()
    if final is not None:
        raise final from (first if first is not final else None)
    session.result.operator = session.seen.operator
    return session.result


def _rehearse(run: Session) -> RunResult:
    """Do what the run would do with ``dryRun=All``, but leave Leases, record, webhooks and Deployment alone.

    An error is 6 where a dead run may have written, as the run's would be: no old operator may start.
    """
    try:
        return _rehearsed(run)
    except errors.MigratorError as error:
        if not run.seen.dirty:
            raise
        raise leaving.half_way(run, error) from error


def _rehearsed(run: Session) -> RunResult:
    _look_until_idle(run)
    if refusal := run.seen.refused:
        raise refusal
    admission.prove(run.unfenced, run.seen)
    if run.seen.to_open:
        run.log.warning("webhooks_not_opened", consequence="a dry run leaves webhooks as they are")
        return run.result
    try:
        begun = run.send()
    except errors.Rejected as error:  # the run would be refused, or reverted
        raise admission.refusal(None, error) from error
    if not begun:
        sets = f"{len(run.result.sets)} of {len(model.pending(run.seen.plan))} sets"
        raise errors.Interrupted(f"a signal or --timeout ended this after {sets}, and nothing was written; run again")
    return run.result


def _migrate(run: Session) -> None:
    """Look, and do what is to be done; nothing is touched if that is nothing, or refused."""
    _look_until_idle(run)
    refusal = run.seen.refused
    if refusal is not None and run.seen.open_record is None:
        raise refusal  # what a run that died has left is put in order, which needs our Lease
    run.look_at_operators()  # after the sets, as these may be the work of a run that has died since the first look
    if refusal is None and _nothing_to_do(run):
        run.log.info("nothing_to_do", sets=len(run.seen.trees))
        return
    run.context.stage("proving")
    admission.prove(run.unfenced, run.seen)
    run.context.stage("locking")  # nothing is written without our own Lease
    last_record, has_waited = run.seen.record, run.lock()
    run.look_at_operators()
    # By a clock that is behind, GM-116 would be found only after the stop; and a start may cost pods, too (GM-314).
    is_behind = run.leases.server_time - run.context.now() > CLOCKS
    if has_waited or is_behind or run.seen.record != last_record or not model.pending(run.seen.plan):
        run.look_behind_the_lock()
        run.seen.check_target_image()
        admission.prove(run.unfenced, run.seen)
    if refusal := run.seen.refused:
        raise refusal
    if model.pending(run.seen.plan) or run.seen.wrong_operator:
        run.context.stage("stopping")
        run.fence()
        _write_until_read_back(run)
    run.context.stage("closing")
    _close(run)


def _look_until_idle(run: Session) -> None:
    """Read everything; with ``--wait`` again until no update is in flight. ``--timeout`` counts from its end."""
    until, told = run.context.clock() + run.options.wait, list[str]()
    run.context.stage("looking")
    while True:
        run.context.deadline.restart()
        run.look(search=True)
        codes, installed = model.codes_to_wait_for(run.seen.plan), run.seen.operator
        at_zero = installed is not None and installed.gone  # so it ends no update
        if not codes or at_zero or run.context.clock() >= until:
            log_findings(run.seen.plan, run.log)
            run.seen.check_target_image()
            return
        run.context.heed_signals()
        if codes != told:
            run.log.info("waiting_for_idle", codes=codes)
            told = codes
        run.context.sleep(_IDLE_EVERY)


def _nothing_to_do(run: Session) -> bool:
    """Whether every value is as asked, and no earlier run left anything: for a revert not even a finished record."""
    seen = run.seen
    record = seen.record if run.options.revert else seen.open_record
    return not (record or model.pending(seen.plan) or seen.parked or any(one.ours for one in seen.webhooks))


def _write_until_read_back(run: Session) -> None:
    """Read, write what is to be written, and read it back, until nothing is left; six times at most."""
    for reading in range(1, _READINGS + 1):
        try:
            if not _write_once(run):
                return
        except (ClusterError, LostReply, SetConflict) as error:
            if isinstance(error, errors.Rejected):
                may_pass = run.is_spreading(error)
            else:
                may_pass = run.wrote or isinstance(error, SetConflict | LostReply)  # something is written
            if not may_pass or reading == _READINGS:
                raise
            run.log.warning("reading_again", error=str(error), reading=reading)
            run.context.rest(_BEFORE_RETRY)
    raise ClusterError("another client keeps changing the written hashes")


def _write_once(run: Session) -> bool:
    """One reading, and the patches that it asks for; false if it asks for none."""
    run.look_at_operators()
    if run.options.revert:
        run.keep_at_zero()
    elif to_stop(run.seen):  # before the sets are read, which may take longer than an operator's start
        run.fence()
    run.read()
    must_stop = run.seen.acts or (run.seen.wrong_operator and not run.wrote)
    if must_stop and model.pending(run.seen.plan) and not run.options.revert:
        run.fence()
        run.read()
    plans, refusal = model.pending(run.seen.plan), run.seen.refused
    finishes = run.wrote and plans  # a set that is refused since then leaves no other one half-written
    if refusal is not None and not finishes:
        raise refusal
    if not plans:
        return False
    run.context.heed_signals()
    if not run.wrote:
        run.probe()
    run.record_run(state=State.WRITING)
    run.context.stage("patching")
    run.send()
    return True


def _close(run: Session) -> None:
    """Every value is as asked: see that no operator is there that does not know them, and put the rest in order."""
    run.look_at_operators()
    _check_last(run)
    while run.seen.wrong_operator:  # it waits for its Lease, or has just started: it is stopped while stops are left
        run.fence()
        _write_until_read_back(run)
    record, installed = run.seen.open_record, run.seen.operator
    if run.options.revert:
        _restore_old_operator(run)
    elif record is not None:
        if installed is not None and run.options.is_target(installed.image):
            run.restore(record.stopped)
        run.record_run(state=State.DONE, stopped=None, error="")
        run.closed = True
    run.look_at_operators()  # right before the Lease is given back
    if run.seen.wrong_operator:
        _close(run)
        return
    run.let_operators_in()
    if run.options.revert:
        run.save(None)


def _restore_old_operator(run: Session) -> None:
    """Give the operator of the old hashes its replicas back, if the Deployment certainly is that operator."""
    record, installed = run.seen.record, run.seen.operator
    if record is None or record.operator is None:
        return
    run.result.reverted_to = record.operator.image
    if installed is None or run.options.is_target(installed.image):
        return
    release = release_in(installed.image)
    # A tag such as `latest` does not tell which operator this run has stopped, the old one or the new one.
    is_old = release.scheme.name == record.scheme if release is not None else not run.stops
    if is_old:
        run.restore(record.operator)


def _check_last(run: Session) -> None:
    """Raise ``SetConflict`` if a set that was written has a value, or lacks a label, so that pods would be replaced.

    A set that was edited meanwhile is its owner's; what a revert found without a label stays so.
    """
    if FOREIGN.code in run.options.plan.allow:
        return
    for _ in range(_SETTLES):
        if not any(map(unlabelled, run.seen.trees)):
            break
        run.context.rest(_SETTLE_EVERY)
        run.read()
    before = {planned.tree.ref.uid: planned.tree for planned in model.pending(run.result.plan)}
    for now in run.seen.plan.set_plans:
        was = before.get(now.tree.ref.uid)
        if was is None or was.pcs.template != now.tree.pcs.template:
            continue
        if foreign := next((one for one in now.findings if one.code == FOREIGN.code), None):
            raise SetConflict(foreign.fact)  # it refuses nothing, because nothing is to be written there any more
        if unlabelled(now.tree) and not unlabelled(was):
            raise SetConflict(
                f"a pod or PodClique of {now.tree.ref} has lost its hash label, so an operator replaces it"
            )
