"""What ``plan`` shows: a cluster or a dump as it is, and what a run would do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from migrator.cluster import Cluster
from migrator.errors import NotAuthorised, UnknownScheme, UsageError
from migrator.grove.objects import Snapshot
from migrator.planning import crds, model, outlook, planner
from migrator.planning.disruption import all_pods
from migrator.planning.guards import operators
from migrator.planning.guards.base import Guard
from migrator.planning.options import PlanOptions
from migrator.releases.table import named
from migrator.run import operator
from migrator.run.context import RunOptions
from migrator.run.leases import WAITS
from migrator.run.record import Record, State
from migrator.run.seen import Observation, check_there, look_at_records, look_at_webhooks, unplanned
from migrator.run.snapshot import read_snapshot
from migrator.words import sentence


def preview(cluster: Cluster, options: PlanOptions, *, now: Callable[[], datetime]) -> model.Plan:
    """Describe what a run would do.

    What refuses only a run is a warning; what cannot be read is unchecked.
    Raises what the cluster raises, and :class:`~migrator.errors.UsageError` for a cluster without Grove's CRDs.
    """
    read = _read(cluster, options, now)
    return read.added_to(planner.make_plan(read.snapshot, options, read.known))


def first_look(
    cluster: Cluster, options: PlanOptions, *, now: Callable[[], datetime]
) -> tuple[outlook.Outlook, Iterator[outlook.Target], Observation]:
    """The cluster as it is, a plan for every scheme that a release uses, and what was read of operator and record."""
    read = _read(cluster, options, now)
    targets = (
        replace(target, plan=read.added_to(target.plan))
        for target in outlook.plans_for_all_releases(read.snapshot, options, read.known)
    )
    trees = [tree for tree in read.snapshot.trees if options.selects(tree.pcs)]
    pods = sum(map(all_pods, trees), model.Disruption())
    run, last = _unfinished(read, options), read.seen.record
    story = [] if last is None else [_story(last, parked=read.seen.parked)]
    forbidden = any(one.code == operators.RUNNING.code for one in read.not_checked)
    release = read.seen.installed_release
    look = outlook.Outlook(
        name=cluster.name,
        is_cluster=cluster.is_cluster,
        sets=len(trees),
        pods=pods.pods,
        gpus=pods.gpus,
        operator=read.operator or ("not known: this account is not permitted to look" if forbidden else None),
        running=read.known.running,
        record=" ".join([*story, *(sentence(str(finding)) for finding in read.seen.of_witnesses())]),
        resumes=() if run is None else run.flags,
        undoes=run is not None and _is_blocked(read, options, run),
        installed=release.name if release is not None else None,
    )
    return look, targets, read.seen


def _unfinished(read: _Read, options: PlanOptions) -> Record | None:
    """The record of a run that did not end, or that died right before it gave the operator's Lease back.

    That one has left every set migrated. If one is not, others have changed it since: the same run would be refused, or
    migrate to a target that is not wanted any more.
    """
    last = read.seen.record
    if last is None or last.is_open or not read.seen.parked:
        return read.seen.open_record
    with suppress(UnknownScheme):  # another version wrote it
        plan = planner.make_plan(read.snapshot, replace(options, target=named(last.target)), read.known)
        if all(one.state is model.SetState.DONE for one in plan.set_plans):
            return last
    return None


def _is_blocked(read: _Read, options: PlanOptions, run: Record) -> bool:
    """Whether a run that is half-way stays refused until an operator has worked, which needs the old hashes.

    An operator of the target recreates the pods of sets that are not migrated: a run beside that one tells so.
    """
    if run.state is not State.WRITING or run.revert:
        return False
    options, installed = replace(options, target=named(run.target)), read.seen.operator
    if installed is not None and RunOptions(options).is_target(installed.image):
        return False
    plan = planner.make_plan(read.snapshot, options, replace(read.known, recorded=run.source_scheme, resumes=True))
    return plan.waits_for_an_operator


def _story(run: Record, *, parked: bool) -> str:
    """What became of the last run, as sentences."""
    waits = f" {WAITS}." if parked and not run.is_open else ""
    return sentence(str(run)) + waits + (f" Last error: {run.error.removesuffix('.')}." if run.error else "")


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read, for plans of any target: the sets, and the operator and the record, which a dump does not have."""

    snapshot: Snapshot
    seen: Observation
    known: planner.Known = field(default_factory=planner.Known)
    not_checked: tuple[model.NotChecked, ...] = ()

    @property
    def operator(self) -> str | None:
        """What the operator is like, in words; ``None`` if none was found."""
        return self.seen.operator.description if self.seen.operator is not None else None

    def added_to(self, plan: model.Plan) -> model.Plan:
        """The plan with the operator and, if there is anything to change, with what a run would object to."""
        only_warn = tuple(finding.as_warning for finding in plan.findings)
        plan = replace(plan, findings=only_warn, operator=self.operator)
        if not any(set_plan.changes for set_plan in plan.set_plans):
            return plan
        options = replace(self.seen.options.plan, target=plan.target)
        seen = replace(self.seen, options=replace(self.seen.options, plan=options))
        findings = (*plan.findings, *(finding.as_warning for finding in seen.findings()))
        return replace(plan, findings=findings, not_checked=(*plan.not_checked, *self.not_checked))


def _read(cluster: Cluster, options: PlanOptions, now: Callable[[], datetime]) -> _Read:
    """Read everything once; what cannot be read about operator and record becomes a ``NotChecked``."""
    snapshot = read_snapshot(cluster, search=True, phases=True, namespace=options.namespace)
    # As with --stop-operator: before a migration an operator runs, and that is no warning.
    seen, unseen = unplanned(RunOptions(options, stop_operator=True)), list[model.NotChecked]()
    if not cluster.is_cluster:
        return _Read(snapshot, seen)
    if not snapshot.installed:
        raise UsageError(
            "this API server does not know podcliquesets.grove.io: Grove's CRDs are not installed; is this the right "
            "cluster?"
        )
    reads: tuple[tuple[Guard, Callable[[Observation], Observation]], ...] = (
        (operators.RUNNING, lambda seen: replace(seen, found=operator.find(cluster, seen.options.flags))),
        (operators.OPEN_RECORD, partial(_look_at_records, cluster)),
        (operators.WEBHOOK, partial(look_at_webhooks, cluster)),
    )
    for guard, read in reads:
        try:
            seen = read(seen)
        except NotAuthorised as error:
            unseen.append(guard.unjudged(str(error)))
    if options.namespace is None:  # else the sets of the record may be elsewhere
        check_there(snapshot, seen)
    short_names = cluster.short_names(crds.GROUP)
    known = planner.Known(
        now(),
        seen.release,
        recorded=seen.recorded_source,
        half_way=seen.writing_record is not None,
        stopped=seen.is_stopped,
        short_names=short_names,
    )
    return _Read(snapshot, seen, known, tuple(unseen))


def _look_at_records(cluster: Cluster, seen: Observation) -> Observation:
    """The newest record, and our Leases in other namespaces."""
    records, seen = look_at_records(cluster, seen)
    return replace(seen, record=next(reversed(records), None))
