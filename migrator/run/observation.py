"""What is in the cluster now, as one value: a run derives every decision from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from migrator.errors import Refused, UsageError
from migrator.grove.hash_fields import stored_hashes
from migrator.grove.objects import Snapshot, Tree
from migrator.hashing import schemes
from migrator.planning.detect import Pair
from migrator.planning.guards.base import refuse
from migrator.planning.images import other_digest, release_in
from migrator.planning.model import Change, Finding, Plan, Severity, Table, TreePlan, TreeState
from migrator.planning.options import AUTO
from migrator.planning.patches import Batch, Patch, backward, forward
from migrator.planning.planner import changes_of, is_of, make_plan
from migrator.planning.revert import make_revert
from migrator.run import operator
from migrator.run.context import Context, RunOptions
from migrator.run.decisions import OPEN, Lease, OperatorState, Phase, RecordState, Sets, Situation, Why
from migrator.run.leases import OWN_LEASE, LeaseSeen
from migrator.run.operator import Found, Operator
from migrator.run.record import Recorded, Recorder
from migrator.run.snapshot import take
from migrator.store import Store

NO_HOME: Final = (
    "no Grove operator was found: give the namespace in which the Lease and the record are kept, with "
    "--operator-namespace"
)
_EDITED: Final = "GM-130"
_FROM_WORST: Final = (Lease.LOST, Lease.HELD, Lease.FREE, Lease.OURS)


@dataclass(frozen=True, slots=True)
class SetsSeen:
    """One coherent reading of the sets; ``uids`` are those of all that exist.

    ``back`` are the open run's sets that can go back, ``half`` those of them that are half-written. ``remains``: sets
    outside the selection of a revert stay migrated.
    """

    plan: Plan
    back: tuple[TreePlan, ...] = ()
    half: tuple[TreePlan, ...] = ()
    remains: bool = False
    uids: frozenset[str] = frozenset()
    read: bool = True


UNREAD: Final = SetsSeen(Plan("", "", ()), read=False)


@dataclass(frozen=True)
class Observation:
    """The newest reading of operators, record and Leases, and of the sets; ``why`` is the reason to give up, if any."""

    options: RunOptions
    found: Found = field(default_factory=Found)
    recorded: Recorded = field(default_factory=Recorded)
    own: LeaseSeen = field(default_factory=lambda: LeaseSeen(OWN_LEASE, Lease.FREE))
    theirs: tuple[LeaseSeen, ...] = ()
    phase: Phase = Phase.START
    sets: SetsSeen = UNREAD
    why: Why = Why.NONE

    @property
    def operator(self) -> Operator | None:
        """The installation, if there is one."""
        return self.found.operator

    @property
    def home(self) -> str:
        """Where our Lease and record are kept; raises :class:`~migrator.errors.UsageError` if that is not known."""
        if self.found.home is None:
            raise UsageError(NO_HOME)
        return self.found.home

    @property
    def plan(self) -> Plan:
        """What is to be written to the sets, and what forbids it."""
        return self.sets.plan

    @cached_property
    def batches(self) -> list[Batch]:
        """The patches of the plan, set by set."""
        return [backward(tree) if self.options.revert else forward(tree) for tree in pending(self.plan)]

    @property
    def patches(self) -> Iterator[Patch]:
        """The patches of all sets, each made when it is asked for because all of them take much memory."""
        return (patch for batch in self.batches for patch in batch.patches)

    @cached_property
    def patch_count(self) -> int:
        """How many patches there are."""
        return sum(1 for _ in self.patches)

    @property
    def continues(self) -> bool:
        """Whether an earlier run did not end."""
        return self.recorded.unfinished is not None

    @property
    def writes(self) -> bool:
        """Whether a run would write anything: not if it is refused or has nothing to do."""
        return self.continues or (bool(pending(self.plan)) and not refusals_of(self.plan))

    @property
    def release(self) -> str | None:
        """The release of the operator that runs, where its image names one."""
        releases = {release_in(image) for image in (self.operator.images if self.operator else ())}
        (release,) = releases if len(releases) == 1 else (None,)
        return release.name if release else None

    @property
    def their_standing(self) -> Lease:
        """The state of the operator's Leases: that of the worst one."""
        return min((lease.standing for lease in self.theirs), key=_FROM_WORST.index, default=Lease.FREE)

    @property
    def fenced(self) -> bool:
        """Whether every Lease is ours."""
        return self.own.standing is Lease.OURS is self.their_standing

    def situation(self, *, tired: bool, idle: bool, stopping: bool) -> Situation:
        """The input of a decision.

        ``idle``: sets may still become idle. ``stopping``: the operator may have been stopped since it was seen.
        """
        return Situation(
            revert=self.options.revert,
            record=self.record_state,
            ours=self.own.standing,
            theirs=self.their_standing,
            operator=self.operator_state,
            stoppable=self.options.stop_operator and (self.operator is None or bool(self.operator.deployment)),
            sets=Sets.BUSY if idle and self.to_do is Sets.REFUSED and self.phase is Phase.START else self.to_do,
            phase=self.phase,
            begun=self.begun,
            whole=self.sets.read and not self.sets.half,
            restore_due=stopping or self.replicas_due is not None,
            backable=not self.target_was_running,
            tired=tired,
            why=self.why,
        )

    @cached_property
    def record_state(self) -> RecordState:
        """How far the recorded run got."""
        run = self.recorded.run
        if run is None:
            return RecordState.NONE
        if run.finished is not None:
            return RecordState.CLOSED
        state, way = RecordState(run.state) if run.state in OPEN else RecordState.OTHER, self.options.way
        ours = all(is_of(table, way) for table in self.recorded.of_open_run().values())
        return state if ours or state is RecordState.STOPPING else RecordState.OTHER

    @property
    def operator_state(self) -> OperatorState:
        """What the operator may do."""
        if self.operator is None or self.operator.gone:
            return OperatorState.GONE
        if not self.fenced and self.operator.deployment and not self.operator.replicas:
            return OperatorState.ENDING  # it is scaled to zero, so its pods end soon
        targets = all(map(self.options.speaks, self.operator.images))
        if not self.operator.live and (not self.fenced or targets):
            return OperatorState.ENDING
        if not targets:
            return OperatorState.OTHER
        waits = not self.fenced or operator.kept_out(self.operator, [lease.name for lease in self.theirs])
        return OperatorState.TARGET if waits else OperatorState.LOOSE

    @cached_property
    def to_do(self) -> Sets:
        """What is to be done to the sets."""
        if not self.sets.read:
            return Sets.UNREAD
        if refusals_of(self.plan):
            return Sets.REFUSED
        return Sets.PENDING if self.edited or pending(self.plan) else Sets.DONE

    @cached_property
    def edited(self) -> list[TreePlan]:
        """The sets of the open run whose spec changed while they were half-written, as they are brought back."""
        tables = self.recorded.of_open_run() if not self.options.revert else {}
        known = (plan for plan in self.plan.trees if plan.changes and plan.tree.ref.uid in tables)
        return [plan for plan in known if any(finding.code == _EDITED for finding in plan.findings)]

    @property
    def to_go_back(self) -> tuple[TreePlan, ...]:
        """The sets of the open run that go back: all, or only the half-written ones where conflicts are skipped."""
        return self.sets.half if self.why is Why.SKIP else self.sets.back

    @cached_property
    def begun(self) -> bool:
        """Whether the cluster holds a write of the open run, or may hold one."""
        if self.record_state not in {RecordState.WRITING, RecordState.REVERTING}:
            return self.record_state is RecordState.OTHER
        if not self.sets.read or self.phase is Phase.START:
            return True
        if self.options.revert and self.record_state is RecordState.REVERTING:
            return self.to_do is not Sets.DONE
        return bool(self.sets.back)

    @property
    def replicas_due(self) -> int | None:
        """The replicas to restore: of an operator that we stopped and that knows the stored hashes; else ``None``.

        An operator of the target knows what earlier runs wrote: it was running beside that.
        """
        run, installed, options = self.recorded.run, self.operator, self.options
        if run is None or installed is None or not installed.deployment or installed.replicas:
            return None
        done, speaks = self.to_do is Sets.DONE, options.speaks(installed.image)
        if not options.stop_operator or not (self.continues or (options.revert and done)):
            return None
        if done and options.revert:
            was = None if speaks or self.sets.remains else run.operator
        elif done:
            was = run.stopped if speaks else None
        else:
            was = run.stopped if not self.begun or (speaks and self.phase is Phase.FENCED) else None
        return was.replicas if was is not None and was.replicas and was.image == installed.image else None

    @property
    def target_was_running(self) -> bool:
        """Whether an operator of the target ran before this run or runs now: then it relies on the target's hashes."""
        run, installed = self.recorded.unfinished, self.operator
        was = (run.stopped or run.operator) if run is not None else None
        images = {was.image} if was is not None and was.replicas else set[str]()
        if installed is not None and installed.live:
            images |= installed.images
        return any(map(self.options.speaks, images))

    def findings(self) -> list[Finding]:
        """The objections of operators, webhooks and the record to a run."""
        found, run = [*self.found.findings, *self._of_operator()], self.recorded.unfinished
        if self.record_state is RecordState.OTHER and run is not None:
            flags = f"--to {run.target}" if run.source == AUTO else f"--from {run.source} --to {run.target}"
            message = f"an earlier migration to {run.target} did not end"
            remedy = f"finish it with `run {flags}`, or undo it with `run --revert {flags}`"
            found.append(refuse("GM-205", None, None, message, remedy))
        return found

    def _of_operator(self) -> Iterator[Finding]:
        installed, options = self.operator, self.options
        if installed is None:
            return
        if not installed.gone and not self.fenced:
            pod = next(iter(installed.pods), None)
            ref, what = (pod.ref, f"{pod} exists") if pod else (None, f"{installed} has replicas {installed.replicas}")
            if not options.stop_operator:
                why = "a live operator that sees other hashes starts a rolling update"
                remedy = "scale it to zero, or run with --stop-operator"
                yield refuse("GM-122", ref, None, f"{what}: {why}", remedy)
            elif not installed.deployment and installed.live:
                remedy = "stop it yourself, then run again"
                yield refuse("GM-122", ref, None, f"{what} without a Deployment", remedy)
        for pod in installed.pods:
            other = other_digest(pod.digests, options.target_digests)
            if other is not None and options.speaks(pod.image):
                yield refuse("GM-122", pod.ref, None, f"{pod} {other}")


def read_sets(store: Store, seen: Observation, context: Context) -> Observation:
    """Read the sets, and judge them by the guards or, after a write, by the tables; raises what the store raises."""
    options, recorded, way = seen.options, seen.recorded, seen.options.way
    snapshot = take(store)
    plan, remains = Plan(options.plan.source, options.plan.target, ()), False
    tables = {uid: table for uid, table in recorded.of_open_run().items() if is_of(table, way)}
    trees = tuple(tree for tree in snapshot.trees if tree.ref.uid in tables)
    undo = make_revert(Snapshot(trees), options.plan, tables=tables).trees
    back = tuple(tree for tree in undo if tree.changes)
    left = {tree.ref.uid for tree in trees if not tree.pcs.terminating and left_of(tree, tables[tree.ref.uid])}
    if options.revert and not _before_its_tables(seen):
        _check_recorded(seen)
        undo = make_revert(snapshot, options.plan, tables=recorded.origins(way).by_set()).trees
        plan = replace(plan, trees=tuple(tree for tree in undo if options.plan.selection.matches(tree.tree.pcs)))
        remains = any(tree.changes and not options.plan.selection.matches(tree.tree.pcs) for tree in undo)
    elif not options.revert and seen.phase is Phase.WRITTEN and trees and not left:
        context.log.info("written_values_verified")
    elif not options.revert:
        plan = make_plan(snapshot, options.plan, tables=recorded.by_set(), now=context.now(), running=seen.release)
    if any(tree.changes for tree in plan.trees):
        plan = replace(plan, findings=(*plan.findings, *seen.findings()))
    half = tuple(tree for tree in back if tree.tree.ref.uid in left)
    uids = frozenset(tree.ref.uid for tree in snapshot.trees)
    return replace(seen, sets=SetsSeen(plan, back, half, remains, uids))


def look_ahead(store: Store, options: RunOptions, context: Context) -> Observation:
    """Read what a run reads first, without a Lease; raises what the run would raise."""
    found = operator.find(store, options.flags) if store.is_cluster else Found()
    recorded = Recorder(store, found.home).load() if found.home else Recorded()
    return read_sets(store, Observation(options, found, recorded), context)


def _before_its_tables(seen: Observation) -> bool:
    """Whether the run that a revert undoes died before it recorded a table, and so before its first patch."""
    run, plan = seen.recorded.unfinished, seen.options.plan
    if run is None or run.revert or run.state != RecordState.STOPPING or seen.recorded.tables:
        return False
    return (run.source, run.target) == (plan.source, plan.target)


def _check_recorded(seen: Observation) -> None:
    """Raise ``UsageError`` for a revert to hashes that, by the record, were not there before.

    While a run is open, its record may also have tables of an earlier migration to something else.
    """
    way = seen.options.way
    others = (table for table in seen.recorded.tables if not is_of(table, way))
    same_target = (table for table in others if way.target_of(schemes.by_name(table.source)).name == table.target)
    other = next(others if seen.record_state is RecordState.CLOSED else same_target, None)
    if other is not None:
        raise UsageError(
            f"by the record, PodCliqueSet {other.namespace}/{other.name} was migrated from {other.source} to "
            f"{other.target}: undo that with `run --revert --to {other.target}`, or give up its record with "
            "`verify --close`"
        )


def left_of(tree: Tree, table: Table) -> tuple[Change, ...]:
    """The changes that a tree still needs by its table: those of the values that are the source's."""
    pair = Pair(table.source_hashes, table.target_hashes, tree.pcs.on_delete)
    return changes_of(stored_hashes(tree), pair)


def refusals_of(plan: Plan) -> list[Finding]:
    """Everything that forbids the run."""
    own = [finding for tree in plan.trees for finding in tree.refusals]
    others = [finding for finding in plan.findings if finding.severity is Severity.REFUSAL]
    return sorted(own + others, key=lambda finding: finding.code != "GM-205")  # the others follow from it


def refused(plan: Plan) -> Refused | None:
    """The error for the first refusal, if there is one."""
    found = refusals_of(plan)
    if not found:
        return None
    more = f" (and {len(found) - 1} more refusals; `plan` lists them all)" if len(found) > 1 else ""
    first = found[0]
    return Refused(f"{first}{more}", guard=first.code, ref=first.ref, field=first.field)


def pending(plan: Plan) -> list[TreePlan]:
    """The sets that are to be written."""
    return [tree for tree in plan.trees if tree.state is TreeState.MIGRATE]


def foreign(installed: Operator | None, held: Iterable[str]) -> str | None:
    """The sentence about an operator that acts although these Leases are ours; ``None`` if there is none."""
    if installed is None or not installed.live or operator.kept_out(installed, held):
        return None
    return f"{installed.evidence} runs, and no Lease that we hold keeps it out"
