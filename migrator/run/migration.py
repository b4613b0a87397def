"""A run, from top to bottom.

::

    look -> lock -> prove -> open record -> stop -> take the operator's Leases
         -> read -> save tables -> write -> read back ... -> close -> release

Whatever ends it early goes through :meth:`_Run._leave`, which looks before it leaves: nothing of the run is there, so
the operator is restored and the record forgotten; or something is, and the operator's Leases stay parked (exit code 6);
or it must go back, because it can never be finished.

A run decides by what it reads each time: which Leases it holds, what the stored values are by the tables, and whether
the record says that it stopped the operator. So a rerun after a crash is the same function, and every step may be
repeated. Beyond that it remembers how often it stopped the operator, whether it has sent a patch, and which pods it saw
first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Final

from migrator import __version__, errors
from migrator.errors import ClusterError, ForeignOperator, HalfWay, Interrupted, LeaseLost, LostReply, MigratorError
from migrator.planning.model import Finding, Plan
from migrator.planning.patches import Batch, reverting
from migrator.run import admission, endings, operator, rights
from migrator.run.context import Context, RunOptions, RunResult, log_findings, timed
from migrator.run.dry_run import rehearse
from migrator.run.execute import Executor, Outcome, SetConflict
from migrator.run.leases import OWN_LEASE, PARKED, Leases
from migrator.run.observation import NO_HOME, Observation, in_flight, pending, read_sets, refused, tables_of
from migrator.run.operator import Operator
from migrator.run.record import OperatorBefore, Recorded, Recorder, RecordState, RunRecord
from migrator.store import LONGEST_WRITE, DryRun, Store

#: For how many seconds a run waits for a Lease, and for pods of the operator to end.
PATIENCE: Final = 120.0

#: How often the operator is stopped, and how often the sets are read to be written, before that is given up.
STOPS: Final = 3
READINGS: Final = 6

#: Seconds between two looks: for sets to become idle, for an operator while patches are sent, and for one that no Lease
#: keeps out, which acts two seconds after its start (measured).
_IDLE_EVERY: Final = 2.0
_LOOK_EVERY: Final = 5.0
_LOOK_OFTEN: Final = 1.0

#: Seconds: before the sets are read again after an error, to leave, and to go back.
_BEFORE_RETRY: Final = 5.0
_TIME_TO_LEAVE: Final = 60.0
_TIME_TO_GO_BACK: Final = 600.0
_NAMED: Final = 5  # pods


def run(store: Store, options: RunOptions, context: Context) -> RunResult:
    """Migrate, or with ``revert`` undo a migration; returns once every planned value is proven to be there.

    Raises a :class:`~migrator.errors.MigratorError` whose exit code names the state of the cluster.
    """
    _ = options.direction  # wrong schemes are refused before anything is read
    if store.dry_run is not DryRun.NONE:
        return rehearse(store, options, context)
    return _Run(store, options, context).run()


class _Run:
    """One run: what it saw last, its Leases and its record."""

    def __init__(self, store: Store, options: RunOptions, context: Context) -> None:
        self._unfenced = store
        self._options = options
        self._context = context
        self._log = context.log
        self._seen = Observation(options)
        self._result = RunResult(Plan(options.plan.source, options.plan.target, ()))
        self._leases: Leases | None = None  # with _store and _recorder from _begin on
        self._pods: dict[str, str] = {}  # those that the first reading saw, by uid
        self._told = set[Finding]()
        self._stops = 0
        self._wrote = False

    def run(self) -> RunResult:
        """Migrate; an error ends with the one that is true of the cluster."""
        first = final = None
        try:
            self._migrate()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, the cluster is put in order
            first, final = error, self._leave(error)
        final = self._release(final)
        if final is not None:
            raise final from (first if first is not final else None)
        self._result.operator = self._seen.operator
        return self._result

    # --- the way there ----------------------------------------------------------------------------------------------

    def _migrate(self) -> None:
        """Look, and do what is to be done; nothing is touched if that is nothing, or refused."""
        self._look_until_idle()
        refusal = refused(self._seen)
        if refusal is not None and not self._seen.continues:
            raise refusal
        if refusal is None and self._nothing_to_do():
            self._log.info("nothing_to_do", sets=len(self._seen.trees))
            return
        rights.check_run(self._unfenced, self._seen, self._log)
        with self._timed("lock"):  # nothing is written without our own Lease
            self._recorder = Recorder(self._store, self._seen.home)  # whoever holds it before us may write the record
            self._wait_until_free(lambda: self._known_leases.obtain(OWN_LEASE))
            self._seen = replace(self._seen, recorded=self._recorder.load())
            self._look()
        refusal = refused(self._seen)
        if refusal is not None:
            raise refusal
        if pending(self._seen.plan) or self._wrong_operator():
            with self._timed("prove"):
                admission.probe(self._unfenced, self._seen.patches)
            self._open_record()
            with self._timed("stop"):
                self._fence()
            self._write_until_read_back()
        with self._timed("close"):
            self._close()

    def _look_until_idle(self) -> None:
        """Read everything; with ``--wait`` again until no update is in flight. ``--timeout`` counts from its end."""
        until = self._context.clock() + self._options.wait
        while True:
            self._context.deadline.restart()
            with self._timed("look"):
                self._look(everywhere=True)
            codes = in_flight(self._seen.plan)
            if not codes or self._context.clock() >= until:
                log_findings(self._seen.plan, self._log, self._told)
                return
            self._heed_signals()
            self._log.info("waiting_for_idle", codes=codes)
            self._context.sleep(_IDLE_EVERY)

    def _look(self, *, everywhere: bool = False) -> None:
        """Operators, record and sets, as they are now; ``everywhere``: other namespaces and unknown places too."""
        self._look_at_operators(everywhere=everywhere)
        self._read(search=everywhere)

    def _look_at_operators(self, *, everywhere: bool = False) -> None:
        """Operators and the record; while we hold our own Lease, nobody else writes that."""
        found = operator.find(self._unfenced, self._options.flags, everywhere=everywhere)
        if self._leases is None and found.home is not None:
            self._begin(found.home)
        recorded = self._seen.recorded
        if self._leases is not None:
            recorded = self._recorder.load(again=not self._holds(OWN_LEASE))
            if self._seen.continues and self._leases.was_taken(OWN_LEASE) and recorded.run is None:
                raise self._recorder.deleted()
        fenced = self._holds(OWN_LEASE, *operator.lease_names(found.operator))
        self._seen = replace(self._seen, found=found, recorded=recorded, fenced=fenced)

    def _begin(self, home: str) -> None:
        """Leases and record are kept in the operator's namespace, so they begin once that is known."""
        self._leases = Leases(self._unfenced, home, self._context)
        self._store = self._unfenced.within(self._leases.seconds_left)
        self._recorder = Recorder(self._store, home)

    def _read(self, *, search: bool = False) -> None:
        """Read the sets, and plan what is to be done to them; with ``search`` also look for hashes in unknown places.

        That takes as long as everything else of a reading; what the last search found counts in every later reading.
        """
        with self._timed("verify" if self._wrote else "snapshot"):
            self._seen = read_sets(self._unfenced, self._seen, self._context, search=search, written=self._wrote)
        self._pods = self._pods or self._seen.pods
        if gone := self._gone():
            self._log.warning("pods_gone", pods=gone)
        if not self._wrote:
            self._result.plan = self._seen.plan

    def _nothing_to_do(self) -> bool:
        """Whether every value is as asked, and no earlier run has left anything to put in order."""
        recorded = self._seen.recorded.run is not None if self._options.revert else self._seen.continues
        if recorded or pending(self._seen.plan):
            return False
        return not self._operators_are_kept_out()

    def _operators_are_kept_out(self) -> bool:
        """Whether an operator's Lease is parked, by this run (it is the holder) or an earlier one. Sends requests."""
        names, ours = operator.lease_names(self._seen.operator), {PARKED, self._context.identity}
        return self._leases is not None and any(self._leases.look(name).holder in ours for name in names)

    def _found_parked(self) -> bool:
        """Whether an operator's Lease was parked and no record open: a run whose record is lost may have written."""
        run = self._seen.recorded.unfinished
        with suppress(errors.NotAuthorised):  # an account that cannot read Leases holds none
            return run.found_parked if run is not None else self._operators_are_kept_out()
        return False

    # --- who may write ----------------------------------------------------------------------------------------------

    def _wait_until_free(self, obstacle: Callable[[], str]) -> None:
        """Wait until there is no obstacle; raises ``LeaseHeld`` if there still is one after two minutes."""
        until, told = self._context.clock() + PATIENCE, ""
        while why := obstacle():
            self._heed_signals()
            if self._context.clock() >= until:
                raise errors.LeaseHeld(f"waited {PATIENCE:.0f} s: {why}; wait for its end, or stop it")
            if why != told:
                self._log.info("waiting", why=why)
                told = why
            self._context.sleep(1.0)

    def _fence(self) -> None:
        """Stop the operator and take its Leases: from here on none acts that elects its leader."""
        self._wait_until_free(self._fence_obstacle)
        self._seen = replace(self._seen, fenced=True)

    def _fence_obstacle(self) -> str:
        """Stop an operator that runs, and take the Leases once it is gone; returns what is in the way."""
        self._look_at_operators()
        installed = self._seen.operator
        self._seen.found.refuse_several()
        if installed is not None and installed.replicas:
            self._stop(installed)
            return f"{installed} is being stopped"
        if installed is not None and not installed.gone:
            if not installed.deployment and installed.live:
                raise ForeignOperator(f"{installed.evidence} runs without a Deployment: stop it yourself")
            return f"{installed.evidence} still exists"
        return self._known_leases.obtain(*operator.lease_names(installed))

    def _stop(self, installed: Operator) -> None:
        """Scale the operator to zero, three times at most; what it was is recorded first."""
        if not self._options.stop_operator:
            raise ForeignOperator(f"{installed.evidence} runs: scale it to zero, or run with --stop-operator")
        if self._stops == STOPS:
            raise ForeignOperator(endings.scaled_up(installed))
        self._open_record()  # again: an operator that was started anew is another one to restore
        operator.scale(self._store, installed, 0)
        self._stops += 1
        self._log.info("operator_stopped", deployment=str(installed), image=installed.image, times=self._stops)

    def _keep_operators_out(self) -> None:
        """See that no operator acts on what is written; before the first patch, or without a Lease, stop one again."""
        self._look_at_operators()
        installed = self._seen.operator
        if installed is None or not installed.live:
            return
        loose = self._acts_unfenced(installed)
        if not loose and not self._wrong_operator():
            return  # it waits for the Lease, and finds the hashes that it knows
        if self._wrote and not loose:
            raise ForeignOperator(endings.scaled_up(installed))
        if self._wrote and not installed.replicas and installed.settled:
            raise ForeignOperator(
                f"{installed.evidence} acts without waiting for a Lease, and no scaling ends it: stop it"
            )
        self._fence()

    def _acts_unfenced(self, installed: Operator) -> bool:
        """Whether an operator runs that no Lease of ours keeps out."""
        here = self._leases is not None and installed.namespace == self._leases.namespace  # Leases are namespaced
        waits = here and installed.lease_name is not None and self._holds(installed.lease_name)
        return installed.live and not waits

    def _wrong_operator(self) -> bool:
        """Whether an operator runs that does not know the hashes with which the run ends."""
        installed, targets = self._seen.operator, self._options.is_target
        images = {*self._seen.found.others.values(), *(installed.images if installed and installed.live else ())}
        if self._options.revert:
            return any(map(targets, images))
        if all(map(targets, images)):
            return False
        return self._seen.continues or self._operators_are_kept_out()  # it would see hashes that it does not know

    def _holds(self, *names: str) -> bool:
        return self._leases is not None and self._leases.holds(*names)

    @property
    def _known_leases(self) -> Leases:
        if self._leases is None:
            raise errors.UsageError(NO_HOME)
        return self._leases

    # --- what is written --------------------------------------------------------------------------------------------

    def _write_until_read_back(self) -> None:
        """Read, write what is to be written, and read it back, until nothing is left; six times at most."""
        for reading in range(1, READINGS + 1):
            try:
                self._keep_operators_out()
                self._read()
                batches = self._due_batches()
                if not batches:
                    return
                self._heed_signals()
                with self._timed("record"):
                    self._save_tables()
                with self._timed("execute"):
                    self._send(batches, watch=True)
            except errors.Rejected:
                raise
            except (ClusterError, LostReply, SetConflict) as error:
                if not self._wrote or reading == READINGS:
                    raise
                self._log.warning("reading_again", error=str(error), reading=reading)
                self._context.rest(_BEFORE_RETRY)
        raise ClusterError("another client keeps changing the written hashes")

    def _due_batches(self) -> list[Batch]:
        """What is to be written now; a refusal counts once nothing else is, or before the first patch."""
        seen, refusal = self._seen, refused(self._seen)
        if not self._wrote:
            log_findings(seen.plan, self._log, self._told)
        batches = [*map(reverting, seen.edited), *seen.batches]
        if refusal is not None and not (self._wrote and batches):
            raise refusal
        return batches

    def _send(self, batches: Sequence[Batch], *, watch: bool) -> None:
        """Write. With ``watch`` a signal ends this after the sets that are begun, and operators are looked for."""
        installed = self._seen.operator
        every = _LOOK_OFTEN if installed is not None and installed.lease_name is None else _LOOK_EVERY
        seen = operator.watch(self._unfenced, self._options.flags, self._acts_unfenced, every, self._context.clock)

        def check() -> None:
            self._known_leases.seconds_left()
            if watch and seen():
                raise ForeignOperator("an operator acts without waiting for a Lease")

        executor = Executor(
            self._store,
            check=check,
            stopping=lambda: watch and self._context.is_over(),
            concurrency=self._context.concurrency,
            log=self._log,
        )
        outcomes = list[Outcome]()
        try:
            outcomes = executor.run(batches)
        finally:
            self._wrote = self._wrote or executor.unconfirmed or any(outcome.written for outcome in executor.outcomes)
            if executor.unconfirmed and (not outcomes or any(outcome.error for outcome in outcomes)):
                self._context.rest(LONGEST_WRITE)  # what is still under way ends before anything is read
        self._result.patches += sum(outcome.written for outcome in outcomes)
        self._result.sets |= {outcome.batch.ref for outcome in outcomes if outcome.complete}
        found = [outcome.error for outcome in outcomes if outcome.error is not None]
        worst = min(found, key=lambda e: (not isinstance(e, LeaseLost), isinstance(e, SetConflict)), default=None)
        if worst is not None and not isinstance(worst, ForeignOperator):  # that one is stopped before the next reading
            raise worst

    def _heed_signals(self) -> None:
        if self._context.stop.is_set():
            raise Interrupted("the run was asked to end")
        if self._context.deadline.remaining() <= 0:
            raise Interrupted("--timeout has expired")

    # --- the record -------------------------------------------------------------------------------------------------

    def _open_record(self) -> RunRecord:
        """Record the run, and the operator that it is about to stop."""
        context, options, recorded = self._context, self._options, self._seen.recorded
        installed = self._seen.operator
        run = recorded.unfinished or RunRecord(
            run_id=context.run_id,
            identity=context.identity,
            version=__version__,
            source=options.plan.source,
            target=options.plan.target,
            started=context.now(),
            finished=None,
            state=RecordState.STOPPING,
            revert=options.revert,
            found_parked=self._found_parked(),
        )
        stopped = run.stopped
        if installed is not None and installed.replicas:
            stopped = OperatorBefore(installed.replicas, installed.image, installed.uid)
        run = replace(run, stopped=stopped, operator=self._seen.operator_before(run, stopped))
        self._save(replace(recorded, run=run))
        return run

    def _save_tables(self) -> None:
        """Before the first patch: prove again that patches are accepted, and record what a rerun or a revert needs."""
        plan, recorded = self._options.plan, self._seen.recorded
        run = recorded.unfinished or self._open_record()
        if not self._wrote:
            admission.probe(self._store, self._seen.patches)
        if self._options.revert:
            self._save(replace(recorded, run=replace(run, state=RecordState.REVERTING)))
        else:
            writing = replace(run, state=RecordState.WRITING, source=plan.source, target=plan.target)
            self._save(Recorded(writing, tables_of(self._seen, run)))

    def _save(self, recorded: Recorded) -> None:
        if recorded != self._seen.recorded:
            self._recorder.save(recorded)
            self._seen = replace(self._seen, recorded=recorded)

    def _remove_record(self) -> None:
        """Remove what the open run recorded; the tables of a migration that had ended well stay."""
        recorded, run = self._seen.recorded, self._seen.recorded.unfinished
        earlier = tuple(t for t in recorded.tables if run is not None and t.run != run.run_id)
        if run is None or not earlier or (self._options.revert and run.state == RecordState.REVERTING):
            try:
                self._recorder.delete()
            except (Exception, KeyboardInterrupt):
                if self._recorder.load().run is not None:
                    raise  # else the record is gone, and that was the aim
            self._seen = replace(self._seen, recorded=Recorded())
            return
        first, was = earlier[0], run.operator if self._seen.is_of_this_pair else None
        done = replace(run, state=RecordState.DONE, finished=self._context.now(), stopped=None, revert=False)
        self._save(Recorded(replace(done, source=first.source, target=first.target, operator=was), earlier))

    # --- the end ----------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        """Every value is as asked: see that no operator is there that does not know them, and put the rest in order."""
        self._look_at_operators()
        seen, run, installed = self._seen, self._seen.recorded.unfinished, self._seen.operator
        if seen.foreign:
            raise SetConflict(seen.foreign[0])
        if installed is not None and self._wrong_operator():
            self._seen.found.refuse_several()
            raise ForeignOperator(endings.scaled_up(installed))
        if self._options.revert:
            if installed is not None and not self._options.is_target(installed.image):
                self._restore(seen.operator_to_restore)
            self._let_operators_in()
            self._remove_record()
            return
        if run is not None and installed is not None and self._options.is_target(installed.image):
            self._restore(run.stopped)
        self._known_leases.obtain(*operator.lease_names(installed))  # a dead run may have left them parked
        if run is not None:
            self._close_record(run)

    def _close_record(self, run: RunRecord) -> None:
        """Record that the run has ended well, and the pods that ``verify`` compares."""
        ended = replace(run, state=RecordState.DONE, finished=self._context.now(), stopped=None, error=None)
        try:
            self._save(Recorded(ended, self._seen.tables_with_pods))
        except errors.Refused as error:  # too many pods for a ConfigMap
            self._log.warning("pods_not_recorded", error=str(error), consequence="verify does not compare pods")
            self._save(Recorded(ended, self._seen.recorded.tables))

    def _restore(self, was: OperatorBefore | None) -> bool:
        """Give a Deployment that a run of ours stopped its replicas back; false if it is not the same any more."""
        installed = self._seen.operator
        if was is None or (installed is not None and installed.replicas):
            return True
        if installed is None or not endings.is_same(installed, was):
            return False
        operator.scale(self._store, installed, was.replicas)
        self._log.info("operator_restored", deployment=str(installed), replicas=was.replicas)
        self._seen = replace(self._seen, found=operator.find(self._unfenced, self._options.flags, everywhere=False))
        return True

    def _let_operators_in(self) -> None:
        """Release the operator's Leases, also those that a killed run parked. Call it before the record is removed."""
        names = operator.lease_names(self._seen.operator)
        self._known_leases.obtain(*names)
        self._known_leases.release(*names)

    def _release(self, error: BaseException | None) -> BaseException | None:
        """Release the Leases; after ``HalfWay`` the operator's stay parked. Returns the error to raise."""
        try:
            if self._leases is not None:
                self._leases.release_all(park=isinstance(error, HalfWay))
        except (Exception, KeyboardInterrupt) as late:  # noqa: BLE001 - nobody may be kept out without an error
            return self._half_way(error or late, endings.LOCKED_OUT)
        return error

    def _leave(self, error: BaseException) -> BaseException | None:
        """Look, and leave the cluster in order; returns the error that is true, or ``None`` if all is done."""
        self._context.deadline.extend(_TIME_TO_LEAVE)
        if self._seen.continues or self._wrote or self._stops:
            self._log.warning("ending_run", error=str(error))
        try:
            if isinstance(error, LeaseLost):  # nothing more may be written, whatever is there
                return self._half_way(error)
            self._look_at_operators()
            self._read()
            return self._in_order(error)
        except (Exception, KeyboardInterrupt) as late:  # noqa: BLE001 - what cannot be read is not known
            if str(late) != str(error):  # the same failure, met again, is told once
                self._log.warning("cleanup_failed", error=str(late))
            return self._unknown(error)

    def _in_order(self, error: BaseException) -> BaseException | None:
        """Put the cluster in order as far as that is ours to do; returns the error that is true."""
        seen, run, went_back = self._seen, self._seen.recorded.unfinished, False
        if not self._holds(OWN_LEASE):
            known = run is None and not self._wrote and not self._found_parked()
            return endings.unchanged(error) if known else self._half_way(error)
        if self._complete(error):
            self._close()
            return None
        parked = self._found_parked()
        if parked or self._left_something():
            if parked or not self._must_go_back(error):
                installed, may_restore = seen.operator, not (self._wrote or seen.restores_old_hashes)
                if may_restore and run and installed and self._options.is_target(installed.image):
                    self._restore(run.stopped)  # the target's operator waits for its Lease, and the hashes are its own
                return self._half_way(error)
            self._go_back()
            went_back = True
        if run is not None:
            if not self._restore(run.stopped):
                return self._half_way(error, endings.changed(seen.operator, run.stopped))
            self._let_operators_in()
            self._remove_record()
        return endings.reverted(error, seen.recorded, self._gone()) if went_back else endings.unchanged(error)

    def _complete(self, error: BaseException) -> bool:
        """Whether every value is as asked, so that only record and operator are to be put in order."""
        seen = self._seen
        done = not (pending(seen.plan) or seen.plan.refusals or seen.foreign)
        return done and not isinstance(error, ForeignOperator) and not seen.other_migration

    def _left_something(self) -> bool:
        """Whether a write of the open run is in the cluster."""
        seen, run = self._seen, self._seen.recorded.unfinished
        if run is None or run.state == RecordState.STOPPING:
            return False
        if self._options.revert and run.state == RecordState.REVERTING:
            return bool(pending(seen.plan)) or self._wrong_operator()  # that one must not be let in
        return seen.other_migration or bool(seen.to_revert)

    def _must_go_back(self, error: BaseException) -> bool:
        """Whether no rerun could finish: a lasting rejection, a bug, or an operator that could not be kept out."""
        seen, installed = self._seen, self._seen.operator
        if self._options.revert or seen.target_was_running or seen.other_migration:
            return False
        if isinstance(error, ForeignOperator):
            return installed is not None and self._acts_unfenced(installed)
        lasting = isinstance(error, errors.Rejected) or type(error) is errors.ApiError
        return lasting or (isinstance(error, Exception) and not isinstance(error, MigratorError))

    def _go_back(self) -> None:
        """Restore the old hashes of every set that the open run has written to."""
        self._context.deadline.extend(_TIME_TO_GO_BACK)
        self._log.warning("reverting", sets=len(self._seen.to_revert))
        if not self._holds(OWN_LEASE, *operator.lease_names(self._seen.operator)):
            self._fence()
        for _ in range(READINGS):
            self._read()
            if not self._seen.to_revert:
                return
            try:
                self._send([reverting(plan) for plan in self._seen.to_revert], watch=False)
            except (ClusterError, LostReply, SetConflict) as error:
                self._log.warning("reading_again", error=str(error))
                self._context.rest(_BEFORE_RETRY)
        raise ClusterError("not every old hash could be restored")

    def _half_way(self, error: BaseException, next_step: str = "") -> HalfWay:
        """The error for what is half-way, or not known; the record keeps it."""
        if isinstance(error, HalfWay):
            return error
        if not next_step:
            next_step = errors.HALF_WAY if self._leases is not None else endings.UNREAD
            if self._seen.target_was_running and not self._seen.restores_old_hashes:
                next_step = endings.BESIDE_TARGET
        true = HalfWay(f"{endings.said(error)}. {next_step}")
        true.details = getattr(error, "details", {})
        run = self._seen.recorded.unfinished
        if run is not None and self._holds(OWN_LEASE):
            with suppress(MigratorError, KeyboardInterrupt):
                self._save(replace(self._seen.recorded, run=replace(run, error=endings.said(error))))
        return true

    def _unknown(self, error: BaseException) -> BaseException:
        """The error for a cluster that could not be read before the run ended."""
        run = self._seen.recorded.unfinished
        known = not (self._wrote or self._stops) and (run is None or run.is_early)
        if self._leases is not None and self._leases.was_taken(OWN_LEASE):
            known = known and self._recorder.is_read  # what was read before the lock does not count
        if known and isinstance(error, errors.NotAuthorised | errors.UsageError):
            was_read = self._leases is not None or isinstance(error, errors.UsageError)
            return endings.unchanged(error) if was_read else endings.unread(error)
        return self._half_way(error)

    # --- what is told -----------------------------------------------------------------------------------------------

    def _gone(self) -> str:
        """The pods that the first reading saw, and the newest did not; empty if there is none."""
        now = self._seen.pods
        return errors.first_of([name for uid, name in self._pods.items() if uid not in now], _NAMED)

    def _timed(self, stage: str) -> AbstractContextManager[None]:
        return timed(stage, self._result.seconds, self._context)
