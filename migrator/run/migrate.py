"""The run, as a small state machine.

preflight (read, guard, refuse early) -> stop the operator -> fence -> snapshot and guard again -> record ->
execute -> verify -> release. The operator is disturbed only once nothing refuses, nothing is written before the
record stands, and the old operator comes back only if nothing is left of what was written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from migrator.errors import (
    ClusterError,
    Interrupted,
    LeaseLost,
    LostRace,
    MigratorError,
    NotReverted,
    Refused,
    Reverted,
    VerificationFailed,
)
from migrator.grove.model import Finding, Plan, Ref, Snapshot, TreePlan, TreeState
from migrator.planning.baseline import table_of
from migrator.planning.options import direction
from migrator.planning.revert import make_revert
from migrator.run import authorizer, events, rights
from migrator.run.context import Context
from migrator.run.execute import Executor, Job, Outcome, TreeConflict, job_of, reverse, top_down
from migrator.run.hold import Hold
from migrator.run.rehearsal import Rehearsal
from migrator.run.runs import (
    DONE,
    REVERTING,
    STOPPING,
    WRITING,
    RunOptions,
    RunResult,
    Stages,
    executor_for,
    jobs_of,
    log_findings,
    plan_for,
    refusals_of,
    refuse_if_any,
)
from migrator.run.snapshot import take
from migrator.run.verify import check_written
from migrator.store import DryRun, Store

__all__ = ["RunOptions", "RunResult", "run"]

#: What stopping the operator, taking the Lease and starting the next one cost beside the patches, in seconds.
_OVERHEAD: Final = 30.0
_SAMPLE: Final = 32

#: How long a revert may take however little time the run has left, in seconds.
_TIME_TO_REVERT: Final = 600.0

_EDITED: Final = "GM-130"

#: Trees whose values are the target's once a run is through.
_OURS: Final = frozenset({TreeState.MIGRATE, TreeState.DONE})


def run(store: Store, options: RunOptions, context: Context) -> RunResult:
    """Migrate, or with ``revert`` undo a migration; returns when every planned value is proven to be there.

    Raises a :class:`~migrator.errors.MigratorError` whose exit code says what state the cluster is in.
    """
    direction(options.plan)
    if not store.is_cluster or store.dry_run is not DryRun.NONE:
        return Rehearsal(store, options, context).run()
    return _Migration(store, options, context).run()


class _Migration:
    """A run that writes.

    ``_dirty`` is whether something that was written may be in the cluster, by this run or by one that died;
    ``_seen`` whether the plan is of what is there. ``_earlier`` turns back what was there of a run that died when
    this one began to write.
    """

    def __init__(self, store: Store, options: RunOptions, context: Context) -> None:
        self._store = store
        self._options = options
        self._context = context
        self._log = context.log
        self._stages = Stages(context)
        self._hold = Hold(store, options, context)
        self._plan = self._no_plan()
        self._dirty = False
        self._seen = False
        self._earlier: dict[Ref, Job] = {}

    def run(self) -> RunResult:
        """Run, and leave the cluster in the state that the exit code tells of."""
        try:
            result = self._run()
        except MigratorError as error:
            told = self._abandon(self._told(error))
            if told is error:
                raise
            raise told from error
        finally:
            self._hold.release()
        self._tell_end(result)
        return result

    # --- the states, in order -----------------------------------------------------------------------------------

    def _run(self) -> RunResult:
        with self._stages.stage("preflight"):
            self._preflight()
        result = RunResult(self._plan, seconds=self._stages.seconds)
        pending = jobs_of(self._plan, revert=self._options.revert)
        if not pending and not refusals_of(self._plan):
            self._log.info("nothing_to_do", trees=len(self._plan.trees))
            if not self._hold.has_loose_ends(revert=self._options.revert):
                return result
        if pending:
            self._check_rights(pending)
            self._check_downtime(pending)
            with self._stages.stage("stop"):
                self._hold.stop_operator()
        with self._stages.stage("fence"):
            self._hold.take_lease()
            exempted = self._hold.settle_exemption()
        del pending
        with self._stages.stage("snapshot"):
            unfinished = self._hold.unfinished
            if unfinished is None or unfinished.state == STOPPING:  # else what is undone after an error is told by it
                self._plan = result.plan = self._no_plan()  # not two in memory at once
            self._plan = result.plan = self._make_plan()
        self._restore_edited()
        refuse_if_any(self._plan)
        jobs = jobs_of(self._plan, revert=self._options.revert)
        with self._stages.stage("probe"):
            patches = [patch for job in jobs for patch in job.patches]
            in_dry_run = self._store.in_dry_run(DryRun.SERVER)
            authorizer.probe(in_dry_run, patches, sleep=self._context.sleep if exempted else None)
        with self._stages.stage("record"):
            self._record()
        with self._stages.stage("execute"):
            outcomes = self._execute(jobs)
        done = [outcome for outcome in outcomes if outcome.complete]
        with self._stages.stage("verify"):
            self._verify([outcome.job for outcome in done])
        self._check_stranger([outcome.job for outcome in done])
        result.patches, result.trees = sum(outcome.writes for outcome in done), len(done)
        if len(done) == len(outcomes):
            self._close(result)
        else:
            names = ", ".join(str(outcome.job.ref) for outcome in outcomes if not outcome.complete)
            raise LostRace(
                f"{names} changed during the run and was brought back to the old hashes; the other sets are migrated. "
                "Run again, or `run --revert`"
            )
        return result

    def _preflight(self) -> None:
        """Read everything, and refuse before anything is disturbed."""
        self._hold.look()
        until = self._context.clock() + (self._options.wait_for_idle or 0.0)
        while True:
            self._plan = self._make_plan()
            refusals = refusals_of(self._plan)
            if not refusals or self._context.clock() >= until or self._context.stop.is_set():
                break
            self._log.info("waiting_for_idle", refusals=len(refusals))
            self._context.sleep(self._options.interval)
        left = any(_is_edited(plan) for plan in self._plan.trees) or (refusals and self._written_before())
        if left and not self._hold.findings():
            return  # what an earlier run wrote is brought back behind the fence; only then it refuses
        if refusals:
            events.refused(self._store, self._plan, self._context)
            refuse_if_any(self._plan)

    def _no_plan(self) -> Plan:
        return Plan(self._options.plan.source, self._options.plan.target, ())

    def _make_plan(self) -> Plan:
        plan = plan_for(take(self._store), self._options, self._hold.recorded, self._context)
        findings: list[Finding] = []
        if any(tree.changes for tree in plan.trees):
            findings = self._hold.findings()
        self._seen = True
        plan = replace(plan, findings=(*plan.findings, *findings))
        log_findings(plan, self._context)
        return plan

    def _check_rights(self, jobs: Sequence[Job]) -> None:
        """Refuse to begin what we have no right to finish."""
        patches = (patch for job in jobs for patch in job.patches)
        rights.check(self._store, (*rights.of_patches(patches), *self._hold.rights()), self._log)
        self._hold.check_exemption()

    def _check_downtime(self, jobs: Sequence[Job]) -> None:
        """Refuse if the patches, at the rate that the server shows now, do not fit into ``--max-downtime``."""
        limit = self._options.max_downtime
        if limit is None:
            return
        patches = [patch for job in jobs for patch in job.patches]
        sample = patches[:_SAMPLE]
        started = self._context.clock()
        in_dry_run = self._store.in_dry_run(DryRun.SERVER)
        executor_for(in_dry_run, self._context, check=lambda: None).run(
            [Job(replace(patch.ref, name=f"{patch.ref.name}#{n}"), (patch,)) for n, patch in enumerate(sample)],
            keep_going=True,
        )
        spent = self._context.clock() - started
        expected = _OVERHEAD + spent / max(len(sample), 1) * len(patches)
        self._log.info("downtime_expected", seconds=round(expected, 1), patches=len(patches), limit=limit)
        if expected > limit:
            raise Refused(
                f"GM-204: {len(patches)} patches would keep the operator away for about {expected:.0f} s, more than "
                f"--max-downtime {limit:.0f} s; allow more, or migrate at a quieter time"
            )

    def _record(self) -> None:
        """Write down what a rerun or a revert needs, before the first patch."""
        if self._options.revert:
            self._record_revert()
            return
        unfinished = self._hold.unfinished
        if unfinished is None:
            self._hold.begin_record(WRITING, *self._hold.remembered_operator())
        elif unfinished.state != REVERTING or self._hold.recorded.tables:
            self._hold.save_record(replace(unfinished, state=WRITING))
        tables = [table_of(plan) for plan in self._plan.trees if plan.state is TreeState.MIGRATE]
        undoing = self._undoing()
        written = {plan.tree.ref.uid for plan in undoing}
        stand = self._hold.recorder.save_tables(
            tables, replacing=[table.uid for table in tables if table.uid not in written]
        )
        self._hold.recorded = replace(self._hold.recorded, tables=stand)
        if unfinished is not None:
            self._earlier = {plan.tree.ref: top_down(job_of(plan)) for plan in undoing}
            self._dirty = bool(undoing)

    def _record_revert(self) -> None:
        """A migration that is being undone is not finished any more: whatever becomes of this run, others must know."""
        run = self._hold.recorded.run
        if run is not None and any(plan.changes for plan in self._plan.trees):
            self._hold.save_record(replace(run, state=REVERTING, finished=None, lease=self._hold.lease_name))

    def _execute(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Write; on an error bring back what must be brought back, and raise what the cluster's state is."""
        self._dirty = True
        outcomes = self._executor().run(jobs, keep_going=self._options.on_conflict == "skip")
        touched = [outcome for outcome in outcomes if not outcome.untouched]
        self._dirty = bool(touched or self._earlier)
        failed = [outcome for outcome in outcomes if outcome.error is not None]
        if not failed:
            if len(outcomes) < len(jobs):
                raise _interrupted(len(outcomes), len(jobs), touched=bool(touched))
            return outcomes
        cause = _worst(failed)
        if not self._dirty:
            raise cause
        if isinstance(cause, LeaseLost):
            if self._is_half_done(outcomes):
                raise NotReverted(f"{cause} (in the middle of a set); run again, or `run --revert`") from cause
            raise cause
        if isinstance(cause, TreeConflict) and self._options.on_conflict == "skip":
            names = {outcome.job.ref for outcome in failed}
            self._undo([outcome.undoable for outcome in failed if not outcome.untouched], cause, only=names)
            if len(outcomes) < len(jobs):
                raise _interrupted(len(outcomes), len(jobs), touched=True)
            return outcomes
        raise self._put_back([outcome.undoable for outcome in touched], cause) from cause

    def _verify(self, jobs: Sequence[Job]) -> None:
        """Prove from one fresh snapshot that every planned value is there."""
        trees = [plan.tree for plan in self._plan.trees]
        try:
            wrong, noticed = check_written(jobs, trees, take(self._store))
        except MigratorError as error:
            raise self._put_back(jobs, error, "what was written could not be read back: ") from error
        for problem in noticed:
            self._log.warning("changed_meanwhile", object=str(problem.ref), field=problem.field, what=problem.message)
        if wrong:
            cause = VerificationFailed(f"{len(wrong)} values are not what was written: {wrong[0].message}", wrong)
            raise self._put_back(jobs, cause) from cause
        values = sum(len(patch.changes) for job in jobs for patch in job.patches)
        self._log.info("written_values_verified", values=values)

    def _check_stranger(self, jobs: Sequence[Job]) -> None:
        """Before the Lease goes: no operator but the target's may find what was written."""
        if self._options.revert or not self._dirty:
            return
        try:
            stranger = self._hold.stranger({plan.target for plan in self._plan.trees if plan.state in _OURS})
        except MigratorError as error:
            raise self._put_back(jobs, error, "whether an operator runs cannot be seen: ") from error
        if stranger is not None:
            cause = LostRace(
                f"{stranger} is not the target's: somebody started an operator during the run (keep it at zero, or "
                "name the target's image with --target-image)"
            )
            raise self._put_back(jobs, cause) from cause

    def _close(self, result: RunResult) -> None:
        """The record tells the end; a migration that is proven to be complete does not fail for want of that.

        Without the Lease nothing is proven: what was read may be somebody else's half-way.
        """
        self._hold.check()
        if self._options.revert:
            self._close_revert()
            return
        unfinished = self._hold.unfinished
        if unfinished is None:
            return
        counts = {"trees": result.trees, "patches": result.patches}
        try:
            self._hold.save_record(replace(unfinished, state=DONE, finished=self._context.now(), counts=counts))
        except MigratorError as error:
            self._log.warning("record_not_closed", error=str(error), next="run again: it closes the record")

    def _close_revert(self) -> None:
        """Nothing of the migration is left: the old operator may come back, and the record goes."""
        try:
            self._hold.restore_operator()
            self._hold.forget()
        except MigratorError as error:
            raise NotReverted(
                f"every hash is back, but not the operator or the record: {error}; run `run --revert` again"
            ) from error

    # --- going back ---------------------------------------------------------------------------------------------

    def _restore_edited(self) -> None:
        """Bring back what an earlier run left half-written and this one may not finish.

        Those are sets whose spec moved after their first write, and, where this run is refused, every set that it
        had written to.
        """
        refusals = refusals_of(self._plan)
        plans = self._undoing() if refusals and self._written_before() else []
        plans = plans or [plan for plan in self._plan.trees if _is_edited(plan)]
        if not plans:
            return
        reason = refusals[0].message if refusals else "a set was edited after its migration had begun"
        self._dirty = True
        outcomes = self._executor(uninterrupted=True).run([top_down(job_of(plan)) for plan in plans])
        _raise_unless_undone(outcomes, len(plans), Refused(reason))
        self._dirty = False
        if refusals:
            names = f"{plans[0].tree.ref}{f' and {len(plans) - 1} more' if len(plans) > 1 else ''}"
            raise Reverted(f"{refusals[0].code}: {reason} What an earlier run had written to {names} was put back.")

    def _put_back(self, jobs: Sequence[Job], cause: MigratorError, what: str = "") -> Reverted:
        """Put back what jobs wrote; returns the error that tells so, after ``what`` failed."""
        self._undo(jobs, cause)
        self._dirty = False
        if self._hold.superseded is None:
            return Reverted(f"{what}{cause}; everything was put back")
        return Reverted(
            f"{what}{cause}; what this run wrote was put back, and what an earlier run migrated stays so: do not start "
            "the old operator"
        )

    def _undo(self, jobs: Sequence[Job], cause: MigratorError, *, only: Collection[Ref] | None = None) -> None:
        """Put back what jobs wrote, and what a run that died had written, commit records first.

        Of the latter ``only`` these sets, if any are given. Raises NotReverted if anything remains.
        """
        earlier = [job for ref, job in self._earlier.items() if only is None or ref in only]
        self._log.warning("reverting", sets=len(jobs), earlier=len(earlier), cause=str(cause), code=cause.code)
        self._context.deadline.extend(_TIME_TO_REVERT)
        with self._stages.stage("revert"):
            for undone in ([reverse(job) for job in jobs], earlier):
                outcomes = self._executor(uninterrupted=True).run(undone)
                _raise_unless_undone(outcomes, len(undone), cause)
        self._log.info("reverted", sets=len(jobs), earlier=len(earlier))

    def _written_before(self) -> bool:
        """Whether an earlier run wrote, did not end, and left values that a revert would turn back."""
        return self._hold.unfinished is not None and not self._options.revert and bool(self._undoing())

    def _undoing(self) -> list[TreePlan]:
        """What a revert of the recorded sets would turn back: nothing where the target's operator has been through."""
        if self._hold.serves_target:
            return []
        tables = self._hold.recorded.tables
        trees = tuple(plan.tree for plan in self._plan.trees if plan.tree.ref.uid in tables)
        if not trees:
            return []
        undo = make_revert(Snapshot(trees), self._options.plan, tables=tables)
        return [plan for plan in undo.trees if plan.changes]

    def _is_half_done(self, outcomes: Sequence[Outcome]) -> bool:
        """Whether a set is neither as before nor migrated."""
        whole = {outcome.job.ref for outcome in outcomes if outcome.complete}
        return not whole.issuperset(self._earlier) or any(
            not outcome.complete and not outcome.untouched for outcome in outcomes
        )

    def _told(self, error: MigratorError) -> MigratorError:
        """What an error means for the cluster: after a write only what says so may say that nothing is left."""
        if not self._dirty or isinstance(error, LostRace | Reverted | NotReverted):
            return error
        return NotReverted(f"{error}; what was written is still there: run again, or `run --revert`")

    def _abandon(self, error: MigratorError) -> MigratorError:
        """After an error the operator comes back if nothing of ours is left, and stays at zero otherwise.

        Returns the error to end with: one that tells so where the operator should have come back and did not.
        """
        clean = self._is_clean(error)
        if clean:
            try:
                self._hold.restore_operator()
            except MigratorError as second:
                self._log.error("operator_not_restored", error=str(second), next="run again, or scale it yourself")
                error = _left_down(error, f"it could not be given back ({second}): run again, or scale it yourself")
            else:
                if not (self._hold.serves_target and self._hold.recorded.tables):  # else a revert may still need them
                    self._forget()
        elif self._hold.left_down and not self._dirty and not self._options.revert:
            error = _left_down(error, "another run may be in charge: run again")
        self._log.error("run_failed", code=error.code, exit_code=error.exit_code, error=str(error), clean=clean)
        return error

    def _forget(self) -> None:
        try:
            self._hold.forget()
        except MigratorError as error:
            self._log.warning("record_not_removed", error=str(error), next="run again: it removes the record")

    def _is_clean(self, error: MigratorError) -> bool:
        """Whether it is proven that nothing is left of this run, nor of one that died before it."""
        unfinished = self._hold.unfinished
        if unfinished is None or not self._hold.in_charge or self._options.revert:
            return False
        if self._dirty or isinstance(error, NotReverted) or unfinished.state == REVERTING:
            return False
        if isinstance(error, Reverted) or unfinished.state == STOPPING:
            return True
        return self._seen and not self._undoing()

    def _tell_end(self, result: RunResult) -> None:
        """Tell those who look with kubectl; and say whether the operator is up, with which image, and what is next."""
        if not self._options.revert:
            events.migrated(self._store, self._plan, self._context)
        found = self._hold.current_operator()
        if found is not None:
            result.operator_replicas, result.operator_image = found.replicas, found.image
        up = found is not None and found.replicas > 0
        if self._options.revert:
            following = "the old operator may run" if up else "start the old operator"
        else:
            following = "grove-migrator verify --after-upgrade" if up else "start the target's operator (helm upgrade)"
        self._log.info(
            "operator", replicas=result.operator_replicas, image=result.operator_image, up=up, next=following
        )

    def _executor(self, *, uninterrupted: bool = False) -> Executor:
        return executor_for(self._store, self._context, check=self._hold.check, uninterrupted=uninterrupted)


def _raise_unless_undone(outcomes: Sequence[Outcome], wanted: int, cause: MigratorError) -> None:
    failed = [outcome for outcome in outcomes if not outcome.complete]
    left = len(failed) + wanted - len(outcomes)
    if left:
        detail = f" ({failed[0].job.ref}: {failed[0].error})" if failed else ""
        raise NotReverted(
            f"{cause}; and {left} of {wanted} sets could not be put back{detail}: keep the operator at zero, and run "
            "again or `run --revert`"
        ) from cause


def _left_down(error: MigratorError, why: str) -> MigratorError:
    """The same, and that the operator is at zero; under another code where its own says that it is not."""
    kinds: dict[type[MigratorError], type[MigratorError]] = {Reverted: NotReverted, Refused: ClusterError}
    kind = kinds.get(type(error), type(error))
    return kind(f"{error}; and the operator stays at zero, for {why}")


def _interrupted(begun: int, wanted: int, *, touched: bool) -> MigratorError:
    if not touched:
        return Interrupted("interrupted before the first write; run again")
    return NotReverted(f"interrupted after {begun} of {wanted} sets; run again to finish, or `run --revert`")


def _worst(failed: Sequence[Outcome]) -> MigratorError:
    """The error that decides: a lost Lease first, for it forbids everything, and a mere conflict last."""
    errors = [outcome.error for outcome in failed if outcome.error is not None]
    return min(errors, key=lambda error: (not isinstance(error, LeaseLost), isinstance(error, TreeConflict)))


def _is_edited(plan: TreePlan) -> bool:
    return bool(plan.changes) and any(finding.code == _EDITED for finding in plan.findings)
