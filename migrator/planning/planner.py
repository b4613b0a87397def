"""From sets to a plan, forward or back: the changes, refusals, and pods at stake. Pure.

A change replaces one stored value, which equals the source's hash of its own field, by the target's hash. Every other
value stays as it is, or is a reason to refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from migrator import kinds
from migrator.errors import UNDO_FIRST, DecodeError, UsageError
from migrator.grove import places
from migrator.grove.objects import PodCliqueSet, Snapshot, Tree
from migrator.hashing import schemes
from migrator.hashing.podcliqueset import SetHashes
from migrator.hashing.schemes import Scheme
from migrator.planning import guards, model
from migrator.planning.detect import HashPair, Verdict, detect
from migrator.planning.disruption import all_pods, disruption_of
from migrator.planning.guards import fields, updates, values
from migrator.planning.guards.base import SetFacts
from migrator.planning.guards.cluster import check_cluster
from migrator.planning.known_issues import advise
from migrator.planning.options import PlanOptions
from migrator.planning.patches import PATCHES_PER_SECOND
from migrator.releases import table

#: The time from the last write until the next operator works, in seconds; the time of the writes comes on top. GM-116
#: refuses a set whose gang termination would happen meanwhile.
OPERATOR_UPGRADE: Final = 300.0


@dataclass(frozen=True, slots=True)
class Known:
    """What the objects do not say: the time, the release that runs, and whether an earlier run may have written.

    If it may have (``resumes``), no set that holds hashes of the target is skipped. A set that this run has ``begun``
    and not finished never is. ``recorded`` is the source by the record of a run that has written: with ``--from auto``
    there is no other then. ``half_way``: a run has written and not ended. ``stopped``: the operator is at zero or
    waits, and is not the target's; if it ended a refusal, it would replace the pods of sets with the target's hashes.
    ``short_names`` are the kinds that a cluster serves in Grove's API group, by short name.
    """

    now: datetime | None = None
    running: str | None = None
    resumes: bool = False
    recorded: Scheme | None = None
    begun: frozenset[str] = frozenset()
    half_way: bool = False
    stopped: bool = False
    short_names: Mapping[str, str] = field(default_factory=dict)


NOTHING: Final = Known()


def make_plan(snapshot: Snapshot, options: PlanOptions, known: Known = NOTHING) -> model.Plan:
    """Decide the changes of every selected set.

    With ``skip_refused`` refused sets are left out, unless that leaves nothing to migrate.
    A PodCliqueSet that Go could not decode is refused.
    """
    stored = sum(1 for tree in snapshot.trees for _ in places.stored_hashes(tree))  # at least as many as patches
    downtime = stored / PATCHES_PER_SECOND + OPERATOR_UPGRADE
    plans = [_plan_of(tree, snapshot, options, known, downtime) for tree in snapshot.trees]
    if known.half_way or (known.stopped and any(map(holds_target, plans))):
        plans = [_beside_a_run(one, is_stopped=known.stopped) for one in plans]
    selected = tuple(p for p in plans if options.selects(p.tree.pcs))
    if options.skip_refused and any(p.state in {model.SetState.MIGRATE, model.SetState.DONE} for p in selected):
        selected = tuple(p if _is_half_way(p, known) else _skipped(p) for p in selected)
    return model.Plan(
        source=options.source,
        target=options.target,
        set_plans=selected,
        findings=tuple(guards.accepted(check_cluster(snapshot, plans, options), options.allow)),
        not_checked=tuple(guards.not_checked(snapshot)),
        cluster_disruption=sum((p.disruption for p in plans), model.Disruption()),
        running=known.running,
        advisories=tuple(advise(selected, options, known.running, known.short_names if snapshot.is_cluster else None)),
    )


def holds_target(plan: model.SetPlan) -> bool:
    """Whether a set holds a hash of the target that is not also the source's, as one that is done does.

    If its lists are in canonical order, both algorithms give it the same hashes: it may never have been migrated.
    """
    if plan.hashes is None:
        return False
    old, new = plan.hashes.source, plan.hashes.target
    if plan.state is model.SetState.DONE and old == new:  # then compare with the other algorithm of this layout
        (other,) = (one for one in schemes.all_schemes() if one.minor == plan.target.minor and one != plan.target)
        old = plan.tree.pcs.hashes(other)
    stored = places.stored_hashes(plan.tree)
    return any(item.value == new.of(item.clique) != old.of(item.clique) for item in stored)


def _may_hold_target(tree: Tree, target: Scheme) -> bool:
    """Whether a set holds a hash of the target, which may be another scheme's too."""
    try:
        new = tree.pcs.hashes(target)
    except DecodeError:
        return False
    return any(item.value == new.of(item.clique) for item in places.stored_hashes(tree))


def _is_half_way(plan: model.SetPlan, known: Known) -> bool:
    begun = plan.tree.ref.uid in known.begun and bool(plan.changes)
    return begun or (known.resumes and holds_target(plan))


def _changes_of(stored: Iterable[places.StoredHash], target: SetHashes) -> tuple[model.Change, ...]:
    """The changes that turn these values of the source into the target's, in the order of writing."""
    return tuple(
        model.Change(item.ref, item.field, item.value, new, item.clique, item.identity)
        for item in stored
        if (new := target.of(item.clique)) is not None
    )


def _plan_of(tree: Tree, snapshot: Snapshot, options: PlanOptions, known: Known, downtime: float) -> model.SetPlan:
    """The plan of one set, whatever the others are like."""
    try:
        return _decide(tree, snapshot, options, known, downtime)
    except DecodeError as error:  # its hashes are not known, so an upgrade may recreate all of its pods
        finding, lost = fields.not_hashable(tree.ref, error), all_pods(tree)
        target = options.target.scheme
        return model.SetPlan(tree, None, target, model.SetState.REFUSED, (), (finding,), lost, lost)


def _decide(tree: Tree, snapshot: Snapshot, options: PlanOptions, known: Known, downtime: float) -> model.SetPlan:
    target, builds = options.target.scheme, table.targets_of(options.target)
    if _is_skipped(tree):
        return model.SetPlan(tree, None, target, model.SetState.SKIPPED)
    stored, recorded = tuple(places.stored_hashes(tree)), known.recorded
    candidates = (recorded,) if options.source is None and recorded is not None else options.candidates
    pair, explained = detect(tree.pcs, stored, candidates, target)
    if not explained and options.source is not None:
        proven = [one for one in schemes.all_schemes() if _is_proven(tree.pcs, one)]
        actual, is_wrong = detect(tree.pcs, stored, proven, target)
        if is_wrong:
            return _wrong_from(tree, actual, options)
    likely = pair.source.scheme
    facts = SetFacts(
        tree,
        pair,
        builds=builds,
        explained=explained,
        values=pair.by_verdict(stored),
        recorded=likely == recorded,
        now=known.now if snapshot.is_cluster else None,
        downtime=downtime,
        possible_hashes=snapshot.possible_hashes,
    )
    # Where both give the same hashes, a likely source may be wrong: the stored generation hash must be that one too.
    is_certain = explained or options.source is not None or tree.pcs.generation_hash == pair.target.generation
    unchanged = is_certain and pair.source == pair.target
    findings = tuple(guards.accepted(guards.check_set(facts), options.allow, unchanged=unchanged))
    refused = any(f.severity is model.Severity.REFUSAL for f in findings)
    # If nothing refuses, every foreign value lags behind or was allowed, and stays.
    source = likely if explained or not refused else None
    # A refused set shows the changes that it would have if nothing refused, even if no scheme explains all of it.
    changes = _changes_of(facts.values[Verdict.SOURCE], pair.target)
    state = model.SetState.REFUSED if refused else _state_of(changes)
    without = disruption_of(tree, pair, builds)
    remaining = disruption_of(tree, pair, builds, migrated=True) if state is model.SetState.MIGRATE else without
    return model.SetPlan(tree, source, target, state, changes, findings, without, remaining, pair)


def _beside_a_run(plan: model.SetPlan, *, is_stopped: bool) -> model.SetPlan:
    """The plan, with remedies that need no operator: beside new hashes, one would replace pods of other sets.

    If the next operator is replacing pods of this set anyway, the remedies say what to do about that.
    """
    if plan.next_has_begun and any(change.ref.kind == kinds.PODS.kind for change in plan.changes):
        return plan
    return replace(plan, findings=tuple(_without_operator(finding, is_stopped=is_stopped) for finding in plan.findings))


def _without_operator(finding: model.Finding, *, is_stopped: bool) -> model.Finding:
    """The finding; if it refuses, its remedy needs no operator."""
    remedy, allow = finding.remedy, f"run with --allow {finding.code}"
    if is_stopped and finding.code == updates.TERMINATION.code:
        why = "while no operator runs, nobody can bring its pods back or raise the delay"  # its webhook is gone, too
        remedy = f"{allow}: {why}, and the old operator would delete the gang too"
    elif finding.settles:
        remedy = f"{UNDO_FIRST}, or {allow}" if finding.overridable else UNDO_FIRST
    return replace(finding, remedy=remedy) if finding.severity is model.Severity.REFUSAL else finding


def _is_skipped(tree: Tree) -> bool:
    """Whether a set is left alone: it is being deleted, or an operator has never reconciled it."""
    children = tree.pod_cliques or tree.scaling_groups
    return tree.pcs.terminating or (not children and next(places.stored_hashes(tree), None) is None)


def _wrong_from(tree: Tree, pair: HashPair, options: PlanOptions) -> model.SetPlan:
    """The plan of a set whose hashes are all of another scheme than ``--from`` names."""
    actual, target = pair.source.scheme, pair.target.scheme
    builds = table.build_range(table.builds_with(actual))
    message = f"holds the hashes of {actual} ({builds}), not those of --from {options.source}"
    remedy = f"leave out --from, or give --from {actual}"
    finding = values.FOREIGN.found(tree.ref, places.SET_GENERATION.pointer, message, remedy)
    lost = disruption_of(tree, pair, table.targets_of(options.target))
    return model.SetPlan(tree, None, target, model.SetState.REFUSED, (), (finding,), lost, lost, pair)


def _skipped(plan: model.SetPlan) -> model.SetPlan:
    """Leave a refused set out; any other plan stays as it is."""
    if plan.state is not model.SetState.REFUSED:
        return plan
    findings = tuple(finding.as_warning for finding in plan.findings)
    return replace(plan, state=model.SetState.SKIPPED, changes=(), findings=findings)


def certain_source(plans: Sequence[model.SetPlan], options: PlanOptions, likely: Scheme | None) -> Scheme | None:
    """The source that explains all of these sets: the likely one if it does, or the only one that does."""

    def explains(scheme: Scheme) -> bool:
        return all(one.hashes is not None and one.hashes.source == one.tree.pcs.hashes(scheme) for one in plans)

    explaining = [scheme for scheme in options.candidates if explains(scheme)]
    if likely in explaining:
        return likely
    return explaining[0] if len(explaining) == 1 else None


def plan_revert(snapshot: Snapshot, options: PlanOptions, recorded: Scheme | None) -> model.Plan:
    """The plan of ``run --revert``: every value of the target becomes the source's, by the spec as it is now.

    The source is that of ``--from``, or the one that was ``recorded``; sets that hold no hash of the target need none.
    No guard refuses it. Values of neither scheme stay, with a warning: to both operators they are outdated.
    Raises :class:`~migrator.errors.UsageError` without a source, or with one that the record or a stored value
    contradicts.
    """
    old, new = options.source.scheme if options.source is not None else recorded, options.target.scheme
    trees = [tree for tree in snapshot.trees if not tree.pcs.terminating]
    if old is None:
        if any(_may_hold_target(tree, new) for tree in trees):
            raise UsageError("--revert found no record of the old release: name it with --from")
        return model.Plan(None, options.target)
    if recorded not in {None, old}:
        raise UsageError(
            f"by the record, the old hashes are those of {recorded}, not of --from {options.source}: undo that with "
            f"`grove-migrator run --revert --to {options.target}`"
        )
    plans = tuple(_revert(tree, new, old) for tree in trees)
    return model.Plan(table.Named(old.name, old), table.Named(new.name, new), plans)


def _revert(tree: Tree, new: Scheme, old: Scheme) -> model.SetPlan:
    hashes = tree.pcs.hashes
    try:
        pair = HashPair(hashes(new), hashes(old))
    except DecodeError as error:
        kept = values.LEFT_ALONE.found(tree.ref, None, f"cannot be hashed, so it is left alone: {error}")
        return model.SetPlan(tree, new, old, model.SetState.DONE, (), (kept,))
    by_verdict = pair.by_verdict(places.stored_hashes(tree))
    for item in by_verdict[Verdict.FOREIGN]:
        same = (one for one in schemes.all_schemes() if item.value == hashes(one).of(item.clique))
        if other := next((one for one in same if _is_proven(tree.pcs, one)), None):
            raise UsageError(
                f"{item.ref}: {item.field} is {other.name}'s hash, so the old hashes are not only those of "
                f"{old.name}: name the old release with --from, or migrate those sets first"
            )
    changes = _changes_of(by_verdict[Verdict.SOURCE], pair.target)
    which = f"which is neither {old.name}'s nor {new.name}'s; it is left alone"
    findings = tuple(
        values.LEFT_ALONE.found(item.ref, item.field, f"holds {item.value} in {item.field}, {which}")
        for item in by_verdict[Verdict.FOREIGN]
    )
    return model.SetPlan(tree, new, old, _state_of(changes), changes, findings, hashes=pair)


def _is_proven(pcs: PodCliqueSet, scheme: Scheme) -> bool:
    """Whether a hash of this scheme proves an operator of it.

    A canonical one may be a legacy hash of lists that were in canonical order before an edit, as for GM-105.
    """
    is_canonical = scheme.algorithm == schemes.CANONICAL
    return not is_canonical or (pcs.is_observed and pcs.generation_hash == pcs.hashes(scheme).generation)


def _state_of(changes: tuple[model.Change, ...]) -> model.SetState:
    """The state of a set that is neither skipped nor refused."""
    return model.SetState.MIGRATE if changes else model.SetState.DONE
