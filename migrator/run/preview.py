"""What writes nothing to a cluster: a dry run, and what ``plan`` shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from migrator.cluster import Cluster
from migrator.errors import Interrupted, NotAuthorised, Rejected, UsageError
from migrator.grove.objects import Snapshot
from migrator.hashing import schemes
from migrator.planning import crds
from migrator.planning.detect import hashes_of
from migrator.planning.disruption import all_pods
from migrator.planning.guards import unjudged
from migrator.planning.guards.base import as_warning, report
from migrator.planning.model import Disruption, NotChecked, Plan, in_flight
from migrator.planning.options import PlanOptions
from migrator.planning.planner import Known, Outlook, Target, make_plan, plans_for_all_releases
from migrator.run import admission, operator, webhooks
from migrator.run.context import Context, RunOptions, RunResult, log_findings, timed
from migrator.run.record import Record, State
from migrator.run.seen import Observation, check_there, look_ahead, newest_record
from migrator.run.snapshot import read_snapshot
from migrator.run.write import Executor, Outcome

_PAUSE: Final = 2.0  # seconds between two readings, with --wait


def rehearse(cluster: Cluster, options: RunOptions, context: Context) -> RunResult:
    """Do what the run with these options would do, but leave Leases, record and Deployment alone.

    Every patch is sent with ``dryRun=All``.
    """
    seconds: dict[str, float] = {}
    until = context.clock() + options.wait
    while True:
        context.deadline.restart()
        with timed("snapshot", seconds, context):
            seen = look_ahead(cluster, options, context)
        if not in_flight(seen.plan) or context.clock() >= until or context.stop.is_set():
            break
        context.sleep(_PAUSE)
    log_findings(seen.plan, context.log, set())
    refusal = seen.refused
    if refusal is not None:
        raise refusal
    result = RunResult(seen.plan, seconds=seconds)
    admission.prove(cluster, seen)
    if seen.opened and seen.blocking:
        context.log.warning("webhooks_not_opened", consequence="a dry run leaves webhooks as they are")
        return result
    batches = [batch for phase in seen.phases for batch in phase]
    executor = Executor(
        cluster,
        check=lambda: None,
        stopping=context.is_over,
        concurrency=context.concurrency,
        log=context.log,
    )
    with timed("execute", seconds, context):
        outcomes = executor.run(batches)
    _check_ended(outcomes, len(batches))
    result.patches, result.sets = sum(outcome.written for outcome in outcomes), {done.batch.ref for done in outcomes}
    return result


def _check_ended(outcomes: Sequence[Outcome], sets: int) -> None:
    """Raise what stopped a set, or :class:`~migrator.errors.Interrupted` where some of the ``sets`` were not begun."""
    for outcome in outcomes:
        if isinstance(outcome.error, Rejected):  # the run would be refused, or reverted
            raise admission.refusal(outcome.batch.ref, outcome.error) from outcome.error
        if outcome.error is not None:
            raise outcome.error
    if len(outcomes) < sets:
        raise Interrupted(
            f"a signal or --timeout ended this after {len(outcomes)} of {sets} sets, and nothing was written; run again"
        )


def preview(cluster: Cluster, options: PlanOptions, *, now: Callable[[], datetime]) -> Plan:
    """Describe what a run would do.

    What refuses only a run is a warning; what cannot be read is unchecked.
    Raises what the cluster raises, and :class:`~migrator.errors.UsageError` for a cluster without Grove's CRDs.
    """
    read = _read(cluster, options, now)
    return read.added_to(make_plan(read.snapshot, options, read.known))


def first_look(
    cluster: Cluster, options: PlanOptions, *, now: Callable[[], datetime]
) -> tuple[Outlook, Iterator[Target]]:
    """The cluster as it is, and a plan for every scheme that a release uses."""
    read = _read(cluster, options, now)
    targets = (
        replace(target, plan=read.added_to(target.plan))
        for target in plans_for_all_releases(read.snapshot, options, read.known)
    )
    trees = [tree for tree in read.snapshot.trees if options.selects(tree.pcs)]
    for tree in trees:  # before GPUs are counted: what Go could not decode is named with its path; each plan needs it
        hashes_of(tree.pcs)(schemes.released_schemes()[0])
    pods = sum(map(all_pods, trees), Disruption())
    run = read.seen.open
    look = Outlook(
        name=cluster.name,
        is_cluster=cluster.is_cluster,
        sets=len(trees),
        pods=pods.pods,
        gpus=pods.gpus,
        operator=read.operator,
        running=read.known.running,
        record="" if run is None else _story(run),
        resumes=() if run is None else run.flags,
    )
    return look, targets


def _story(run: Record) -> str:
    """What became of a run that did not end."""
    kind = "A revert of the migration" if run.revert else "A run"
    wrote = "may have written" if run.state is State.WRITING else "has written nothing"
    return (
        f"{kind} from {run.source} to {run.target} did not end. It began at {run.started:%Y-%m-%d %H:%M} UTC and "
        f"{wrote}." + (f" Last error: {run.error}" if run.error else "")
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read, for plans of any target: the sets, and the operator and the record, which a dump does not have."""

    snapshot: Snapshot
    seen: Observation
    known: Known = field(default_factory=Known)
    not_checked: tuple[NotChecked, ...] = ()

    @property
    def operator(self) -> str | None:
        """What the operator is like, in words; ``None`` if none was found."""
        return self.seen.operator.description if self.seen.operator is not None else None

    def added_to(self, plan: Plan) -> Plan:
        """The plan with the operator and, if there is anything to change, with what a run would object to."""
        plan = replace(plan, operator=self.operator, running=self.known.running)
        if not any(set_plan.changes for set_plan in plan.set_plans):
            return plan
        options = replace(self.seen.options.plan, target=plan.requested_target)
        seen = replace(self.seen, options=replace(self.seen.options, plan=options))
        found, installed = seen.findings(), seen.operator
        if installed is not None and not installed.gone:
            ref = installed.pods[0].ref if installed.pods else None
            remedy = "the run needs it stopped, with --stop-operator or by hand"
            found.append(report("GM-122", ref, None, f"{installed} is running ({installed.image})", remedy))
        findings = (*plan.findings, *map(as_warning, found))
        return replace(plan, findings=findings, not_checked=(*plan.not_checked, *self.not_checked))


def _read(cluster: Cluster, options: PlanOptions, now: Callable[[], datetime]) -> _Read:
    """Read everything once; what cannot be read about operator and record becomes a ``NotChecked``."""
    snapshot = read_snapshot(cluster, search=True, phases=True, namespace=options.namespace)
    # As with --stop-operator: `added_to` tells that the operator runs, as a warning.
    seen, unseen = Observation(RunOptions(options, stop_operator=True)), list[NotChecked]()
    if not cluster.is_cluster:
        return _Read(snapshot, seen)
    if not snapshot.installed:
        raise UsageError(
            "this API server does not know podcliquesets.grove.io: Grove's CRDs are not installed; is this the right "
            "cluster?"
        )
    try:
        seen = replace(seen, found=operator.find(cluster, seen.options.flags))
    except NotAuthorised as error:
        unseen.append(unjudged("GM-122", str(error)))
    try:
        seen = replace(seen, record=newest_record(cluster))
    except NotAuthorised as error:
        unseen.append(unjudged("GM-205", str(error)))
    try:
        seen = replace(seen, webhooks=webhooks.read(cluster))
    except NotAuthorised as error:
        unseen.append(unjudged("GM-202", str(error)))
    if options.namespace is None:  # else the sets of the record may be elsewhere
        check_there(snapshot, seen)
    short_names = cluster.short_names(crds.GROUP)
    known = Known(now(), seen.release, seen.open is not None, short_names=short_names)
    return _Read(snapshot, seen, known, tuple(unseen))
