"""A run that writes nothing to a cluster: on a file, as a dry run, and what ``plan`` shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from migrator.errors import NotAuthorised, UsageError, VerificationFailed
from migrator.grove.model import Finding, Plan, Snapshot
from migrator.planning.cluster_findings import operator_unseen, record_unseen
from migrator.planning.options import PlanOptions
from migrator.planning.outlook import Target, outlook
from migrator.planning.patches import Batch
from migrator.planning.planner import make_plan
from migrator.planning.tables import Table
from migrator.run import events, operator, rights
from migrator.run.context import Context, RunOptions, RunResult
from migrator.run.decisions import Phase
from migrator.run.execute import Executor
from migrator.run.observation import Control, batches_of, glance, pending, read_sets, refused, running, warnings_of
from migrator.run.operator import Flags
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
            plan = read_sets(store, options, context, control, Phase.START).plan
        refusal = refused(plan)
        if refusal is None or context.clock() >= until or context.stop.is_set():
            break
        context.sleep(options.interval)
    events.log_findings(plan, context.log)
    if refusal is not None:
        raise refusal
    result = RunResult(plan, seconds=seconds)
    batches = batches_of(plan, options)
    if store.is_cluster and batches:
        _check_rights(store, options, context, control, batches)
    if store.dry_run is DryRun.CLIENT:
        return result
    executor = Executor(
        store,
        check=lambda: None,
        stopping=context.stop.is_set,
        concurrency=context.concurrency,
        log=context.log,
    )
    with events.timed("execute", seconds, context):
        outcomes = executor.run(batches)
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    result.patches, result.trees = sum(len(outcome.written) for outcome in outcomes), len(outcomes)
    del batches, outcomes  # what is read again needs the room
    if store.dry_run is DryRun.NONE:  # a file: what a dry run sent cannot be read anywhere
        with events.timed("verify", seconds, context):
            again = read_sets(store, options, context, control, Phase.START).plan
        if pending(again):
            raise VerificationFailed(f"{pending(again)[0].tree.ref} is not as it was written")
    return result


def _check_rights(store: Store, options: RunOptions, context: Context, control: Control, batches: list[Batch]) -> None:
    home, installed = control.found.home, control.found.operator
    if home is None:
        raise UsageError("no Grove operator was found: say where it lives with --operator-namespace")
    patches = [patch for batch in batches for patch in batch.patches]
    rights.check(store, rights.of_migration(patches, home, installed, options), context.log)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a plan is made from.

    ``running`` is the release of the operator that runs, where its image names one; ``operator`` describes it.
    """

    snapshot: Snapshot
    tables: Mapping[str, Table]
    now: datetime | None
    running: str | None
    findings: tuple[Finding, ...]
    operator: str | None = None


def preview(
    store: Store,
    options: PlanOptions,
    *,
    now: Callable[[], datetime],
    namespace: str,
) -> Plan:
    """Describe what a run would do.

    On a cluster the recorded tables count, and a live operator or a webhook that refuses label patches is a
    warning: a run can deal with both. So is an operator or a record that may not be seen. ``namespace`` is where the
    record is if no operator is found. Raises what the store raises: sets and pods that cannot be read are not
    described.
    """
    seen = look(store, options, now=now, namespace=namespace)
    plan = make_plan(seen.snapshot, options, tables=seen.tables, now=seen.now, running=seen.running)
    return _with(plan, seen)


def preview_targets(
    store: Store,
    options: PlanOptions,
    *,
    now: Callable[[], datetime],
    namespace: str,
) -> Iterator[Target]:
    """The same for every scheme that a release speaks."""
    seen = look(store, options, now=now, namespace=namespace)
    for target in outlook(seen.snapshot, options, tables=seen.tables, now=seen.now, running=seen.running):
        yield replace(target, plan=_with(target.plan, seen))


def look(
    store: Store,
    options: PlanOptions,
    *,
    now: Callable[[], datetime],
    namespace: str,
) -> Seen:
    """Read everything once.

    Raises :class:`~migrator.errors.UsageError` for a cluster that does not know PodCliqueSets.
    """
    snapshot = take(store, phases=True, namespace=options.selection.namespace)
    if not store.is_cluster:
        return Seen(snapshot, {}, None, None, ())
    if not snapshot.installed:
        raise UsageError(
            "this API server does not know podcliquesets.grove.io: Grove's CRDs are not installed; is it the cluster "
            "that you mean?"
        )
    if not snapshot.trees:
        return Seen(snapshot, {}, now(), None, ())
    control, unseen = Control(), list[Finding]()
    try:
        control = Control(operator.find(store, Flags()))
    except NotAuthorised as error:
        unseen += operator_unseen(str(error))
    try:
        control = replace(control, recorded=Recorder(store, control.found.home or namespace).load())
    except NotAuthorised as error:
        unseen.append(record_unseen(str(error)))
    installed = control.found.operator
    return Seen(
        snapshot,
        control.recorded.by_set(),
        now(),
        running=running(control.found),
        findings=(*unseen, *warnings_of(RunOptions(options), control)),
        operator=installed.description if installed else None,
    )


def _with(plan: Plan, seen: Seen) -> Plan:
    """The plan with the operator, and with what stands in the way of its run if it would write anything."""
    more = seen.findings if any(tree.changes for tree in plan.trees) else ()
    return replace(plan, findings=(*plan.findings, *more), operator=seen.operator)
