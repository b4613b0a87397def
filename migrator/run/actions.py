"""The steps of a run, each safe to repeat. Besides these, only ``leases`` and ``events`` write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from migrator.errors import ForeignOperator, MigratorError, Refused
from migrator.planning.model import TreePlan
from migrator.planning.patches import Batch, Patch, backward
from migrator.planning.planner import template_digest
from migrator.run import admission, operator, rights
from migrator.run.baseline import baseline_of, table_of
from migrator.run.context import Context, RunOptions, RunResult
from migrator.run.decisions import Lease, RecordState
from migrator.run.execute import Executor, Outcome, TreeConflict
from migrator.run.leases import OWN_LEASE, QUIET, Leases
from migrator.run.observation import Observation, foreign, pending
from migrator.run.record import Recorded, Recorder
from migrator.run.tables import OperatorBefore, RunRecord
from migrator.store import LONGEST_WRITE, Store

#: The downtime beside the patches, in seconds: to stop the operator, take the Leases, start the next operator.
_OVERHEAD: Final = 30.0

#: So many patches at a time are answered as fast as one; more only wait for each other (measured).
_AT_A_TIME: Final = 8
_SAMPLE: Final = 32
_LOOK_EVERY: Final = 5.0


class Actions:
    """The actions of a run, with its Leases, its record, and a store that writes only while the Leases are held.

    ``result`` counts what the server applied; no decision reads it.
    """

    def __init__(self, store: Store, options: RunOptions, context: Context, home: str, result: RunResult) -> None:
        self._options = options
        self._context = context
        self._log = context.log
        self._plain = store
        self._result = result
        self._home = home
        self.leases = Leases(store, home, context)
        self._store = store.within(self.leases.left)
        self._recorder = Recorder(self._store, home)
        context.beats.append(self.leases.renew_if_due)

    @property
    def recorded(self) -> Recorded:
        """The record as it was read or written last."""
        return self._recorder.load(again=False)

    def observe(self, seen: Observation) -> Observation:
        """Add Leases and record to an observation; while we hold our own Lease, nobody else writes the record."""
        own = self.leases.look(OWN_LEASE)
        recorded = self._recorder.load(again=own.standing is not Lease.OURS)
        names = operator.lease_names(seen.operator, self._options.flags)
        return replace(seen, recorded=recorded, own=own, theirs=tuple(map(self.leases.look, names)))

    def take_lease(self, seen: Observation) -> bool:
        """Take our own Lease, if we have the rights to all later steps.

        Returns whether the record has changed: the last holder of the Lease may have finished everything.
        """
        if seen.sets.read and seen.own.holder == "":
            needed = rights.of_migration(seen.patches, self._home, seen.operator, self._options)
            rights.check(self._plain, needed, self._log)
        self.leases.take(OWN_LEASE)
        if self.leases.look(OWN_LEASE).standing is Lease.FREE:
            self._context.sleep(1.0)  # another run was faster
        return self._recorder.load() != seen.recorded

    def open_record(self, seen: Observation) -> None:
        """Record the run and the operator's state, after a proof that the run can go on."""
        context, options, recorded = self._context, self._options, seen.recorded
        installed, last, run, history = seen.operator, recorded.run, recorded.unfinished, recorded.history
        if run is None:
            self._prove(seen)
            run = RunRecord(
                run_id=context.run_id,
                identity=context.identity,
                source=options.plan.source,
                target=options.plan.target,
                started=context.now(),
                finished=None,
                state=RecordState.STOPPING,
                revert=options.revert,
            )
            history = (last, *history) if last is not None else history
        stopped = None
        if installed is not None and installed.replicas:
            stopped = OperatorBefore(installed.replicas, installed.image)
        known = last.operator if last is not None else None
        if options.revert:
            before = known or stopped
        else:
            same = known is not None and installed is not None and known.image == installed.image
            before = stopped or (known if same else None)
        run = replace(run, stopped=stopped, operator=before)
        if run != recorded.run:
            self._recorder.save(Recorded(run, history, recorded.tables))

    def _prove(self, seen: Observation) -> None:
        """Prove by dry runs: label patches are accepted, other patches are denied, the downtime fits."""
        sample, context, limit = tuple(islice(seen.patches, _SAMPLE)), self._context, self._options.max_downtime
        if not sample:
            return
        policies = context.namespace is not None and "GM-206" not in self._options.plan.allow
        asked, spent = self._probe(sample, policies=policies)
        if limit is None:
            return
        # An operator's pod releases its Lease when it ends; any other holder's must expire.
        pods = tuple(f"{pod.ref.name}_" for pod in (seen.operator.pods if seen.operator is not None else ()))
        dead = [lease.wait for lease in seen.theirs if lease.wait > 0 and not lease.holder.startswith(pods)]
        patches = seen.patch_count
        sending = spent / max(asked, 1) * patches / min(context.concurrency, _AT_A_TIME)
        expected = _OVERHEAD + max((wait + QUIET for wait in dead), default=0.0) + sending
        self._log.info("downtime_expected", seconds=round(expected, 1), patches=patches, limit=limit)
        if expected > limit:
            raise Refused(
                f"{patches} patches would keep the operator away for about {expected:.0f} s, more than "
                f"--max-downtime {limit:.0f} s; allow more, or migrate at a quieter time",
                guard="GM-204",
            )

    def _probe(self, patches: Iterable[Patch], *, policies: bool = False) -> tuple[int, float]:
        clock, sleep = self._context.clock, self._context.sleep
        return admission.probe(self._store, patches, clock=clock, sleep=sleep, policies=policies)

    def stop_operator(self, seen: Observation) -> None:
        """Record the operator's state, then scale it to zero; later observations show whether its pods are gone."""
        self.open_record(seen)
        self._scale(seen, 0)

    def restore_operator(self, seen: Observation) -> None:
        """Restore the operator's replicas; we still hold the Leases, so the operator waits."""
        self._scale(seen, seen.replicas_due)

    def _scale(self, seen: Observation, replicas: int | None) -> None:
        if seen.operator is not None and replicas is not None:
            operator.scale(self._store, seen.operator, replicas)
            self._log.info(
                "operator_restored" if replicas else "operator_stopped",
                deployment=str(seen.operator),
                replicas=replicas or seen.operator.replicas,
                image=seen.operator.image,
            )

    def take_operator_leases(self, seen: Observation) -> None:
        """Take every Lease that an operator may elect its leader by."""
        self.leases.left()
        for lease in seen.theirs:
            if lease.standing is Lease.FREE:
                self.leases.take(lease.name)

    def save_tables(self, seen: Observation) -> None:
        """Before the first patch: prove that patches are accepted, and record what a rerun or a revert needs."""
        recorded, asked, sets, run = seen.recorded, self._options.plan, seen.sets, seen.recorded.unfinished
        if run is None:
            return
        self._probe(seen.patches)
        if self._options.revert:
            if run.state != RecordState.REVERTING:
                reverting = replace(run, state=RecordState.REVERTING)
                self._recorder.save(replace(recorded.origins(self._options.way), run=reverting))
            return
        tables = recorded.tables
        if run.state == RecordState.REVERTING:  # it may have written to every set that it had a table of
            tables = tuple(replace(table, run=run.run_id) for table in tables)
        state = replace(run, state=RecordState.WRITING, source=asked.source, target=asked.target)
        known = recorded.of_open_run() if run.state == RecordState.WRITING else {}
        begun = {plan.tree.ref.uid for plan in sets.back}
        fresh = [
            plan
            for plan in pending(sets.plan)
            if (uid := plan.tree.ref.uid) not in begun
            and (uid not in known or known[uid].template_digest != template_digest(plan.tree.pcs))
        ]
        if state == run and not fresh:
            return
        new = {plan.tree.ref.uid: table_of(plan, run.run_id) for plan in fresh}
        earlier = [t for t in tables if t.uid in sets.uids and not (t.run == run.run_id and t.uid in new)]
        baselines = {uid: b for uid, b in self._recorder.baselines().items() if uid in sets.uids}
        baselines |= {plan.tree.ref.uid: baseline_of(plan.tree, run.run_id) for plan in fresh}
        tables = tuple(sorted((*earlier, *new.values()), key=lambda table: (table.uid, table.run)))
        self._recorder.save(Recorded(state, recorded.history, tables), baselines=baselines.values())

    def forward(self, seen: Observation) -> None:
        """Bring back half-written sets that were edited, then write what is pending. A signal stops no set half-way."""
        if seen.edited:
            self.backward(seen.edited)
        clock, held = self._context.clock, [lease.name for lease in seen.theirs]
        due, operators = clock(), None

        def check() -> None:
            nonlocal due, operators
            if operators is None and (began := clock()) >= due:
                operators = self._sight(held)
                due = clock() + max(_LOOK_EVERY, clock() - began)  # slow reads take half of the time at most
            self.leases.left()
            if operators is not None:
                raise ForeignOperator(f"{operators}; stop it, then run again")

        stop, deadline = self._context.stop, self._context.deadline
        skips = self._options.on_conflict == "skip"
        self._write(seen.batches, check, lambda: stop.is_set() or deadline.remaining() <= 0, keep_going=skips)

    def _sight(self, held: Sequence[str]) -> str | None:
        """Look for an operator that these Leases do not keep out."""
        try:
            return foreign(operator.find(self._plain, self._options.flags, everywhere=False).operator, held)
        except MigratorError as error:  # an operator that cannot be read now is seen after the last write
            self._log.warning("operator_not_read", error=str(error))
            return None

    def backward(self, plans: Sequence[TreePlan]) -> None:
        """Bring sets back to the old hashes in their tables."""
        self._log.warning("reverting", sets=len(plans))
        self._write([backward(plan) for plan in plans], self.leases.left, lambda: False, keep_going=False)
        self._log.info("reverted", sets=len(plans))

    def _write(
        self, batches: Sequence[Batch], check: Callable[[], object], stopping: Callable[[], bool], *, keep_going: bool
    ) -> None:
        concurrency = self._context.concurrency
        executor = Executor(self._store, check=check, stopping=stopping, concurrency=concurrency, log=self._log)
        outcomes: list[Outcome] = []
        try:
            outcomes = executor.run(batches, keep_going=keep_going)
        finally:
            if executor.doubtful and (not outcomes or any(outcome.error for outcome in outcomes)):
                self._context.rest(LONGEST_WRITE)  # what is still under way ends before anything is read
        self._result.patches += sum(outcome.written for outcome in outcomes)
        self._result.trees += sum(outcome.complete for outcome in outcomes)
        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        if errors:  # a lost Lease first, a conflict last
            raise min(errors, key=lambda e: (e.code != "lease-lost", isinstance(e, TreeConflict)))

    def close_record(self, seen: Observation) -> None:
        """Record the end of a migration that is complete."""
        recorded, way, run = seen.recorded, self._options.way, seen.recorded.unfinished
        if run is None:
            return
        self.leases.left()
        new = {table.uid for table in recorded.tables if table.run == run.run_id}
        tables = (t for t in recorded.origins(way).tables if t.run == run.run_id or t.uid not in new)
        counts = {"trees": self._result.trees, "patches": self._result.patches}
        done = replace(run, state=RecordState.CLOSED, finished=self._context.now(), stopped=None, counts=counts)
        self._recorder.save(Recorded(done, recorded.history, tuple(tables)))

    def forget_record(self, seen: Observation) -> None:
        """Remove what the open run recorded; tables of earlier runs stay if their sets did not go back."""
        recorded, sets, history, run = seen.recorded, seen.sets, seen.recorded.history, seen.recorded.unfinished
        last = next((run for run in history if run.finished is not None), None)  # it ended well: its writes stay
        if run is not None and self._options.revert and sets.read and not pending(sets.plan):
            closed = replace(run, state=RecordState.CLOSED, finished=self._context.now(), stopped=None)
            last = closed if sets.remains else None
            reverted = {plan.tree.ref.uid for plan in sets.plan.trees}
            tables = tuple(table for table in recorded.tables if table.uid not in reverted)
        elif run is not None and last is not None:
            history = history[history.index(last) + 1 :]
            tables = tuple(table for table in recorded.tables if table.run != run.run_id)
        if run is None or last is None:
            self._recorder.delete_all()
        else:
            self._recorder.save(Recorded(last, history, tables))
