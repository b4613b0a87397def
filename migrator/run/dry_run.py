"""A run that writes nothing to a cluster: on a file, as a dry run, and what ``plan`` shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from migrator.errors import UsageError, VerificationFailed
from migrator.grove.model import Finding, Plan, Snapshot
from migrator.grove.trees import DUMP_COMMAND
from migrator.hashing import schemes
from migrator.planning.images import image_tag
from migrator.planning.options import PlanOptions
from migrator.planning.outlook import Target, outlook
from migrator.planning.patches import Batch
from migrator.planning.planner import make_plan
from migrator.planning.tables import Table
from migrator.run import events, operator, rights
from migrator.run.context import Context, RunOptions, RunResult
from migrator.run.decisions import Point
from migrator.run.execute import Executor
from migrator.run.leases import OWN_LEASE
from migrator.run.observation import Control, batches_of, pending, read_sets, refused, warnings_of
from migrator.run.operator import Flags
from migrator.run.record import Recorded, Recorder
from migrator.run.snapshot import take
from migrator.store import DryRun, Store


def rehearse(store: Store, options: RunOptions, context: Context) -> RunResult:
    """End as the run with these options would, as far as nothing else happens: no Lease, no record, no Deployment.

    A file is written; a server-side dry run sends every patch with ``dryRun=All``.
    """
    seconds: dict[str, float] = {}
    control, until = _control(store, options), context.clock() + (options.wait_for_idle or 0.0)
    while True:
        with events.timed("snapshot", seconds, context):
            plan = read_sets(store, options, context, control, Point.START).plan
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
        workers=context.workers if store.is_cluster else 1,
        log=context.log,
    )
    with events.timed("execute", seconds, context):
        outcomes = executor.run(batches)
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    result.patches, result.trees = sum(len(outcome.written) for outcome in outcomes), len(outcomes)
    if store.dry_run is DryRun.NONE:  # a file: what a dry run sent cannot be read anywhere
        with events.timed("verify", seconds, context):
            again = read_sets(store, options, context, control, Point.START).plan
        if pending(again):
            raise VerificationFailed(f"{pending(again)[0].tree.ref} is not as it was written")
    return result


def _control(store: Store, options: RunOptions) -> Control:
    if not store.is_cluster:
        return Control()
    found = operator.find(store, options.flags)
    return Control(found, Recorder(store, found.home).load() if found.home is not None else Recorded())


def _check_rights(store: Store, options: RunOptions, context: Context, control: Control, batches: list[Batch]) -> None:
    home, installed = control.found.home, control.found.operator
    if home is None:
        raise UsageError("no Grove operator was found: say where it lives with --operator-namespace")
    names = (OWN_LEASE, *operator.lease_names(installed, options.flags))
    patches = [patch for batch in batches for patch in batch.patches]
    rights.check(store, rights.of_run(patches, home, names, installed, stops_it=options.stop_operator), context.log)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a plan is made from. ``running`` is the release of the operator that runs, where its image names one."""

    snapshot: Snapshot
    tables: Mapping[str, Table]
    now: datetime | None
    running: str | None
    findings: tuple[Finding, ...]


def preview(
    store: Store,
    options: PlanOptions,
    *,
    now: Callable[[], datetime],
    namespace: str,
    found: Mapping[str, int] | None = None,
) -> Plan:
    """Describe what a run would do.

    On a cluster the recorded tables count, and a live operator or a webhook that refuses label patches is a
    warning: a run can deal with both. ``namespace`` is where the record is if no operator is found; ``found`` counts
    the objects of a dump by kind. Raises what the store raises: what cannot be read is not described.
    """
    seen = look(store, options, now=now, namespace=namespace, found=found)
    plan = make_plan(seen.snapshot, options, tables=seen.tables, now=seen.now, running=seen.running)
    return _with(plan, seen.findings)


def preview_targets(
    store: Store,
    options: PlanOptions,
    *,
    now: Callable[[], datetime],
    namespace: str,
    found: Mapping[str, int] | None = None,
) -> Iterator[Target]:
    """The same for every scheme that a release speaks."""
    seen = look(store, options, now=now, namespace=namespace, found=found)
    for target in outlook(seen.snapshot, options, tables=seen.tables, now=seen.now, running=seen.running):
        yield replace(target, plan=_with(target.plan, seen.findings))


def look(
    store: Store,
    options: PlanOptions,
    *,
    now: Callable[[], datetime],
    namespace: str,
    found: Mapping[str, int] | None = None,
) -> Seen:
    """Read everything once.

    Raises :class:`~migrator.errors.UsageError` where there is certainly not what was meant: a dump without a
    PodCliqueSet, or a cluster that does not know them.
    """
    snapshot = take(store, phases=True)
    if not store.is_cluster:
        if not snapshot.trees:
            raise UsageError(f"the dump has no PodCliqueSet, but {_listed(found or {})}; dump with `{DUMP_COMMAND}`")
        return Seen(snapshot, {}, None, None, ())
    if not snapshot.installed:
        raise UsageError(
            "this API server does not know podcliquesets.grove.io: Grove's CRDs are not installed; is it the cluster "
            "that you mean?"
        )
    if not snapshot.trees:
        return Seen(snapshot, {}, now(), None, ())
    control = Control(operator.find(store, Flags()))
    installed = control.found.operator
    recorded = Recorder(store, control.found.home or namespace).load()
    release = schemes.release_of(image_tag(installed.image) or "") if installed else None
    findings = warnings_of(RunOptions(options), replace(control, recorded=recorded))
    return Seen(snapshot, recorded.by_set(), now(), release.name if release else None, tuple(findings))


def _with(plan: Plan, findings: tuple[Finding, ...]) -> Plan:
    """The plan with what stands in the way of its run, if it would write anything."""
    return replace(plan, findings=(*plan.findings, *findings)) if any(tree.changes for tree in plan.trees) else plan


def _listed(found: Mapping[str, int]) -> str:
    """``3 Deployments, 1 Pod``; ``nothing at all``."""
    counts = [f"{number} {kind}{'s' if number != 1 else ''}" for kind, number in sorted(found.items())]
    return ", ".join(counts) or "nothing at all"
