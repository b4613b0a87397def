"""What every kind of run shares: options, result, stages, and the steps between snapshot and patches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from migrator.errors import ApiError, Refused, UsageError
from migrator.gc_paused import uncollected
from migrator.grove.model import Finding, Plan, Severity, Snapshot, TreeState
from migrator.planning.options import PlanOptions
from migrator.planning.planner import make_plan
from migrator.planning.revert import make_revert
from migrator.resources import NAMESPACES
from migrator.run import operator, record
from migrator.run.context import Context
from migrator.run.execute import Executor, Job, job_of, top_down
from migrator.store import Store

DEFAULT_NAMESPACE: Final = "grove-system"

#: How far a run got, in its record: before and after the first patch may have been sent. A revert that found no record
#: has one of its own, only to give the operator back.
STOPPING: Final = "stopping"
WRITING: Final = "writing"
REVERTING: Final = "reverting"
DONE: Final = "done"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user asks of a run; times are in seconds."""

    plan: PlanOptions
    revert: bool = False
    stop_operator: bool = False
    wait_for_idle: float | None = None
    max_downtime: float | None = None
    on_conflict: Literal["stop", "skip"] = "stop"
    exempt_from_authorizer: bool = False
    operator_namespace: str | None = None
    operator_deployment: str | None = None
    lease_name: str | None = None
    target_image: str | None = None
    target_digests: frozenset[str] = frozenset()
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


class Stages:
    """The time of each stage, and one event for each."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what happens inside, and log its begin and end."""
        started = self._context.clock()
        self._context.log.info("stage_started", stage=name)
        try:
            yield
        finally:
            spent = self._context.clock() - started
            self.seconds[name] = round(self.seconds.get(name, 0.0) + spent, 3)
            self._context.log.info("stage_ended", stage=name, seconds=round(spent, 3))


def plan_for(snapshot: Snapshot, options: RunOptions, recorded: record.Recorded, context: Context) -> Plan:
    """The plan of a migration or of a revert."""
    if options.revert and _wrote_nothing(recorded, options.plan):
        return Plan(options.plan.source, options.plan.target, ())
    with uncollected():
        if options.revert:
            return make_revert(snapshot, options.plan, tables=recorded.tables)
        return make_plan(snapshot, options.plan, tables=recorded.tables, now=context.now())


def _wrote_nothing(recorded: record.Recorded, options: PlanOptions) -> bool:
    """Whether the run that is to be undone died before it recorded tables, and so before its first patch."""
    run = recorded.run
    if run is None or run.finished is not None or run.state == REVERTING or recorded.tables:
        return False
    return (run.source, run.target) == (options.source, options.target)


def jobs_of(plan: Plan, *, revert: bool) -> list[Job]:
    """What a plan has to write; a revert goes top-down, so that the commit record falls first."""
    jobs = [job_of(tree) for tree in plan.trees if tree.state is TreeState.MIGRATE]
    return [top_down(Job(job.ref, job.patches)) for job in jobs] if revert else jobs


def executor_for(store: Store, context: Context, *, check: Callable[[], None], uninterrupted: bool = False) -> Executor:
    """An executor for a store; a file is written by one worker."""
    return Executor(
        store,
        check=check,
        stopping=(lambda: False) if uninterrupted else context.stop.is_set,
        workers=context.workers if store.is_cluster else 1,
        log=context.log,
    )


def refusals_of(plan: Plan) -> list[Finding]:
    """Everything that forbids the run."""
    own = [finding for tree in plan.trees for finding in tree.refusals]
    return own + [finding for finding in plan.findings if finding.severity is Severity.REFUSAL]


def refuse_if_any(plan: Plan) -> None:
    """Raise :class:`~migrator.errors.Refused` with the first refusal and how many more there are."""
    refusals = refusals_of(plan)
    if refusals:
        first = refusals[0]
        more = f" (and {len(refusals) - 1} more refusals; `plan` lists them all)" if len(refusals) > 1 else ""
        raise Refused(f"{first.code}: {first.message}{more}")


def log_findings(plan: Plan, context: Context) -> None:
    """One event for each finding."""
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


def namespace_of(store: Store, options: RunOptions, context: Context, found: operator.Operator | None) -> str:
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
