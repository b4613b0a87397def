"""What is in the cluster now: one frozen value, from which everything that a run decides derives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from migrator.errors import Refused
from migrator.gc_paused import uncollected
from migrator.grove.model import Change, Finding, Plan, Severity, Snapshot, Tree, TreePlan, TreeState
from migrator.grove.places import stored_hashes
from migrator.planning.detect import Pair
from migrator.planning.guards.base import refuse, warn
from migrator.planning.images import is_target, other_digest, release_in
from migrator.planning.options import Direction, Selection, direction
from migrator.planning.patches import Batch, backward, forward
from migrator.planning.planner import changes_of, is_of, make_plan, template_digest
from migrator.planning.revert import make_revert
from migrator.planning.tables import Table, Was
from migrator.run import operator, record
from migrator.run.context import Context, RunOptions
from migrator.run.decisions import Lease, Op, Phase, Rec, Sets, Situation, Why
from migrator.run.leases import OWN_LEASE, Leases, LeaseSeen
from migrator.run.operator import Found, Operator
from migrator.run.record import Recorded, Recorder
from migrator.run.snapshot import take
from migrator.store import Store

_EDITED: Final = "GM-130"
_STATES: Final = {record.STOPPING: Rec.STOPPING, record.WRITING: Rec.WRITING, record.REVERTING: Rec.REVERTING}


@dataclass(frozen=True, slots=True)
class SetsSeen:
    """One coherent reading of the sets.

    ``back`` is what of the open run would go back, ``half`` that of sets in mid-way.
    ``complete``: every set that the open run has a table of is the target's.
    ``remains``: a revert of a selection leaves other sets migrated. ``uids`` are those of all sets that exist.
    """

    phase: Phase
    plan: Plan
    back: tuple[TreePlan, ...] = ()
    half: tuple[TreePlan, ...] = ()
    complete: bool = False
    remains: bool = False
    uids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Control:
    """The control part: operators, Leases, record."""

    found: Found = field(default_factory=Found)
    recorded: Recorded = field(default_factory=Recorded)
    own: LeaseSeen = field(default_factory=lambda: LeaseSeen(OWN_LEASE, Lease.FREE))
    theirs: tuple[LeaseSeen, ...] = ()

    @property
    def fenced(self) -> bool:
        """Whether every Lease is ours."""
        return _worst(self.theirs) is Lease.OURS and self.own.standing is Lease.OURS


@dataclass(frozen=True, slots=True)
class Observation:
    """What a decision is made of: the control part, and the newest reading of the sets, if one counts."""

    control: Control = field(default_factory=Control)
    sets: SetsSeen | None = None
    phase: Phase = Phase.START


def observe(found: Found, options: RunOptions, leases: Leases, recorder: Recorder) -> Control:
    """Read the control part beside the operators that were found; raises what the store raises.

    While our Lease is ours nobody else writes the record, so what we read or wrote last is what stands there.
    """
    own = leases.look(OWN_LEASE)
    recorded = recorder.load(again=own.standing is not Lease.OURS)
    return Control(found, recorded, own, tuple(map(leases.look, operator.lease_names(found.operator, options.flags))))


def glance(store: Store, options: RunOptions) -> Control:
    """The same for a command that takes no Lease: operators and record only."""
    if not store.is_cluster:
        return Control()
    found = operator.find(store, options.flags)
    return Control(found, Recorder(store, found.home).load() if found.home is not None else Recorded())


def read_sets(store: Store, options: RunOptions, context: Context, control: Control, phase: Phase) -> SetsSeen:
    """Read the sets, and judge them by the guards or, after a write, by the tables; raises what the store raises."""
    snapshot = take(store)
    with uncollected():
        back, half, complete = _stand(snapshot, options, control.recorded)
        if phase is Phase.WRITTEN and complete and not options.revert:
            return SetsSeen(phase, _empty(options), back, half, complete=True)
        plan = plan_for(snapshot, options, control, context)
        remains = options.revert and options.plan.selection != Selection() and _remains(snapshot, options, control)
    findings = in_the_way(options, control) if any(tree.changes for tree in plan.trees) else []
    plan = replace(plan, findings=(*plan.findings, *findings))
    uids = frozenset(tree.ref.uid for tree in snapshot.trees)
    return SetsSeen(phase, plan, back, half, complete, remains, uids)


def plan_for(snapshot: Snapshot, options: RunOptions, control: Control, context: Context) -> Plan:
    """The plan of a migration or of a revert."""
    recorded = control.recorded
    if not options.revert:
        tables, release = recorded.by_set(), running(control.found)
        return make_plan(snapshot, options.plan, tables=tables, now=context.now(), running=release)
    run = recorded.unfinished
    same = run is not None and (run.source, run.target) == (options.plan.source, options.plan.target)
    if run is not None and same and not run.revert and run.state == record.STOPPING and not recorded.tables:
        return _empty(options)  # that run died before it recorded a table, and so before its first patch
    return make_revert(snapshot, options.plan, tables=recorded.origins().by_set())


def running(found: Found) -> str | None:
    """The release of the operator that runs, where its image names one."""
    releases = {release_in(image) for image in (found.operator.images if found.operator else ())}
    (release,) = releases if len(releases) == 1 else (None,)
    return release.name if release else None


def _empty(options: RunOptions) -> Plan:
    return Plan(options.plan.source, options.plan.target, ())


def _remains(snapshot: Snapshot, options: RunOptions, control: Control) -> bool:
    everything = replace(options.plan, selection=Selection())
    undo = make_revert(snapshot, everything, tables=control.recorded.origins().by_set())
    return any(plan.changes for plan in undo.trees if not options.plan.selection.matches(plan.tree.pcs))


def _stand(
    snapshot: Snapshot, options: RunOptions, recorded: Recorded
) -> tuple[tuple[TreePlan, ...], tuple[TreePlan, ...], bool]:
    """What of the open run would go back, that of its half-written sets, and whether all it planned is written."""
    way = direction(options.plan)
    tables = {uid: table for uid, table in recorded.of_open_run().items() if is_of(table, way)}
    trees = tuple(tree for tree in snapshot.trees if tree.ref.uid in tables)
    if not trees:
        return (), (), False
    undo = make_revert(Snapshot(trees), replace(options.plan, selection=Selection()), tables=tables)
    back = tuple(plan for plan in undo.trees if plan.changes)
    left = {tree.ref.uid for tree in trees if not tree.pcs.terminating and left_of(tree, tables[tree.ref.uid])}
    return back, tuple(plan for plan in back if plan.tree.ref.uid in left), not left


def left_of(tree: Tree, table: Table) -> tuple[Change, ...]:
    """What of a tree is still the source's, by its recorded table."""
    pair = Pair(table.source_hashes, table.target_hashes, tree.pcs.on_delete)
    return changes_of(tuple(stored_hashes(tree)), table.source_hashes, table.target_hashes, pair=pair)


def in_the_way(options: RunOptions, control: Control) -> list[Finding]:
    """What of operators, webhooks and the record forbids a run, or should be known."""
    found, installed = control.found, control.found.operator
    findings = list(found.findings)
    if installed is not None and not installed.gone and not control.fenced:
        what = f"{installed} has replicas {installed.replicas}"
        if installed.pods:
            what = f"operator pod {installed.pods[0].ref} ({installed.pods[0].image}) exists"
        ref = installed.pods[0].ref if installed.pods else None
        if not options.stop_operator:
            said = "a live operator that sees other hashes starts a rolling update; scale it to zero, or run with"
            findings.append(refuse("GM-122", ref, None, f"{what}: {said} --stop-operator"))
        elif not installed.deployment and installed.live:
            said = "without a Deployment: stop it yourself, then run again"
            findings.append(refuse("GM-122", ref, None, f"{what} {said}"))
    way = direction(options.plan)
    for pod in installed.pods if installed is not None else ():
        other = other_digest(pod.digests, options.target_digests)
        if other is not None and _speaks(pod.image, way, options):
            findings.append(refuse("GM-122", pod.ref, None, f"operator pod {pod.ref} ({pod.image}) {other}"))
    run = control.recorded.unfinished
    if record_of(control.recorded, way) is Rec.OTHER and run is not None:
        said = f"a migration from {run.source} to {run.target} did not end: finish it with `run --to {run.target}`"
        findings.append(refuse("GM-205", None, None, f"{said}, or undo it with `run --revert --to {run.target}`"))
    return findings


def warnings_of(options: RunOptions, control: Control) -> list[Finding]:
    """The same for people who only look: a run can deal with a live operator, so that is a warning."""
    installed, findings = control.found.operator, []
    for finding in in_the_way(replace(options, stop_operator=True), control):
        severity = finding.severity if finding.code in {"GM-203", "GM-205"} else Severity.WARNING
        findings.append(replace(finding, severity=severity))
    if installed is not None and not installed.gone:
        ref = installed.pods[0].ref if installed.pods else None
        said = "the run needs it stopped, with --stop-operator or by hand"
        findings.append(warn("GM-122", ref, None, f"{installed} is running ({installed.image}): {said}"))
    return findings


# --- from what is seen to what a decision depends on ------------------------------------------------------------------


def situation(seen: Observation, options: RunOptions, *, why: Why = Why.NONE, tired: bool = False) -> Situation:
    """What a decision depends on."""
    control, way = seen.control, direction(options.plan)
    kept = record_of(control.recorded, way)
    sets = _sets(seen, options, control)
    begun = _begun(seen, options, kept, sets)
    return Situation(
        revert=options.revert,
        record=kept,
        ours=control.own.standing,
        theirs=_worst(control.theirs),
        operator=_operator(control, way, options),
        stoppable=_stoppable(control, options),
        noted=_noted(control),
        sets=sets,
        phase=seen.sets.phase if seen.sets is not None else seen.phase,
        begun=begun,
        whole=seen.sets is not None and not seen.sets.half,
        covered=_covered(seen, options, kept),
        restore_due=replicas_to_restore(seen, options, sets, begun=begun) is not None,
        backable=not _target_was_running(control, way, options),
        tired=tired,
        skip=options.on_conflict == "skip",
        why=why,
    )


def record_of(recorded: Recorded, way: Direction) -> Rec:
    """How far the recorded run got."""
    if recorded.run is None:
        return Rec.NONE
    if recorded.run.finished is not None:
        return Rec.CLOSED
    state = _STATES.get(recorded.run.state, Rec.OTHER)
    if state is Rec.STOPPING or all(is_of(table, way) for table in recorded.of_open_run().values()):
        return state
    return Rec.OTHER


def refusals_of(plan: Plan) -> list[Finding]:
    """Everything that forbids the run."""
    own = [finding for tree in plan.trees for finding in tree.refusals]
    others = [finding for finding in plan.findings if finding.severity is Severity.REFUSAL]
    return sorted(own + others, key=lambda finding: finding.code != "GM-205")  # what follows from it comes after it


def refused(plan: Plan) -> Refused | None:
    """The error for the first of them."""
    found = refusals_of(plan)
    if not found:
        return None
    more = f" (and {len(found) - 1} more refusals; `plan` lists them all)" if len(found) > 1 else ""
    return Refused(f"{found[0].code}: {found[0].message}{more}")


def batches_of(plan: Plan, options: RunOptions) -> list[Batch]:
    """What is to be written to them."""
    return [backward(tree) if options.revert else forward(tree) for tree in pending(plan)]


def edited(seen: SetsSeen, recorded: Recorded) -> list[TreePlan]:
    """The sets of the open run whose spec moved in mid-way, as they are brought back."""
    tables = recorded.of_open_run()
    return [
        plan
        for plan in seen.plan.trees
        if plan.changes and plan.tree.ref.uid in tables and any(f.code == _EDITED for f in plan.findings)
    ]


def pending(plan: Plan) -> list[TreePlan]:
    """The sets that are to be written."""
    return [tree for tree in plan.trees if tree.state is TreeState.MIGRATE]


def replicas_to_restore(seen: Observation, options: RunOptions, sets: Sets, *, begun: bool) -> int | None:
    """The replicas that the operator should get back now, if it is the one that was stopped and reads what is there.

    The target's reads what was written by an earlier run, and had it before its eyes when this one stopped it.
    """
    control = seen.control
    run, installed = control.recorded.unfinished or control.recorded.run, control.found.operator
    if run is None or installed is None or not installed.deployment or installed.replicas or not options.stop_operator:
        return None
    speaks = _speaks(installed.image, direction(options.plan), options)
    if sets is Sets.DONE and options.revert:
        was = None if speaks or (seen.sets is not None and seen.sets.remains) else run.operator
    elif sets is Sets.DONE:
        was = run.stopped if speaks else None
    else:
        was = run.stopped if not begun or (speaks and seen.phase is Phase.FENCED) else None
    if control.recorded.unfinished is None and not (options.revert and sets is Sets.DONE):
        return None
    return was.replicas if was is not None and was.replicas and was.image == installed.image else None


def foreign(installed: Operator | None, held: Iterable[str]) -> str | None:
    """An operator that acts although these Leases are ours; its description."""
    if installed is None or not installed.live or operator.kept_out(installed, held):
        return None
    names = ", ".join(f"{pod.ref.namespace}/{pod.ref.name} ({pod.image})" for pod in installed.pods)
    return f"{installed} elects no leader by a Lease that we hold, and runs: {names or installed.image}"


def describe(installed: Operator) -> str:
    """An operator that should not be there, for people."""
    if installed.pods:
        return f"operator pod {installed.pods[0].ref} ({installed.pods[0].image})"
    return f"{installed} with replicas {installed.replicas} and image {installed.image}"


def _worst(leases: Sequence[LeaseSeen]) -> Lease:
    order = (Lease.LOST, Lease.HELD, Lease.FREE, Lease.OURS)
    return min((lease.standing for lease in leases), key=order.index, default=Lease.FREE)


def _operator(control: Control, way: Direction, options: RunOptions) -> Op:
    installed = control.found.operator
    if installed is None or installed.gone:
        return Op.GONE
    targets = all(_speaks(image, way, options) for image in installed.images)
    if not installed.live and (not control.fenced or targets):
        return Op.ENDING
    if not targets:
        return Op.OTHER
    held = [lease.name for lease in control.theirs if lease.standing is Lease.OURS]
    return Op.LOOSE if control.fenced and not operator.kept_out(installed, held) else Op.TARGET


def _stoppable(control: Control, options: RunOptions) -> bool:
    installed = control.found.operator
    return options.stop_operator and (installed is None or bool(installed.deployment))


def _noted(control: Control) -> bool:
    run, installed = control.recorded.unfinished, control.found.operator
    return run is not None and installed is not None and run.stopped == Was(installed.replicas, installed.image)


def _target_was_running(control: Control, way: Direction, options: RunOptions) -> bool:
    """Whether the target's operator was at work before this run, or is: what it finds is what it reads."""
    run, installed = control.recorded.unfinished, control.found.operator
    was = (run.stopped or run.operator) if run is not None else None
    images = [was.image] if was is not None and was.replicas else []
    if installed is not None and installed.live:
        images += installed.images
    return any(_speaks(image, way, options) for image in images)


def _speaks(image: str, way: Direction, options: RunOptions) -> bool:
    return any(
        is_target(image, scheme, options.target_image, options.target_digests)
        for scheme in {way.target_of(c) for c in way.candidates}
    )


def _sets(seen: Observation, options: RunOptions, control: Control) -> Sets:
    found = seen.sets
    if found is None:
        return Sets.UNREAD
    if found.phase is Phase.WRITTEN and found.complete and not options.revert:
        return Sets.DONE
    if refusals_of(found.plan):
        return Sets.REFUSED
    if not options.revert and edited(found, control.recorded):
        return Sets.EDITED
    return Sets.PENDING if pending(found.plan) else Sets.DONE


def _begun(seen: Observation, options: RunOptions, kept: Rec, sets: Sets) -> bool:
    if kept is Rec.OTHER:
        return True
    if kept not in {Rec.WRITING, Rec.REVERTING}:
        return False
    if seen.sets is None or seen.sets.phase is Phase.START:
        return True
    return sets is not Sets.DONE if options.revert and kept is Rec.REVERTING else bool(seen.sets.back)


def _covered(seen: Observation, options: RunOptions, kept: Rec) -> bool:
    if seen.sets is None:
        return False
    if options.revert:
        return kept is Rec.REVERTING
    if kept is not Rec.WRITING:
        return False
    tables = seen.control.recorded.of_open_run()
    begun = {plan.tree.ref.uid for plan in seen.sets.back}
    return all(_is_covered(plan, tables.get(plan.tree.ref.uid), begun) for plan in pending(seen.sets.plan))


def _is_covered(plan: TreePlan, table: Table | None, begun: set[str]) -> bool:
    if table is None:
        return False
    return plan.tree.ref.uid in begun or table.template_digest == template_digest(plan.tree.pcs)
