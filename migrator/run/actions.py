"""The steps of a run, each safe to repeat: every write of a run is here, in :mod:`migrator.run.execute` or a Lease."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from migrator.errors import ForeignOperator, MigratorError, Refused
from migrator.grove.model import TreePlan
from migrator.planning.baseline import baseline_of, table_of
from migrator.planning.options import direction
from migrator.planning.patches import Batch, Patch, backward
from migrator.planning.planner import is_of
from migrator.planning.tables import RunRecord, Was
from migrator.run import admission, operator, record, rights
from migrator.run.context import Context, RunOptions
from migrator.run.decisions import Lease, Sets, Step
from migrator.run.execute import Executor, Outcome, TreeConflict
from migrator.run.leases import OWN_LEASE, QUIET, Heartbeat, Leases
from migrator.run.observation import Observation, batches_of, edited, foreign, pending, replicas_to_restore
from migrator.run.record import Recorded, Recorder
from migrator.store import FIRST_CONCURRENCY, LONGEST_WRITE, Store

#: What stopping the operator, taking the Leases and starting the next one cost beside the patches, in seconds.
_OVERHEAD: Final = 30.0
_SAMPLE: Final = 32
_WATCH_EVERY: Final = 5.0


@dataclass(slots=True)
class Written:
    """What the server applied in this process, for the result only: no decision asks for it."""

    patches: int = 0
    trees: int = 0


class Actions:
    """What a run does, and with what: its Leases, its record, and a store that writes only while the Leases last."""

    def __init__(self, store: Store, options: RunOptions, context: Context, home: str) -> None:
        self._options = options
        self._context = context
        self._log = context.log
        self._plain = store
        self.leases = Leases(store, home, context)
        self.store = store.within(self.leases.left)
        self.recorder = Recorder(self.store, home)
        self.written = Written()
        self._home = home
        self._watch = Watch(self._sight, context, self.leases)
        context.beats.extend((self.leases.renew_if_due, self._watch.look_if_due))

    # --- before anything is disturbed ---------------------------------------------------------------------------------

    def take_lease(self, seen: Observation) -> bool:
        """Take our Lease, once the rights are there for all that follows.

        Returns whether the record is as it was seen: the last holder of the Lease may have finished everything.
        """
        if seen.sets is not None and seen.control.own.holder == "":
            self._check_rights(seen)
        self.leases.take(OWN_LEASE)
        if self.leases.look(OWN_LEASE).standing is Lease.FREE:
            self._context.sleep(1.0)  # another was faster
        return self.recorder.load() == seen.control.recorded

    def _check_rights(self, seen: Observation) -> None:
        """Refuse to begin what we have no right to finish."""
        needed = rights.of_migration(self._patches(seen), self._home, seen.control.found.operator, self._options)
        rights.check(self._plain, needed, self._log)

    def open_record(self, seen: Observation) -> None:
        """Record what the operator is, before it is stopped; but first prove that we may go on."""
        control, context, options = seen.control, self._context, self._options
        if control.recorded.unfinished is None:
            self._prove(seen)
        installed, last, recorded = control.found.operator, control.recorded.run, control.recorded
        stopped = Was(installed.replicas, installed.image) if installed is not None and installed.replicas else None
        known = last.operator if last is not None else None
        if not options.revert and (installed is None or known is None or known.image != installed.image):
            known = None
        kept = known if options.revert and known is not None else (stopped or known)
        if recorded.unfinished is not None:
            run = replace(recorded.unfinished, stopped=stopped, operator=kept)
            self.recorder.save(replace(recorded, run=run))
            return
        run = RunRecord(
            run_id=context.run_id,
            identity=context.identity,
            source=options.plan.source,
            target=options.plan.target,
            started=context.now(),
            finished=None,
            state=record.STOPPING,
            revert=options.revert,
            operator=kept,
            stopped=stopped,
        )
        history = (last, *recorded.history) if last is not None else recorded.history
        self.recorder.save(Recorded(run, history, recorded.tables))

    def _prove(self, seen: Observation) -> None:
        """Dry runs that must end as they should: label patches are accepted, and others denied; the rate is enough."""
        patches, options, context = self._patches(seen), self._options, self._context
        if not patches:
            return
        policies = context.namespace is not None and "GM-206" not in options.plan.allow
        asked, spent = admission.probe(
            self.store, patches[:_SAMPLE], clock=context.clock, sleep=context.sleep, policies=policies
        )
        if options.max_downtime is None:
            return
        dead = [lease.wait for lease in seen.control.theirs if lease.wait > 0 and _is_orphan(lease.holder, seen)]
        waits = max(dead, default=-QUIET) + QUIET
        expected = (
            _OVERHEAD + waits + spent / max(asked, 1) * len(patches) / min(context.concurrency, FIRST_CONCURRENCY)
        )
        limit = options.max_downtime
        self._log.info("downtime_expected", seconds=round(expected, 1), patches=len(patches), limit=limit)
        if expected > limit:
            raise Refused(
                f"GM-204: {len(patches)} patches would keep the operator away for about {expected:.0f} s, more than "
                f"--max-downtime {limit:.0f} s; allow more, or migrate at a quieter time"
            )

    # --- the fence ----------------------------------------------------------------------------------------------------

    def stop_operator(self, seen: Observation) -> None:
        """Scale it to zero; whether its pods are gone is seen later."""
        installed = seen.control.found.operator
        if installed is None:
            return
        operator.scale(self.store, installed, 0)
        self._log.info(
            "operator_stopped", deployment=str(installed), replicas=installed.replicas, image=installed.image
        )

    def take_operator_leases(self, seen: Observation) -> None:
        """Take every Lease that an operator may elect its leader by, and watch for operators that elect none."""
        self.leases.left()
        for lease in seen.control.theirs:
            if lease.standing is Lease.FREE:
                self.leases.take(lease.name)
        self._watch.begin([lease.name for lease in seen.control.theirs])

    def _sight(self, held: Sequence[str]) -> str | None:
        return foreign(operator.find(self._plain, self._options.flags, everywhere=False).operator, held)

    # --- writing ------------------------------------------------------------------------------------------------------

    def save_tables(self, seen: Observation) -> None:
        """Write down what a rerun or a revert needs, before the first patch; and prove that patches are accepted."""
        recorded, options, sets = seen.control.recorded, self._options, seen.sets
        run = recorded.unfinished
        if run is None or sets is None:
            return
        admission.probe(self.store, self._patches(seen), clock=self._context.clock, sleep=self._context.sleep)
        if options.revert:
            self.recorder.save(replace(recorded.origins(), run=replace(run, state=record.REVERTING)))
            return
        tables = recorded.tables
        if run.state == record.REVERTING:  # it may have written to every set that it had a table of
            tables = tuple(replace(table, run=run.run_id) for table in tables)
        begun = {plan.tree.ref.uid for plan in sets.back}
        fresh = [plan for plan in pending(sets.plan) if plan.tree.ref.uid not in begun]
        new = {plan.tree.ref.uid: table_of(plan, run.run_id) for plan in fresh}
        kept = [t for t in tables if t.uid in sets.uids and not (t.run == run.run_id and t.uid in new)]
        baselines = {uid: b for uid, b in self.recorder.baselines().items() if uid in sets.uids}
        baselines |= {plan.tree.ref.uid: baseline_of(plan.tree, run.run_id) for plan in fresh}
        state = replace(run, state=record.WRITING, source=options.plan.source, target=options.plan.target)
        self.recorder.save(
            Recorded(state, recorded.history, tuple(sorted((*kept, *new.values()), key=lambda t: (t.uid, t.run)))),
            baselines=baselines.values(),
        )

    def forward(self, seen: Observation) -> None:
        """Write what is pending; sets that are begun are finished even if the run is told to end."""
        context = self._context
        self._write(
            self._batches(seen),
            check=self._check,
            stopping=lambda: context.stop.is_set() or context.deadline.remaining() <= 0,
            keep_going=self._options.on_conflict == "skip",
        )

    def backward(self, seen: Observation, step: Step) -> None:
        """Bring back every set that the open run began, or those that the step names."""
        if seen.sets is None:
            return
        plans: Sequence[TreePlan] = seen.sets.half if step is Step.BACKWARD_HALF else seen.sets.back
        if step is Step.BACKWARD_EDITED:
            plans = edited(seen.sets, seen.control.recorded)
        self._log.warning("reverting", sets=len(plans))
        self._write([backward(plan) for plan in plans], check=self.leases.left, stopping=lambda: False)
        self._log.info("reverted", sets=len(plans))

    def _batches(self, seen: Observation) -> list[Batch]:
        return batches_of(seen.sets.plan, self._options) if seen.sets is not None else []

    def _patches(self, seen: Observation) -> list[Patch]:
        return [patch for batch in self._batches(seen) for patch in batch.patches]

    def _check(self) -> None:
        self.leases.left()
        self._watch.check()

    def _write(
        self,
        batches: Sequence[Batch],
        *,
        check: Callable[[], object],
        stopping: Callable[[], bool],
        keep_going: bool = False,
    ) -> None:
        executor = Executor(
            self.store, check=check, stopping=stopping, concurrency=self._context.concurrency, log=self._log
        )
        outcomes: list[Outcome] = []
        try:
            outcomes = executor.run(batches, keep_going=keep_going)
        finally:
            if executor.doubtful and (not outcomes or any(outcome.error for outcome in outcomes)):
                self._context.rest(LONGEST_WRITE)  # whatever is still under way ends before anything is read
        self.written.patches += sum(len(outcome.written) for outcome in outcomes)
        self.written.trees += sum(outcome.complete for outcome in outcomes)
        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        if errors:  # what decides first, and a mere conflict last
            raise min(errors, key=lambda e: (getattr(e, "code", "") != "lease-lost", isinstance(e, TreeConflict)))

    # --- the end ------------------------------------------------------------------------------------------------------

    def restore_operator(self, seen: Observation, sets: Sets, *, begun: bool) -> None:
        """Give back the replicas that a run of ours took; the Leases are still held, so the operator waits."""
        replicas, installed = replicas_to_restore(seen, self._options, sets, begun=begun), seen.control.found.operator
        if replicas is None or installed is None:
            return
        operator.scale(self.store, installed, replicas)
        self._log.info("operator_restored", deployment=str(installed), replicas=replicas, image=installed.image)

    def close_record(self, seen: Observation) -> None:
        """The record tells the end; a migration that is complete does not fail where that cannot be written."""
        recorded, way = seen.control.recorded, direction(self._options.plan)
        run = recorded.unfinished
        if run is None:
            return
        self.leases.left()
        new = {table.uid for table in recorded.tables if table.run == run.run_id}
        kept = (t for t in recorded.origins().tables if is_of(t, way) and (t.run == run.run_id or t.uid not in new))
        counts = {"trees": self.written.trees, "patches": self.written.patches}
        done = replace(run, state=record.DONE, finished=self._context.now(), stopped=None, counts=counts)
        self.recorder.save(Recorded(done, recorded.history, tuple(kept)))

    def forget_record(self, seen: Observation) -> None:
        """Remove what the open run recorded; what earlier runs migrated, and did not go back, stands."""
        left = _remaining(seen, self._options, self._context)
        if left is None:
            self.recorder.delete_all()
        else:
            self.recorder.save(left)

    def let_go(self, *, park: bool) -> None:
        """End what goes on in the background, and let go of the Leases."""
        self._watch.end()
        self.leases.let_go(park=park)


class Watch:
    """Looks for an operator that no Lease keeps out, for as long as the operator's Leases are held."""

    def __init__(self, sight: Callable[[Sequence[str]], str | None], context: Context, leases: Leases) -> None:
        self._sight = sight
        self._context = context
        self._leases = leases
        self._held: Sequence[str] = ()
        self._due = 0.0
        self._found: str | None = None
        self._beat: Heartbeat | None = None

    def begin(self, held: Sequence[str]) -> None:
        """Look from now on; these are the Leases that keep an operator out."""
        self._held, self._found = tuple(held), None
        self._due = self._context.clock() + _WATCH_EVERY
        if self._context.threads and self._beat is None:
            self._beat = Heartbeat("operator-watch", self.look_if_due, _WATCH_EVERY / 2)

    def look_if_due(self) -> None:
        """Look once; what cannot be seen is found out at the end of the run."""
        if not self._held or self._found is not None or self._context.clock() < self._due:
            return
        self._due = self._context.clock() + _WATCH_EVERY
        try:
            self._found = self._sight(self._held)
        except MigratorError as error:
            self._context.log.warning("operator_not_read", error=str(error))

    def check(self) -> None:
        """Raise :class:`~migrator.errors.ForeignOperator` if there is one; local and cheap."""
        if self._found is not None:
            raise ForeignOperator(f"{self._found}; stop it, then run again")

    def end(self) -> None:
        """Look no more."""
        self._held = ()
        if self._beat is not None:
            self._beat.stop()
            self._beat = None


def _is_orphan(holder: str, seen: Observation) -> bool:
    """Whether a holder is not a pod of the operator, which lets go as it ends."""
    installed = seen.control.found.operator
    pods = tuple(f"{pod.ref.name}_" for pod in installed.pods) if installed is not None else ()
    return bool(holder) and not holder.startswith(pods or ("\0",))


def _remaining(seen: Observation, options: RunOptions, context: Context) -> Recorded | None:
    """The record without the open run; ``None`` where nothing is left that it could explain."""
    recorded, sets = seen.control.recorded, seen.sets
    run, last = recorded.unfinished, recorded.superseded
    if run is None:
        return None
    if options.revert and sets is not None and not pending(sets.plan):
        if not sets.remains:
            return None
        gone = {plan.tree.ref.uid for plan in sets.plan.trees if options.plan.selection.matches(plan.tree.pcs)}
        done = replace(run, state=record.DONE, finished=context.now(), stopped=None)
        return Recorded(done, recorded.history, tuple(table for table in recorded.tables if table.uid not in gone))
    if last is None:
        return None
    older = recorded.history[recorded.history.index(last) + 1 :]
    return Recorded(last, older, tuple(table for table in recorded.tables if table.run != run.run_id))
