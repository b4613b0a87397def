"""A run that writes nothing to a cluster: on a file, as a dry run, and what ``plan`` shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from migrator.errors import NotAuthorised, UsageError, VerificationFailed
from migrator.grove.model import Finding, Plan, Snapshot
from migrator.planning.cluster_findings import operator_unseen, record_unseen
from migrator.planning.options import PlanOptions
from migrator.planning.outlook import Target, outlook
from migrator.planning.planner import make_plan
from migrator.run import events, operator, rights
from migrator.run.context import Context, RunOptions, RunResult
from migrator.run.endings import no_home
from migrator.run.execute import Executor
from migrator.run.observation import Observation, glance, pending, read_sets, refused
from migrator.run.record import Recorder
from migrator.run.snapshot import take
from migrator.store import DryRun, Store


def rehearse(store: Store, options: RunOptions, context: Context) -> RunResult:
    """End as the run with these options would, as far as nothing else happens: no Lease, no record, no Deployment.

    A file is written; a server-side dry run sends every patch with ``dryRun=All``.
    """
    seconds: dict[str, float] = {}
    control, until = glance(store, options), context.clock() + (options.wait_for_idle or 0.0)
    while True:
        with events.timed("snapshot", seconds, context):
            seen = read_sets(store, control, context)
        refusal = refused(seen.plan)
        if refusal is None or context.clock() >= until or context.stop.is_set():
            break
        context.sleep(options.interval)
    events.log_findings(seen.plan, context.log)
    if refusal is not None:
        raise refusal
    result, batches = RunResult(seen.plan, seconds=seconds), seen.batches
    if store.is_cluster and batches:
        _check_rights(store, seen, context)
    del seen  # what is read again needs the room
    if store.dry_run is DryRun.CLIENT:
        return result
    stopping, concurrency = context.stop.is_set, context.concurrency
    executor = Executor(store, check=lambda: None, stopping=stopping, concurrency=concurrency, log=context.log)
    with events.timed("execute", seconds, context):
        outcomes = executor.run(batches)
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    result.patches, result.trees = sum(len(outcome.written) for outcome in outcomes), len(outcomes)
    del batches, outcomes
    if store.dry_run is DryRun.NONE:  # a file: what a dry run sent cannot be read anywhere
        with events.timed("verify", seconds, context):
            again = pending(read_sets(store, control, context).plan)
        if again:
            raise VerificationFailed(f"{again[0].tree.ref} is not as it was written")
    return result


def _check_rights(store: Store, seen: Observation, context: Context) -> None:
    if seen.found.home is None:
        raise no_home()
    needed = rights.of_migration(seen.patches, seen.found.home, seen.operator, seen.options)
    rights.check(store, needed, context.log)


def preview(store: Store, options: PlanOptions, *, now: Callable[[], datetime], namespace: str) -> Plan:
    """Describe what a run would do.

    On a cluster the recorded tables count. A live operator, a webhook that refuses label patches, and an operator or
    a record that may not be read are warnings. ``namespace`` is where the record is if no operator is found. Raises
    what the store raises, and :class:`~migrator.errors.UsageError` for a cluster that does not know PodCliqueSets.
    """
    seen = _look(store, options, now, namespace)
    return seen.described(make_plan(seen.snapshot, options, **seen.known))


def preview_targets(
    store: Store, options: PlanOptions, *, now: Callable[[], datetime], namespace: str
) -> Iterator[Target]:
    """The same for every scheme that a release speaks."""
    seen = _look(store, options, now, namespace)
    for target in outlook(seen.snapshot, options, **seen.known):
        yield replace(target, plan=seen.described(target.plan))


@dataclass(frozen=True, slots=True)
class _Look:
    """What a plan is made from; ``known`` is what the planner is given beside the snapshot."""

    snapshot: Snapshot
    known: dict[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    operator: str | None = None

    def described(self, plan: Plan) -> Plan:
        """The plan with the operator, and with what forbids its run if it would write anything."""
        more = self.findings if any(tree.changes for tree in plan.trees) else ()
        return replace(plan, findings=(*plan.findings, *more), operator=self.operator)


def _look(store: Store, options: PlanOptions, now: Callable[[], datetime], namespace: str) -> _Look:
    """Read everything once."""
    snapshot = take(store, phases=True, namespace=options.selection.namespace)
    if not store.is_cluster:
        return _Look(snapshot)
    if not snapshot.installed:
        raise UsageError(
            "this API server does not know podcliquesets.grove.io: Grove's CRDs are not installed; is it the cluster "
            "that you mean?"
        )
    if not snapshot.trees:
        return _Look(snapshot, {"now": now()})
    seen, unseen = Observation(RunOptions(options)), list[Finding]()
    try:
        seen = replace(seen, found=operator.find(store, seen.options.flags))
    except NotAuthorised as error:
        unseen += operator_unseen(str(error))
    try:
        seen = replace(seen, recorded=Recorder(store, seen.found.home or namespace).load())
    except NotAuthorised as error:
        unseen.append(record_unseen(str(error)))
    known = {"tables": seen.recorded.by_set(), "now": now(), "running": seen.release}
    described = seen.operator.description if seen.operator else None
    return _Look(snapshot, known, (*unseen, *seen.findings(looking=True)), described)
