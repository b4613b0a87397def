"""What ``plan`` shows: a cluster or a dump as it is, and what a run would do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime

from migrator.cluster import Cluster
from migrator.errors import NotAuthorised, UnknownScheme, UsageError
from migrator.grove.objects import Snapshot
from migrator.planning import crds, model, outlook, planner
from migrator.planning.disruption import all_pods
from migrator.planning.guards import operators
from migrator.planning.guards.base import Guard
from migrator.planning.options import PlanOptions
from migrator.releases.table import Named, is_target, named
from migrator.run import operator
from migrator.run.context import RunOptions
from migrator.run.leases import WAITS
from migrator.run.record import Record
from migrator.run.seen import Observation, check_there, look_at_records, look_at_webhooks, unplanned
from migrator.run.snapshot import read_snapshot
from migrator.words import sentence


def preview(cluster: Cluster, options: PlanOptions, *, now: Callable[[], datetime]) -> model.Plan:
    """Describe what a run would do.

    What refuses only a run is a warning; what cannot be read is unchecked.
    Raises what the cluster raises, and :class:`~migrator.errors.UsageError` for a cluster without Grove's CRDs.
    """
    return _read(cluster, options, now).plan_to(options.target)


def first_look(
    cluster: Cluster, options: PlanOptions, *, now: Callable[[], datetime]
) -> tuple[outlook.Outlook, Iterator[outlook.Target], Observation]:
    """The cluster as it is, a plan for every scheme that a release uses, and what was read of operator and record."""
    read = _read(cluster, options, now)
    seen, last = read.seen, read.seen.record
    trees = [tree for tree in read.snapshot.trees if options.selects(tree.pcs)]
    pods = sum(map(all_pods, trees), model.Disruption())
    reached = None
    with suppress(UnknownScheme):  # another version wrote the record
        reached = read.plan_to(named(last.target)) if last is not None else None
    story = [] if last is None else [_story(last, parked=seen.parked)]
    forbidden = any(one.code == operators.RUNNING.code for one in read.not_checked)
    release = seen.installed_release
    look = outlook.Outlook(
        name=cluster.name,
        is_cluster=cluster.is_cluster,
        sets=len(trees),
        pods=pods.pods,
        gpus=pods.gpus,
        operator="not known: this account is not permitted to look" if forbidden else read.operator,
        running=seen.release,
        record=" ".join([*story, *(sentence(str(finding)) for finding in seen.of_witnesses())]),
        reached=reached,
        resumes=_resumes(seen, reached),
        installed=release.name if release is not None else None,
    )
    return look, outlook.plans_for_all_releases(read.plan_to, seen.release), seen


def _resumes(seen: Observation, reached: model.Plan | None) -> tuple[str, ...]:
    """The flags that finish or undo a run that did not end, or died right before it gave the operator's Lease back.

    The latter has migrated every set. If one is not migrated, others have changed it since: the same run would be
    refused, or migrate to a target that nobody wants any more. A run that is refused until the old operator has worked
    is undone, because that one needs the old hashes; but never beside an operator of the target, which needs the new.
    """
    all_done = reached is not None and all(one.state is model.SetState.DONE for one in reached.set_plans)
    run = seen.record if seen.parked and all_done else seen.open_record
    if run is None:
        return ()
    if run is not seen.writing_record or run.revert or reached is None or not reached.waits_for_an_operator:
        return run.flags
    beside_target = seen.operator is not None and is_target(seen.operator.image, reached.target.scheme, None)
    return run.flags if beside_target else (*run.flags, "--revert")


def _story(run: Record, *, parked: bool) -> str:
    """What became of the last run, as sentences."""
    waits = f" {WAITS}." if parked and not run.is_open else ""
    return sentence(str(run)) + waits + (f" Last error: {run.error.removesuffix('.')}." if run.error else "")


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read, for plans of any target."""

    snapshot: Snapshot
    seen: Observation
    not_checked: tuple[model.NotChecked, ...]
    now: datetime
    short_names: Mapping[str, str]

    @property
    def operator(self) -> str | None:
        """What the operator is like, in words; ``None`` if none was found."""
        return self.seen.operator.description if self.seen.operator is not None else None

    def plan_to(self, target: Named) -> model.Plan:
        """The plan with the operator and, if there is anything to change, with what a run would object to."""
        options = replace(self.seen.options, plan=replace(self.seen.options.plan, target=target))
        seen = replace(self.seen, options=options)
        known = replace(seen.known(self.now), short_names=self.short_names)
        plan = planner.make_plan(self.snapshot, options.plan, known)
        findings, not_checked = plan.findings, plan.not_checked
        if any(set_plan.changes for set_plan in plan.set_plans):
            findings, not_checked = (*findings, *seen.findings()), (*not_checked, *self.not_checked)
        return replace(
            plan,
            findings=tuple(finding.as_warning for finding in findings),
            not_checked=not_checked,
            operator=self.operator,
        )


def _read(cluster: Cluster, options: PlanOptions, now: Callable[[], datetime]) -> _Read:
    """Read everything once; what cannot be read about operator and record becomes a ``NotChecked``."""
    snapshot = read_snapshot(cluster, search=True, namespace=options.namespace)
    if cluster.is_cluster and not snapshot.installed:
        raise UsageError(
            "this API server does not know podcliquesets.grove.io: Grove's CRDs are not installed; is this the right "
            "cluster?"
        )
    # As with --stop-operator: before a migration an operator runs, and that is no warning.
    seen, not_checked = unplanned(RunOptions(options, stop_operator=True)), list[model.NotChecked]()
    if cluster.is_cluster:
        with _permitted(operators.RUNNING, not_checked):
            seen = replace(seen, found=operator.find(cluster, seen.options.flags))
        with _permitted(operators.OPEN_RECORD, not_checked):
            records, seen = look_at_records(cluster, seen)
            seen = replace(seen, record=next(reversed(records), None))
        with _permitted(operators.WEBHOOK, not_checked):
            seen = look_at_webhooks(cluster, seen)
    if options.namespace is None:  # otherwise the sets of the record may be elsewhere
        check_there(snapshot, seen)
    return _Read(snapshot, seen, tuple(not_checked), now(), cluster.short_names(crds.GROUP))


@contextmanager
def _permitted(guard: Guard, not_checked: list[model.NotChecked]) -> Iterator[None]:
    """Take note of a guard that cannot be judged, if this account may not read what it needs."""
    try:
        yield
    except NotAuthorised as error:
        not_checked.append(guard.unjudged(str(error)))
