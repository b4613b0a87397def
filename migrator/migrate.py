"""The run, as a small state machine.

preflight (read, guard, refuse early) -> stop the operator -> fence -> snapshot and guard again -> record ->
execute -> verify -> release. The operator is disturbed only once nothing refuses, nothing is written before the
record stands, and the old operator comes back only if nothing is left of what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from migrator import authorizer, events, operator, record
from migrator.baseline import table_of
from migrator.context import Context
from migrator.errors import (
    ApiError,
    ClusterError,
    LeaseLost,
    LostRace,
    MigratorError,
    NotReverted,
    Refused,
    Reverted,
    UsageError,
    VerificationFailed,
)
from migrator.execute import Executor, Job, Outcome, TreeConflict, job_of, reverse, top_down
from migrator.fence import Fence
from migrator.guards.base import refuse
from migrator.hashing import schemes
from migrator.model import Finding, Plan, Severity, Snapshot, TreePlan, TreeState
from migrator.plan import PlanOptions, direction, make_plan, make_revert
from migrator.snapshot import take
from migrator.store import NAMESPACES, DryRun, Store
from migrator.verify import check_written

DEFAULT_NAMESPACE = "grove-system"

#: What stopping the operator, taking the Lease and starting the next operator cost beside the patches, in seconds.
_OVERHEAD = 30.0
_SAMPLE = 32
_RESTORED = "GM-130"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user asks of a run; times are in seconds."""

    plan: PlanOptions
    revert: bool = False
    stop_operator: bool = False
    wait_for_idle: float | None = None
    max_downtime: float | None = None
    on_conflict: Literal["stop", "skip"] = "stop"
    timeout: float | None = None
    exempt_from_authorizer: bool = False
    operator_namespace: str | None = None
    operator_deployment: str | None = None
    lease_name: str | None = None
    target_image: str | None = None
    interval: float = 1.0


@dataclass(slots=True)
class RunResult:
    """What a run did. ``seconds`` holds the time of each stage, ``patches`` what the server applied."""

    plan: Plan
    patches: int = 0
    trees: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    operator_replicas: int | None = None
    operator_image: str | None = None


def run(store: Store, options: RunOptions, context: Context) -> RunResult:
    """Migrate, or with ``revert`` undo a migration; returns when every planned value is proven to be there.

    Raises a :class:`~migrator.errors.MigratorError` whose exit code says what state the cluster is in.
    """
    direction(options.plan)
    if not store.is_cluster or store.dry_run is not DryRun.NONE:
        return _Rehearsal(store, options, context).run()
    return _Migration(store, options, context).run()


class _Stages:
    """The time of each stage, and one event for each."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = self._context.clock()
        self._context.log.info("stage_started", stage=name)
        try:
            yield
        finally:
            spent = self._context.clock() - started
            self.seconds[name] = round(self.seconds.get(name, 0.0) + spent, 3)
            self._context.log.info("stage_ended", stage=name, seconds=round(spent, 3))


class _Rehearsal:
    """A run on a file, or a dry run: no Lease, no record, no Deployment; refuses where the run would."""

    def __init__(self, store: Store, options: RunOptions, context: Context) -> None:
        self._store = store
        self._options = options
        self._context = context
        self._stages = _Stages(context)

    def run(self) -> RunResult:
        with self._stages.stage("snapshot"):
            snapshot = take(self._store)
        recorded = self._recorded()
        with self._stages.stage("plan"):
            plan = _plan(snapshot, self._options, recorded, self._context)
        _log_findings(plan, self._context)
        _refuse_if_any(plan)
        result = RunResult(plan, seconds=self._stages.seconds)
        jobs = _jobs(plan, revert=self._options.revert)
        if self._store.dry_run is DryRun.CLIENT:
            return result
        with self._stages.stage("execute"):
            outcomes = _executor(self._store, self._context, check=lambda: None).run(jobs)
            for outcome in outcomes:
                if outcome.error is not None:
                    raise outcome.error
        result.patches, result.trees = sum(o.writes for o in outcomes), len(outcomes)
        if not self._store.is_cluster:
            with self._stages.stage("verify"):
                wrong, _ = check_written(jobs, (), take(self._store))
                if wrong:
                    raise VerificationFailed(wrong[0].message)
        return result

    def _recorded(self) -> record.Recorded:
        if not self._store.is_cluster:
            return record.Recorded()
        found = operator.find(
            self._store,
            namespace=self._options.operator_namespace,
            deployment=self._options.operator_deployment,
            lease_name=self._options.lease_name,
        )
        namespace = _namespace(self._store, self._options, self._context, found)
        return record.Recorder(self._store, namespace).load()


class _Migration:
    """A run that writes."""

    def __init__(self, store: Store, options: RunOptions, context: Context) -> None:
        self._store = store
        self._options = options
        self._context = context
        self._log = context.log
        self._stages = _Stages(context)
        self._operator: operator.Operator | None = None
        self._namespace = DEFAULT_NAMESPACE
        self._recorder = record.Recorder(store, DEFAULT_NAMESPACE)
        self._recorded = record.Recorded()
        self._fence: Fence | None = None
        self._exempted = False
        self._wrote = False
        self._plan = Plan(options.plan.source, options.plan.target, ())
        self._deadline = None if options.timeout is None else context.clock() + options.timeout
        self._result: RunResult | None = None

    # --- the states, in order -----------------------------------------------------------------------------------

    def run(self) -> RunResult:
        try:
            result = self._run()
        except MigratorError as error:
            self._abandon(error)
            raise
        finally:
            self._let_go()
        self._log_end(result)
        return result

    def _run(self) -> RunResult:
        with self._stages.stage("preflight"):
            self._preflight()
        pending = _jobs(self._plan, revert=self._options.revert)
        result = self._result = RunResult(self._plan, seconds=self._stages.seconds)
        if not pending and not self._refusals():
            self._log.info("nothing_to_do", trees=len(self._plan.trees))
            if self._options.revert:
                self._back_to_the_old()
            return result
        self._check_downtime(pending)
        if self._options.stop_operator and self._operator is not None:
            with self._stages.stage("stop"):
                self._stop_operator()
        with self._stages.stage("fence"):
            self._take_lease()
        with self._stages.stage("snapshot"):
            snapshot = take(self._store)
        self._plan = result.plan = self._make_plan(snapshot)
        self._restore_edited()
        _refuse_if_any(self._plan)
        jobs = _jobs(self._plan, revert=self._options.revert)
        with self._stages.stage("probe"):
            self._probe(jobs)
        with self._stages.stage("record"):
            self._record()
        with self._stages.stage("execute"):
            outcomes = self._execute(jobs)
        lost = [o for o in outcomes if o.error is not None]
        with self._stages.stage("verify"):
            self._verify([o.job for o in outcomes if o.complete], [p.tree for p in self._plan.trees])
        self._check_release()
        result.patches, result.trees = sum(o.writes for o in outcomes if o.complete), sum(o.complete for o in outcomes)
        if self._options.revert:
            self._recorder.delete_all()
            self._back_to_the_old()
        else:
            self._finish_record(result)
            events.migrated(self._store, self._plan, self._context)
        if lost:
            names = ", ".join(str(o.job.ref) for o in lost)
            raise LostRace(f"{len(lost)} sets changed during the run and were brought back: {names}; run again")
        return result

    def _preflight(self) -> None:
        """Read everything, and refuse before anything is disturbed."""
        self._operator = operator.find(
            self._store,
            namespace=self._options.operator_namespace,
            deployment=self._options.operator_deployment,
            lease_name=self._options.lease_name,
        )
        self._namespace = _namespace(self._store, self._options, self._context, self._operator)
        self._recorder = record.Recorder(self._store, self._namespace)
        self._recorded = self._recorder.load()
        authorizer.withdraw_stale(self._store, self._context.log)
        waited_until = self._context.clock() + (self._options.wait_for_idle or 0.0)
        while True:
            self._plan = self._make_plan(take(self._store))
            if not self._refusals() or self._context.clock() >= waited_until or self._context.stop.is_set():
                break
            self._log.info("waiting_for_idle", refusals=len(self._refusals()))
            self._context.sleep(self._options.interval)
        if self._edited() or (self._refusals() and self._half_written()):
            return  # something was written before: it is brought back behind the fence, then refused
        events.refused(self._store, self._plan, self._context)
        _refuse_if_any(self._plan)

    def _make_plan(self, snapshot: Snapshot) -> Plan:
        plan = _plan(snapshot, self._options, self._recorded, self._context)
        plan = replace(plan, findings=(*plan.findings, *self._cluster_findings(plan)))
        _log_findings(plan, self._context)
        return plan

    def _cluster_findings(self, plan: Plan) -> list[Finding]:
        findings: list[Finding] = []
        if not any(p.changes for p in plan.trees):
            return findings
        found = self._operator if self._fence is None else self._refreshed()
        if found is not None and found.pods and not (self._options.stop_operator and self._fence is None):
            pod = found.pods[0]
            findings.append(
                refuse(
                    "GM-122",
                    pod.ref,
                    None,
                    f"{len(found.pods)} operator pods exist, {pod.ref} ({pod.image}) among them: a live operator that "
                    "sees other hashes starts a rolling update; scale it to zero, or run with --stop-operator",
                )
            )
        elif found is not None and found.replicas > 0 and not self._options.stop_operator:
            findings.append(
                refuse(
                    "GM-122",
                    None,
                    None,
                    f"{found} has replicas {found.replicas}: scale it to zero, or run with --stop-operator",
                )
            )
        blocking = authorizer.blocking(self._store)
        if blocking is not None and not self._options.exempt_from_authorizer:
            findings.append(refuse("GM-202", None, None, blocking.remedy))
        return findings

    def _stop_operator(self) -> None:
        found = self._operator
        assert found is not None  # noqa: S101 - asked only where there is one
        run_record = self._recorded.run
        before = found.replicas
        if before == 0 and run_record is not None and run_record.operator_replicas and not run_record.finished:
            before = run_record.operator_replicas  # a run of ours died after stopping it
        self._begin_record("stopping", replicas=before, image=found.image)
        if found.replicas > 0:
            operator.scale(self._store, found, 0)
            self._log.info("operator_stopped", deployment=str(found), replicas=found.replicas, image=found.image)
        self._operator = operator.wait_until_gone(
            self._store,
            found,
            clock=self._context.clock,
            sleep=self._context.sleep,
            deadline=self._until(found.lease_duration * 8),
        )

    def _take_lease(self) -> None:
        found = self._operator
        fence = Fence(
            self._store,
            namespace=self._namespace,
            name=found.lease_name if found else self._options.lease_name or "grove-migrator",
            duration=found.lease_duration if found else 15.0,
            identity=self._context.identity,
            request_timeout=self._store.request_timeout,
            clock=self._context.clock,
            sleep=self._context.sleep,
        )
        fence.acquire(self._until(max(120.0, 8 * (found.lease_duration if found else 15.0))))
        self._fence = fence
        self._log.info("lease_held", lease=str(fence))

    def _probe(self, jobs: Sequence[Job]) -> None:
        """Prove, without an effect, that admission lets our label patches through."""
        if self._options.exempt_from_authorizer:
            self._exempted = authorizer.exempt(self._store, self._context)
        authorizer.probe(self._store.in_dry_run(DryRun.SERVER), [patch for job in jobs for patch in job.patches])

    def _record(self) -> None:
        if self._options.revert:
            return
        run_record = self._recorded.run
        if run_record is None or run_record.finished:
            self._begin_record("writing", replicas=None, image=self._operator.image if self._operator else None)
        else:
            self._save_run(replace(run_record, state="writing"))
        tables = [table_of(plan) for plan in self._plan.trees if plan.state is TreeState.MIGRATE]
        settled = [table.uid for table in tables if not self._is_half_written(table.uid)]
        stand = self._recorder.save_tables(tables, replacing=settled)
        self._recorded = replace(self._recorded, tables=stand)

    def _begin_record(self, state: str, *, replicas: int | None, image: str | None) -> None:
        self._save_run(
            record.RunRecord(
                run_id=self._context.run_id,
                identity=self._context.identity,
                source=self._options.plan.source,
                target=self._options.plan.target,
                started=self._context.now(),
                finished=None,
                state=state,
                operator_replicas=replicas,
                operator_image=image,
            )
        )

    def _save_run(self, run_record: record.RunRecord) -> None:
        self._recorder.save_run(run_record)
        self._recorded = replace(self._recorded, run=run_record)

    def _execute(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Write; on an error bring back what must be brought back, and raise what the cluster's state is."""
        self._wrote = True
        outcomes = self._executor().run(jobs, keep_going=self._options.on_conflict == "skip")
        failed = [o for o in outcomes if o.error is not None]
        touched = [o for o in outcomes if not o.untouched]
        self._wrote = bool(touched)
        if not failed:
            if len(outcomes) < len(jobs):
                self._interrupted(len(outcomes), len(jobs), touched=bool(touched))
            return outcomes
        cause = next((o.error for o in failed if not isinstance(o.error, TreeConflict)), failed[0].error)
        assert cause is not None  # noqa: S101 - failed means that it has an error
        if not touched:
            raise cause
        if any(isinstance(o.error, LeaseLost) for o in failed):
            if any(not o.complete for o in touched):
                raise NotReverted(f"{cause} (in the middle of a set); run again, or `run --revert`") from cause
            raise cause
        if isinstance(cause, TreeConflict) and self._options.on_conflict == "skip":
            self._undo([o.job for o in failed if not o.untouched], cause)
            return outcomes
        self._undo([o.job for o in touched], cause)
        self._wrote = False
        raise Reverted(f"{cause}; everything that had been written was put back") from cause

    def _interrupted(self, begun: int, wanted: int, *, touched: bool) -> None:
        if not touched:
            raise ClusterError("interrupted before the first write; run again")
        raise NotReverted(f"interrupted after {begun} of {wanted} sets; run again to finish, or `run --revert`")

    def _verify(self, jobs: Sequence[Job], trees: Sequence[object]) -> None:
        try:
            after = take(self._store)
        except MigratorError as error:
            self._undo(jobs, error)
            self._wrote = False
            raise Reverted(f"could not read back what was written: {error}; everything was put back") from error
        wrong, noticed = check_written(jobs, trees, after)  # type: ignore[arg-type]
        for problem in noticed:
            self._log.warning(
                "changed_meanwhile", object=str(problem.ref), field=problem.field, message=problem.message
            )
        if wrong:
            cause = VerificationFailed(f"{len(wrong)} values are not what was written: {wrong[0].message}")
            self._undo(jobs, cause)
            self._wrote = False
            raise Reverted(f"{cause}; everything was put back") from cause
        self._log.info("verified", values=sum(len(p.changes) for j in jobs for p in j.patches), problems=0)

    def _check_release(self) -> None:
        """Before the Lease goes: no operator but the target's may find what was written."""
        if not self._wrote or self._options.revert:
            return
        found = self._refreshed()
        if found is None:
            return
        targets = {plan.target for plan in self._plan.trees}
        strangers = [p for p in found.pods if not self._is_target(p.image, targets)]
        wrong_replicas = found.replicas > 0 and not self._is_target(found.image, targets)
        if not strangers and not wrong_replicas:
            return
        what = (
            f"operator pod {strangers[0].ref} ({strangers[0].image})"
            if strangers
            else f"{found} with replicas {found.replicas} and image {found.image}"
        )
        cause = LostRace(f"{what} is not the target's: somebody started the old operator again")
        self._undo([job_of(plan) for plan in self._plan.trees if plan.state is TreeState.MIGRATE], cause)
        self._wrote = False
        raise Reverted(f"{cause}; everything was put back. Keep the operator at zero during the run") from cause

    # --- going back ---------------------------------------------------------------------------------------------

    def _restore_edited(self) -> None:
        """Bring back sets whose spec moved after their first write, or all of a run that is refused half-way."""
        edited = [plan for plan in self._plan.trees if _is_edited(plan)]
        refused = bool(self._refusals())
        plans = self._undoing() if refused and self._half_written() else edited
        if not plans:
            return
        reason = next((f.message for f in self._refusals()), "a set was edited after its migration had begun")
        self._wrote = True
        outcomes = self._executor().run([top_down(Job(p.tree.ref, job_of(p).patches)) for p in plans])
        self._raise_unless_undone(outcomes, len(plans), Refused(reason))
        self._wrote = False
        if refused:
            raise Reverted(f"{reason} What an earlier run had written was put back.")

    def _undo(self, jobs: Sequence[Job], cause: MigratorError) -> None:
        """Put back what jobs wrote, commit records first. Raises NotReverted if anything remains."""
        self._log.warning("reverting", sets=len(jobs), cause=str(cause), code=cause.code)
        with self._stages.stage("revert"):
            outcomes = self._executor(uninterrupted=True).run([reverse(job) for job in jobs])
        self._raise_unless_undone(outcomes, len(jobs), cause)
        self._log.info("reverted", sets=len(jobs))

    def _raise_unless_undone(self, outcomes: Sequence[Outcome], wanted: int, cause: MigratorError) -> None:
        failed = [o for o in outcomes if not o.complete]
        if failed or len(outcomes) < wanted:
            detail = f" ({failed[0].job.ref}: {failed[0].error})" if failed else ""
            raise NotReverted(
                f"{cause}; and {len(failed) + wanted - len(outcomes)} of {wanted} sets could not be put back{detail}: "
                "keep the operator at zero, and run again or `run --revert`"
            ) from cause

    def _back_to_the_old(self) -> None:
        """After a complete revert the old operator may come back, if a run of ours stopped it."""
        run_record = self._recorded.run
        if run_record is not None and run_record.operator_replicas and self._options.stop_operator:
            self._restore_replicas(run_record.operator_replicas)

    def _restore_replicas(self, replicas: int) -> None:
        if self._operator is None or not self._operator.deployment:
            return
        found = operator.refresh(self._store, self._operator)
        if found.replicas == 0:
            operator.scale(self._store, found, replicas)
            self._log.info("operator_restored", deployment=str(found), replicas=replicas, image=found.image)

    def _abandon(self, error: MigratorError) -> None:
        """After an error: the operator comes back if nothing of ours is left, and stays at zero otherwise."""
        held = self._fence is not None
        run_record = self._recorded.run
        mine = self._options.stop_operator and run_record is not None and not run_record.finished
        clean = not self._wrote and not isinstance(error, NotReverted)
        if mine and clean and run_record is not None and run_record.operator_replicas:
            if not isinstance(error, Reverted) and self._half_written():
                self._log.error("operator_stays_at_zero", reason="an earlier run has written and is not undone")
            else:
                try:
                    self._release_lease()
                    self._restore_replicas(run_record.operator_replicas)
                    self._recorder.delete_all()
                except MigratorError as second:
                    self._log.error("operator_not_restored", message=str(second), replicas=run_record.operator_replicas)
        self._log.error("run_failed", code=error.code, exit_code=error.exit_code, message=str(error), lease_held=held)

    def _let_go(self) -> None:
        if self._exempted:
            try:
                authorizer.withdraw(self._store, self._context.log)
            except MigratorError as error:
                self._log.error("exemption_not_removed", message=str(error))
        self._release_lease()

    def _release_lease(self) -> None:
        if self._fence is not None:
            fence, self._fence = self._fence, None
            fence.release()

    # --- small questions ----------------------------------------------------------------------------------------

    def _refusals(self) -> list[Finding]:
        return _refusals(self._plan)

    def _edited(self) -> bool:
        return any(_is_edited(plan) for plan in self._plan.trees)

    def _half_written(self) -> bool:
        """Whether an earlier run wrote, did not finish, and left values that a revert would turn back."""
        run_record = self._recorded.run
        if run_record is None or run_record.finished or self._options.revert:
            return False
        return bool(self._undoing())

    def _is_half_written(self, uid: str) -> bool:
        return any(plan.tree.ref.uid == uid for plan in self._undoing())

    def _undoing(self) -> list[TreePlan]:
        """What a revert of the recorded trees would turn back."""
        tables = self._recorded.tables
        trees = tuple(plan.tree for plan in self._plan.trees if plan.tree.ref.uid in tables)
        if not trees:
            return []
        undo = make_revert(Snapshot(trees), self._options.plan, tables=tables)
        return [plan for plan in undo.trees if plan.changes]

    def _is_target(self, image: str, targets: set[str]) -> bool:
        return any(operator.is_target(image, schemes.by_name(name), self._options.target_image) for name in targets)

    def _refreshed(self) -> operator.Operator | None:
        if self._operator is None:
            return operator.find(self._store, namespace=None, deployment=None, lease_name=self._options.lease_name)
        return operator.refresh(self._store, self._operator)

    def _until(self, seconds: float) -> float:
        until = self._context.clock() + seconds
        return until if self._deadline is None else min(until, self._deadline)

    def _executor(self, *, uninterrupted: bool = False) -> Executor:
        def check() -> None:
            if self._fence is not None:
                self._fence.check()

        return _executor(self._store, self._context, check=check, uninterrupted=uninterrupted)

    def _check_downtime(self, jobs: Sequence[Job]) -> None:
        """Refuse if the patches, at the rate that the server shows now, do not fit into ``--max-downtime``."""
        limit = self._options.max_downtime
        if limit is None:
            return
        patches = [patch for job in jobs for patch in job.patches]
        sample = [Job(patch.ref, (patch,)) for patch in patches[:_SAMPLE]]
        started = self._context.clock()
        _executor(self._store.in_dry_run(DryRun.SERVER), self._context, check=lambda: None).run(sample, keep_going=True)
        spent = max(self._context.clock() - started, 1e-3)
        expected = _OVERHEAD + spent / max(len(sample), 1) * len(patches)
        self._log.info("downtime_expected", seconds=round(expected, 1), patches=len(patches), limit=limit)
        if expected > limit:
            raise Refused(
                f"GM-204: {len(patches)} patches would keep the operator away for about {expected:.0f} s, more than "
                f"--max-downtime {limit:.0f}; raise it, or migrate at a quieter time"
            )

    def _finish_record(self, result: RunResult) -> None:
        run_record = self._recorded.run
        if run_record is None:
            return
        counts = {"trees": result.trees, "patches": result.patches}
        self._save_run(replace(run_record, state="done", finished=self._context.now(), counts=counts))

    def _log_end(self, result: RunResult) -> None:
        found = self._operator
        if found is not None and found.deployment:
            found = operator.refresh(self._store, found)
            result.operator_replicas, result.operator_image = found.replicas, found.image


def _plan(snapshot: Snapshot, options: RunOptions, recorded: record.Recorded, context: Context) -> Plan:
    if options.revert:
        return make_revert(snapshot, options.plan, tables=recorded.tables)
    return make_plan(snapshot, options.plan, tables=recorded.tables, now=context.now())


def _jobs(plan: Plan, *, revert: bool) -> list[Job]:
    jobs = [job_of(tree) for tree in plan.trees if tree.state is TreeState.MIGRATE]
    return [top_down(Job(job.ref, job.patches)) for job in jobs] if revert else jobs


def _executor(store: Store, context: Context, *, check: Callable[[], None], uninterrupted: bool = False) -> Executor:
    return Executor(
        store,
        check=check,
        stopping=(lambda: False) if uninterrupted else context.stop.is_set,
        workers=context.workers if store.is_cluster else 1,
        log=context.log,
    )


def _refusals(plan: Plan) -> list[Finding]:
    own = [finding for tree in plan.trees for finding in tree.refusals]
    return own + [finding for finding in plan.findings if finding.severity is Severity.REFUSAL]


def _refuse_if_any(plan: Plan) -> None:
    refusals = _refusals(plan)
    if refusals:
        first = refusals[0]
        more = f" (and {len(refusals) - 1} more refusals; `plan` lists them all)" if len(refusals) > 1 else ""
        raise Refused(f"{first.code}: {first.message}{more}")


def _is_edited(plan: TreePlan) -> bool:
    return bool(plan.changes) and any(finding.code == _RESTORED for finding in plan.findings)


def _log_findings(plan: Plan, context: Context) -> None:
    findings = [finding for tree in plan.trees for finding in tree.findings] + list(plan.findings)
    for finding in findings:
        log = context.log.error if finding.severity is Severity.REFUSAL else context.log.warning
        log(
            finding.severity.value,
            code=finding.code,
            object=str(finding.ref) if finding.ref else None,
            field=finding.field,
            message=finding.message,
        )


def _namespace(store: Store, options: RunOptions, context: Context, found: operator.Operator | None) -> str:
    """Where the Lease and the record are: with the operator, or where the user or our own pod says."""
    if options.operator_namespace is not None:
        return options.operator_namespace
    if found is not None:
        return found.namespace
    if context.namespace is not None:
        return context.namespace
    try:
        store.get(NAMESPACES, "", DEFAULT_NAMESPACE)
    except ApiError as error:
        raise UsageError(
            f"no Grove operator was found and there is no namespace {DEFAULT_NAMESPACE}: say where the operator "
            "lives with --operator-namespace, the Lease and the record are kept there"
        ) from error
    return DEFAULT_NAMESPACE
