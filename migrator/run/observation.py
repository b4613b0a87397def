"""What is in the cluster now, as one value: the operator, the record, and the sets with what is to be done to them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from migrator.errors import ClusterError, Refused, UsageError, count
from migrator.grove.hash_fields import stored_hashes
from migrator.grove.objects import PossibleHash, Snapshot, Tree
from migrator.hashing import schemes
from migrator.planning.detect import HashPair, Verdict, hashes_of, lagging
from migrator.planning.guards.base import report
from migrator.planning.model import Change, Finding, Plan, SetPlan, SetState, Table
from migrator.planning.patches import Batch, Patch, forward, patch_count, reverting
from migrator.planning.planner import Known, belongs_to, changes_of, make_plan, make_revert, template_digest
from migrator.planning.releases import knows, release_in
from migrator.run import operator
from migrator.run.context import Context, RunOptions
from migrator.run.endings import is_same
from migrator.run.operator import Found, Operator
from migrator.run.record import OperatorBefore, Recorded, Recorder, RecordState, RunRecord, pods_of, table_of
from migrator.run.snapshot import read_snapshot
from migrator.store import Store

NO_HOME: Final = "no Grove operator was found: name its Deployment with --operator NAMESPACE/NAME"

#: An edit of a half-written set: its old hashes are restored.
_EDITED: Final = "GM-130"
_FOREIGN: Final = "GM-101"


@dataclass(frozen=True)
class Observation:
    """The newest reading of operator and record, and of the sets: ``trees`` that exist, and the ``plan`` for them.

    ``to_revert`` are the sets of the open run that hold what it wrote, as they go back. ``foreign`` are the values in
    its sets that are neither scheme's. ``possible_hashes`` are what the last search for hashes in unknown places found.
    ``fenced``: the run holds its own Lease, and each by which an operator may elect its leader.
    """

    options: RunOptions
    found: Found = field(default_factory=Found)
    recorded: Recorded = field(default_factory=Recorded)
    plan: Plan = field(default_factory=lambda: Plan("", "", ()))
    trees: tuple[Tree, ...] = ()
    to_revert: tuple[SetPlan, ...] = ()
    foreign: tuple[str, ...] = ()
    possible_hashes: tuple[PossibleHash, ...] = ()
    fenced: bool = False

    @property
    def operator(self) -> Operator | None:
        """The installation, if there is one."""
        return self.found.operator

    @property
    def home(self) -> str:
        """Where Lease and record are kept; raises :class:`~migrator.errors.UsageError` if that is not known."""
        if self.found.home is None:
            raise UsageError(NO_HOME)
        return self.found.home

    @cached_property
    def batches(self) -> list[Batch]:
        """The patches of the plan, set by set."""
        return [reverting(one) if self.options.revert else forward(one) for one in pending(self.plan)]

    @property
    def patches(self) -> Iterator[Patch]:
        """The patches of all sets, each made when it is asked for because all of them take much memory."""
        return (patch for batch in self.batches for patch in batch.patches)

    @cached_property
    def patch_count(self) -> int:
        """How many patches there are."""
        return sum(patch_count(set_plan.changes) for set_plan in pending(self.plan))

    @property
    def restores_old_hashes(self) -> bool:
        """Whether old hashes come back, by this run or by the open one."""
        run = self.recorded.unfinished
        return self.options.revert or (run is not None and run.state == RecordState.REVERTING)

    @property
    def continues(self) -> bool:
        """Whether an earlier run did not end."""
        return self.recorded.unfinished is not None

    @property
    def writes(self) -> bool:
        """Whether a run would write anything: not if it is refused or has nothing to do."""
        return self.continues or (bool(pending(self.plan)) and not self.plan.refusals)

    @property
    def release(self) -> str | None:
        """The release of the operator that runs, where its image names one."""
        releases = {release_in(image) for image in (self.operator.images if self.operator else ())}
        (release,) = releases if len(releases) == 1 else (None,)
        return release.name if release else None

    @property
    def pods(self) -> dict[str, str]:
        """The pods of the sets that are not being deleted, by uid."""
        pods = (pod for tree in self.trees for clique in tree.pod_cliques for pod in clique.pods)
        return {pod.ref.uid: str(pod.ref) for pod in pods if not pod.terminating}

    @property
    def tables_with_pods(self) -> tuple[Table, ...]:
        """The tables of the record, each with the pods that its set has now."""
        trees = {tree.ref.uid: tree for tree in self.trees}
        return tuple(replace(t, pods=pods_of(trees[t.uid])) if t.uid in trees else t for t in self.recorded.tables)

    @property
    def edited(self) -> list[SetPlan]:
        """The sets of the open run whose spec changed while they were half-written, as they are brought back."""
        tables = self.recorded.of_open_run() if not self.options.revert else {}
        known = (plan for plan in self.plan.set_plans if plan.changes and plan.tree.ref.uid in tables)
        return [plan for plan in known if any(finding.code == _EDITED for finding in plan.findings)]

    @property
    def other_migration(self) -> bool:
        """Whether the open record is of other schemes and may have written, or cannot be made sense of."""
        run, direction = self.recorded.unfinished, self.options.direction
        if run is None or run.state == RecordState.STOPPING:
            return False
        if run.state not in {RecordState.WRITING, RecordState.REVERTING}:
            return True
        tables = self.recorded.of_open_run().values()
        if not tables:
            return run.target != self.options.plan.target
        return not all(belongs_to(table, direction) for table in tables)

    @property
    def own_tables(self) -> tuple[Table, ...]:
        """The tables of the record that are of the schemes of this run."""
        direction = self.options.direction
        return tuple(table for table in self.recorded.tables if belongs_to(table, direction))

    @property
    def is_of_this_pair(self) -> bool:
        """Whether no table of the record is of other schemes."""
        return self.own_tables == self.recorded.tables

    def operator_before(self, run: RunRecord, stopped: OperatorBefore | None) -> OperatorBefore | None:
        """The operator of the old hashes: the one that ``run`` has stopped, or the recorded one if that is still there.

        If this run undoes or continues what another one began, an operator that does not name a release of the old
        hashes by its tag may be the target's: then the recorded one is returned.
        """
        last = self.recorded.run
        is_ours = last is not None and (last.finished is None or self.is_of_this_pair)  # else of an earlier migration
        known = last.operator if last is not None and is_ours else None
        begun = self.options.revert or (known is not None and not run.is_early)
        if begun and not self.knows_old_hashes(stopped):
            return known
        return stopped or (known if known is not None and is_same(self.operator, known) else None)

    def knows_old_hashes(self, was: OperatorBefore | None) -> bool:
        """Whether an operator's tag names a release of the old hashes, as far as the record tells them."""
        sources = {table.source for table in self.own_tables} or set(map(str, self.options.direction.candidates))
        return was is not None and knows(was.image, sources)

    @property
    def operator_to_restore(self) -> OperatorBefore | None:
        """The operator that a revert starts again: the recorded one, unless its tag names a release of other hashes."""
        was = self.recorded.run.operator if self.recorded.run is not None else None
        is_named = was is not None and release_in(was.image) is not None
        return None if is_named and not self.knows_old_hashes(was) else was

    @property
    def target_was_running(self) -> bool:
        """Whether an operator of the target ran before this run or runs now: then it relies on the target's hashes."""
        run, installed = self.recorded.unfinished, self.operator
        was = (run.stopped or run.operator) if run is not None else None
        images = {was.image} if was is not None else set[str]()
        if installed is not None and installed.live:
            images |= installed.images
        return any(map(self.options.is_target, images))

    def findings(self) -> list[Finding]:
        """The objections of operators, webhooks and the record to a run."""
        found, run = [*self.found.findings, *self._of_operator()], self.recorded.unfinished
        if self.other_migration and run is not None:
            what = "the revert of an earlier migration" if run.reverts else "an earlier migration"
            message = f"{what} to {run.target} did not end"
            again = f"run {shlex.join(run.flags)} --stop-operator"
            remedy = f"finish it with `{again}`" + ("" if run.reverts else f", or undo it with `{again} --revert`")
            found.append(report("GM-205", None, None, message, remedy))
        return found

    def _of_operator(self) -> Iterator[Finding]:
        installed, options = self.operator, self.options
        if installed is None or installed.gone or self.fenced:
            return
        pod = next(iter(installed.pods), None)
        replicas = count(installed.replicas, "replica")
        ref, what = (pod.ref, f"{pod} exists") if pod else (None, f"{installed} has {replicas}")
        if not options.stop_operator:
            why = "a live operator that sees other hashes starts a rolling update"
            remedy = "scale it to zero, or run with --stop-operator"
            yield report("GM-122", ref, None, f"{what}: {why}", remedy)
        elif not installed.deployment and installed.live:
            yield report("GM-122", ref, None, f"{what} without a Deployment", "stop it yourself, then run again")


def read_sets(
    store: Store, seen: Observation, context: Context, *, search: bool = True, written: bool = False
) -> Observation:
    """Read the sets and plan: by the guards, until all sets of the open run are ``written``.

    Raises what the store, :func:`check_there` and the planner raise.
    """
    options, recorded, direction = seen.options, seen.recorded, seen.options.direction
    snapshot = read_snapshot(store, search=search)
    if not search:
        snapshot = replace(snapshot, possible_hashes=seen.possible_hashes)
    check_there(snapshot, seen)
    tables = {uid: table for uid, table in recorded.of_open_run().items() if belongs_to(table, direction)}
    trees = tuple(tree for tree in snapshot.trees if tree.ref.uid in tables and not tree.pcs.terminating)
    unfinished = {tree.ref.uid for tree in trees if remaining_changes(tree, tables[tree.ref.uid])}
    is_finished = written and bool(trees) and not unfinished
    undo = make_revert(Snapshot(trees), options.plan, tables=tables).set_plans
    to_revert = tuple(set_plan for set_plan in undo if set_plan.changes)
    plan = Plan(options.plan.source, options.plan.target, ())
    foreign = tuple(text for tree in trees for text in _foreign(tree, tables[tree.ref.uid], options.plan.allow))
    if options.revert:
        foreign, plan = (), _revert_plan(snapshot, seen)
    elif not is_finished:
        begun = frozenset(unfinished & {set_plan.tree.ref.uid for set_plan in to_revert})
        plan = make_plan(snapshot, options.plan, Known(recorded.by_set(), context.now(), seen.release, begun))
    if any(set_plan.changes for set_plan in plan.set_plans) or seen.other_migration:
        plan = replace(plan, findings=(*plan.findings, *seen.findings()))
    return replace(
        seen,
        plan=plan,
        trees=snapshot.trees,
        to_revert=to_revert,
        foreign=foreign,
        possible_hashes=snapshot.possible_hashes,
    )


def look_ahead(store: Store, options: RunOptions, context: Context) -> Observation:
    """Read what a run reads first, without a Lease; raises what the run would raise."""
    found = operator.find(store, options.flags)
    recorded = Recorder(store, found.home).load() if found.home else Recorded()
    return read_sets(store, Observation(options, found, recorded), context)


def check_there(snapshot: Snapshot, seen: Observation) -> None:
    """Raise ``ClusterError`` where an absence of sets is not believed: one wrong answer must not look like success."""
    recorded = seen.recorded
    if not snapshot.installed and (seen.operator is not None or recorded.run is not None):
        what = "there is an operator" if seen.operator is not None else "there is a record of a run"
        raise ClusterError(f"the API server does not know podcliquesets.grove.io, although {what}")
    tables = recorded.by_set() if seen.options.revert else recorded.of_open_run()
    run = recorded.unfinished
    has_ended = run is None or run.state == RecordState.STOPPING  # the run that wrote to these sets
    deleted = has_ended and bool(snapshot.trees)  # since then, and others are there
    if tables and not deleted and not tables.keys() & {tree.ref.uid for tree in snapshot.trees}:
        raise ClusterError(
            f"the record has {count(len(tables), 'PodCliqueSet')}, and none was read; if all of them were deleted on "
            "purpose, delete the record: docs/upgrade.md has the command"
        )


def _revert_plan(snapshot: Snapshot, seen: Observation) -> Plan:
    """The plan of ``--revert``; raises ``UsageError`` if the record is of other schemes."""
    options, run, tables = seen.options.plan, seen.recorded.unfinished, seen.recorded.tables
    empty = Plan(options.source, options.target, ())
    early = run is not None and run.is_early and not run.revert and not seen.own_tables
    if early and run is not None and run.target == options.target:
        return empty  # the run that is undone died before its first patch
    other = next((table for table in tables if not belongs_to(table, seen.options.direction)), None)
    if other is not None:
        raise UsageError(
            f"by the record, PodCliqueSet {other.namespace}/{other.name} was migrated from {other.source} to "
            f"{other.target}: undo that with `run --revert --to {shlex.quote(other.target)}`"
        )
    there = replace(snapshot, trees=tuple(tree for tree in snapshot.trees if not tree.pcs.terminating))
    return make_revert(there, options, tables=seen.recorded.by_set())


def _foreign(tree: Tree, table: Table, allow: frozenset[str]) -> Iterator[str]:
    """The values that are neither scheme's and on which pods depend, unless GM-101 is allowed.

    An operator of the target that has rolled out an edit since stores the target's hashes of the present spec.
    """
    now = hashes_of(tree.pcs)(schemes.by_name(table.target))
    pairs = [HashPair(table.source_hashes, table.target_hashes), HashPair(now, now)]
    verdicts = ((item, {pair.classify(item) for pair in pairs}) for item in stored_hashes(tree))
    other = [item for item, found in verdicts if found == {Verdict.FOREIGN}]
    late = lagging(tree, other)
    for item in other:
        if (item.ref.uid, item.field) not in late and _FOREIGN not in allow:
            yield f"{item.ref}: {item.field} is {item.value}, neither the old hash nor the new one"


def tables_of(seen: Observation, run: RunRecord) -> tuple[Table, ...]:
    """One table for each set; the first that a migration saves for a set is kept until the run has ended.

    Empty if an earlier run's record is lost: which hashes were there before it is unknown, and no revert may guess.
    """
    if run.found_parked and not seen.recorded.tables:
        return ()
    present = {tree.ref.uid for tree in seen.trees}
    tables = {table.uid: table for table in seen.own_tables if table.uid in present}
    if run.state == RecordState.REVERTING:  # it may have written to every set that it had a table of
        tables = {uid: replace(table, run=run.run_id) for uid, table in tables.items()}
    begun = {plan.tree.ref.uid for plan in seen.to_revert}
    for plan in pending(seen.plan):
        uid, known = plan.tree.ref.uid, tables.get(plan.tree.ref.uid)
        if known is None:
            tables[uid] = table_of(plan, run.run_id)
        elif known.source == plan.source and known.template_digest == template_digest(plan.tree.pcs):
            due = {(change.ref.uid, change.field) for change in plan.changes}  # an operator has written its own there
            kept = tuple(one for one in known.kept if (one.ref.uid, one.field) not in due)
            tables[uid] = replace(known, run=run.run_id, kept=kept)
        elif uid not in begun:
            fresh = table_of(plan, run.run_id)  # what an earlier run wrote was not there before
            tables[uid] = replace(fresh, kept=tuple(kept for kept in fresh.kept if kept in known.kept))
    return tuple(sorted(tables.values(), key=lambda table: table.uid))


def remaining_changes(tree: Tree, table: Table) -> tuple[Change, ...]:
    """The changes that a tree still needs by its table: those of the values that are the source's."""
    return changes_of(stored_hashes(tree), HashPair(table.source_hashes, table.target_hashes))


def refused(seen: Observation) -> Refused | None:
    """The error for the first refusal, if there is one."""
    found = sorted(seen.plan.refusals, key=lambda finding: finding.code != "GM-205")  # the others follow from it
    if not found:
        return None
    more = f" (and {count(len(found) - 1, 'more refusal')}; `plan` lists them all)" if len(found) > 1 else ""
    states = {set_plan.state for set_plan in seen.plan.set_plans}
    if seen.options.plan.skip_refused and not states & {SetState.MIGRATE, SetState.DONE}:
        more += "; --skip-refused would leave nothing to migrate"
    first = found[0]
    return Refused(f"{first}{more}", guard=first.code, ref=first.ref, field=first.field)


def in_flight(plan: Plan) -> list[str]:
    """The codes of the refusals, if all of them may end without help."""
    found = plan.refusals
    return sorted({finding.code for finding in found}) if all(finding.settles for finding in found) else []


def pending(plan: Plan) -> list[SetPlan]:
    """The sets that are to be written."""
    return [set_plan for set_plan in plan.set_plans if set_plan.state is SetState.MIGRATE]
