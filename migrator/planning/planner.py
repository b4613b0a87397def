"""From trees to a plan, forward or back, or to one for each target: the changes, refusals, and pods at stake. Pure.

A change replaces one stored value, which equals the source's hash of its own field, by the target's hash. Every other
value stays as it is, or is a reason to refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from migrator.errors import UsageError
from migrator.grove import places
from migrator.grove.objects import Snapshot, Tree
from migrator.hashing import schemes
from migrator.hashing.schemes import Scheme
from migrator.planning import guards, model
from migrator.planning.detect import Detection, HashesUnder, HashPair, Verdict, detect, hashes_of
from migrator.planning.disruption import disruption_of
from migrator.planning.guards import values
from migrator.planning.guards.base import SetFacts
from migrator.planning.guards.cluster import check_cluster
from migrator.planning.guards.updates import gang_termination
from migrator.planning.known_issues import advise, advise_on_crds
from migrator.planning.options import Direction, PlanOptions
from migrator.planning.patches import PATCHES_PER_SECOND, patch_count
from migrator.releases import table
from migrator.releases.table import Release

#: The time from the last write until the next operator works, in seconds; the time of the writes comes on top. GM-116
#: refuses a set whose gang termination would happen meanwhile.
OPERATOR_UPGRADE: Final = 300.0


@dataclass(frozen=True, slots=True)
class Outlook:
    """The cluster or the dump as it is, whatever the target; counts are of selected sets and their pods.

    ``installed`` is the release that the operator's image names, and ``running`` is the same if the operator runs.
    ``record`` tells of the last run, and ``resumes`` are the flags that finish one that did not end.
    """

    name: str | None
    is_cluster: bool
    sets: int = 0
    pods: int = 0
    gpus: int = 0
    operator: str | None = None
    running: str | None = None
    record: str = ""
    resumes: tuple[str, ...] = ()
    installed: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A scheme, the releases that use it (``running``: one of them runs), and the plan of an upgrade to them."""

    scheme: Scheme
    releases: tuple[str, ...]
    running: bool
    plan: model.Plan


@dataclass(frozen=True, slots=True)
class Known:
    """What is known and is in no object: the time, the running release, and whether an earlier run may have written.

    Then no set that holds hashes of the target is skipped, nor one that this run has ``begun`` and not written whole.
    ``short_names`` are the kinds that a cluster serves in Grove's API group, by short name.
    """

    now: datetime | None = None
    running: str | None = None
    resumes: bool = False
    begun: frozenset[str] = frozenset()
    short_names: Mapping[str, str] = field(default_factory=dict)


NOTHING: Final = Known()


def make_plan(snapshot: Snapshot, options: PlanOptions, known: Known = NOTHING) -> model.Plan:
    """Decide the changes of every selected tree.

    With ``skip_refused`` refused sets are left out, unless that leaves nothing to migrate.
    Raises :class:`~migrator.errors.InputError` for a PodCliqueSet that Go could not decode.
    """
    planner = _Planner(options, known, snapshot)
    plans = list(planner.with_gang_terminations([planner.plan_tree(tree) for tree in snapshot.trees]))
    selected = tuple(p for p in plans if options.selects(p.tree.pcs))
    if options.skip_refused and any(p.state in {model.SetState.MIGRATE, model.SetState.DONE} for p in selected):
        selected = tuple(p if _is_half_way(p, known) else _skipped(p) for p in selected)
    return model.Plan(
        source=options.source,
        target=options.target,
        set_plans=selected,
        findings=tuple(
            finding.as_warning if options.for_display or finding.code in options.allow else finding
            for finding in check_cluster(snapshot, plans, options)
        ),
        not_checked=tuple(guards.not_checked(snapshot)),
        cluster_disruption=sum((p.disruption for p in plans), model.Disruption()),
        advisories=_advisories(snapshot, selected, options, known),
    )


def _advisories(
    snapshot: Snapshot, plans: Sequence[model.SetPlan], options: PlanOptions, known: Known
) -> tuple[model.Advice, ...]:
    """The known issues of an upgrade of these sets."""
    of_trees = (found for plan in plans for found in advise(plan.tree, options, known.running, plan.source))
    served = known.short_names if snapshot.is_cluster else None
    return (*of_trees, *advise_on_crds(plans, options, known.running, served))


def plans_for_all_releases(snapshot: Snapshot, options: PlanOptions, known: Known = NOTHING) -> Iterator[Target]:
    """Plan for every scheme that a release uses, one by one, because a plan is as large as a cluster.

    Arguments and exceptions are those of :func:`make_plan`; ``options.target`` is ignored.
    """
    for scheme in table.released_schemes():
        builds = [release for release in table.releases() if release.scheme == scheme]
        if releases := tuple(one.name for one in builds if not one.from_main):
            plan = make_plan(snapshot, replace(options, target=table.Named(scheme.name, scheme)), known)
            yield Target(scheme, releases, known.running in {build.name for build in builds}, plan)


def holds_target(plan: model.SetPlan) -> bool:
    """Whether a set holds a hash of the target that is not the source's too."""
    old, new = plan.source_hashes, plan.target_hashes
    if old is None or new is None:
        return False
    return any(item.value == new.of(item.clique) != old.of(item.clique) for item in places.stored_hashes(plan.tree))


def _is_half_way(plan: model.SetPlan, known: Known) -> bool:
    begun = plan.tree.ref.uid in known.begun and bool(plan.changes)
    return begun or (known.resumes and holds_target(plan))


def holds_any_target(tree: Tree, direction: Direction) -> bool:
    """Whether a set holds a hash of the target that is no candidate's too."""
    hashes, stored = hashes_of(tree.pcs), tuple(places.stored_hashes(tree))
    new, olds = hashes(direction.target), [hashes(one) for one in direction.candidates if one != direction.target]
    return any(item.value == new.of(item.clique) not in {old.of(item.clique) for old in olds} for item in stored)


def contradicting(plan: model.Plan) -> tuple[places.StoredHash, Scheme] | None:
    """A value that another scheme than those of a revert explains, and that scheme: the source is not the only one."""
    for found in plan.set_plans:
        if found.source_hashes is None or found.target_hashes is None:
            continue
        hashes, pair = hashes_of(found.tree.pcs), HashPair(found.source_hashes, found.target_hashes)
        others = [one for one in schemes.all_schemes() if one not in {found.source, found.target}]
        for item in pair.by_verdict(places.stored_hashes(found.tree))[Verdict.FOREIGN]:
            for one in others:
                if item.value == hashes(one).of(item.clique):
                    return item, one
    return None


def changes_of(stored: Iterable[places.StoredHash], pair: HashPair) -> tuple[model.Change, ...]:
    """The changes that turn every value of the source into the target's, in the order of writing."""
    found = ((item, pair.target.of(item.clique)) for item in stored if pair.classify(item) is Verdict.SOURCE)
    return tuple(
        model.Change(item.ref, item.field, item.value, new, item.clique, item.identity)
        for item, new in found
        if new is not None
    )


@dataclass(frozen=True, slots=True)
class _Planner:
    options: PlanOptions
    known: Known
    snapshot: Snapshot

    def plan_tree(self, tree: Tree) -> model.SetPlan:
        """Decide one tree."""
        hashes, direction = hashes_of(tree.pcs), self.options.direction
        if _is_skipped(tree):
            return model.SetPlan(tree, None, direction.target, model.SetState.SKIPPED)
        detection = detect(places.stored_hashes(tree), direction, hashes)
        if detection.source is None and self.options.source is not None:
            shipped = Direction(schemes.all_schemes(), detection.target)
            other = detect(places.stored_hashes(tree), shipped, hashes)
            if other.source is not None:
                decided = self._decide(tree, hashes, other, allow=frozenset())
                return _wrong_from(decided, other.source, self.options.source)
        return self._decide(tree, hashes, detection, allow=self.options.allow)

    def _decide(self, tree: Tree, hashes: HashesUnder, detection: Detection, *, allow: frozenset[str]) -> model.SetPlan:
        pair = HashPair(hashes(detection.likely_source), hashes(detection.target))
        by_verdict = pair.by_verdict(places.stored_hashes(tree))
        # A refused tree shows the changes that it would have if nothing refused, even if no scheme explains all of it.
        changes, foreign = changes_of(by_verdict[Verdict.SOURCE], pair), by_verdict[Verdict.FOREIGN]
        facts = SetFacts(tree, detection, pair, by_verdict, self.known.resumes, self.snapshot.possible_hashes)
        certain = self.options.source is not None or tree.pcs.generation_hash == pair.target.generation
        unchanged = detection.done or (pair.source == pair.target and certain)
        findings = tuple(guards.accepted(guards.check_set(facts), allow, unchanged=unchanged))
        refused = any(f.severity is model.Severity.REFUSAL for f in findings)
        source = detection.source
        if source is None and foreign and (not refused or len(facts.lagging) == len(foreign)):
            source = detection.likely_source  # every foreign value lags behind or was allowed, and stays
        without, remaining = disruption_of(
            tree, pair, source=detection.likely_source, target=detection.target, builds=self.options.target.builds
        )
        return model.SetPlan(
            tree=tree,
            source=source,
            target=detection.target,
            state=model.SetState.REFUSED if refused else _state_of(changes),
            changes=changes,
            findings=findings,
            disruption=without,
            remaining=remaining,
            source_hashes=pair.source,
            target_hashes=pair.target,
        )

    def with_gang_terminations(self, plans: Sequence[model.SetPlan]) -> Iterator[model.SetPlan]:
        """The plans with GM-116, which needs the downtime that all of them cause together."""
        patches = sum(patch_count(plan.changes) for plan in plans if plan.state is model.SetState.MIGRATE)
        downtime = patches / PATCHES_PER_SECOND + OPERATOR_UPGRADE
        for plan in plans:
            builds = self.options.target.builds
            live = plan.state is not model.SetState.SKIPPED
            now = self.known.now if self.snapshot.is_cluster else None
            found = gang_termination(plan.tree, builds=builds, now=now, downtime=downtime) if live else ()
            new = tuple(guards.accepted(found, self.options.allow, unchanged=not plan.changes))
            refused = any(finding.severity is model.Severity.REFUSAL for finding in new)
            state = model.SetState.REFUSED if refused else plan.state
            yield replace(plan, state=state, findings=(*plan.findings, *new))


def _is_skipped(tree: Tree) -> bool:
    """Whether a set is left alone: it is being deleted, or an operator has never reconciled it."""
    children = tree.pod_cliques or tree.scaling_groups
    return tree.pcs.terminating or (not children and next(places.stored_hashes(tree), None) is None)


def _wrong_from(decided: model.SetPlan, other: Scheme, requested: table.Named) -> model.SetPlan:
    """The plan of a tree whose hashes are not those of ``--from``: no change and one finding."""
    builds = table.build_range(table.builds_with(other))
    message = f"holds the hashes of {other.name} ({builds}), not those of --from {requested}"
    remedy = f"leave out --from, or give --from {other.name}"
    finding = values.FOREIGN.found(decided.tree.ref, places.SET_GENERATION.pointer, message, remedy)
    return replace(
        decided,
        source=None,
        state=model.SetState.REFUSED,
        changes=(),
        findings=(finding,),
        remaining=decided.disruption,
    )


def _skipped(plan: model.SetPlan) -> model.SetPlan:
    """Leave a refused set out; any other plan stays as it is."""
    if plan.state is not model.SetState.REFUSED:
        return plan
    return replace(
        plan, state=model.SetState.SKIPPED, changes=(), findings=tuple(finding.as_warning for finding in plan.findings)
    )


def certain_source(plans: Sequence[model.SetPlan], direction: Direction, release: Release | None) -> Scheme | None:
    """The source that explains all of these sets: the release's if it does, or the only one that does."""
    explain = [
        scheme
        for scheme in direction.candidates
        if plans and all(plan.source_hashes == hashes_of(plan.tree.pcs)(scheme) for plan in plans)
    ]
    if release is not None and release.scheme in explain:
        return release.scheme
    return explain[0] if len(explain) == 1 else None


def plan_revert(snapshot: Snapshot, options: PlanOptions, recorded: Scheme | None) -> model.Plan:
    """The plan of ``run --revert``: by ``--from``, or by the source that was ``recorded``.

    Raises :class:`~migrator.errors.UsageError` without a source, or with one that the record or a stored value
    contradicts. Sets that hold no hash of the target need no source.
    """
    direction = options.direction
    if options.source is None and recorded is not None:
        direction = Direction((recorded,), direction.target)
    elif options.source is None:
        if any(holds_any_target(tree, direction) for tree in snapshot.trees):
            raise UsageError("--revert found no record of the old release: name it with --from")
        return model.Plan(options.source, options.target, ())
    elif recorded is not None and recorded not in direction.candidates:
        raise UsageError(
            f"by the record, the old hashes are those of {recorded}, not of --from {options.source}: undo that with "
            f"`run --revert --to {options.target}`"
        )
    plan = make_revert(snapshot, direction)
    if (contradiction := contradicting(plan)) is not None:
        item, other = contradiction
        raise UsageError(
            f"{item.ref}: {item.field} is {other.name}'s hash, so the old hashes are not only those of "
            f"{direction.candidates[0].name}: name the old release with --from, or migrate those sets first"
        )
    return plan


def make_revert(snapshot: Snapshot, direction: Direction) -> model.Plan:
    """The plan of ``run --revert``: every value of the target becomes the source's, by the spec as it is now.

    No rule refuses it. Values of neither scheme stay, with a warning: they are outdated to operators of either.
    """
    (source,) = direction.candidates
    plans = (_revert(tree, direction.target, source) for tree in snapshot.trees if not tree.pcs.terminating)
    return model.Plan(
        table.Named(source.name, source), table.Named(direction.target.name, direction.target), tuple(plans)
    )


def _revert(tree: Tree, new: Scheme, old: Scheme) -> model.SetPlan:
    hashes = hashes_of(tree.pcs)
    pair = HashPair(hashes(new), hashes(old))
    by_verdict = pair.by_verdict(places.stored_hashes(tree))
    changes = changes_of(by_verdict[Verdict.SOURCE], pair)
    which = f"which is neither {old.name}'s nor {new.name}'s; it is left alone"
    findings = tuple(
        values.LEFT_ALONE.found(item.ref, item.field, f"holds {item.value} in {item.field}, {which}")
        for item in by_verdict[Verdict.FOREIGN]
    )
    return model.SetPlan(
        tree=tree,
        source=new,
        target=old,
        state=_state_of(changes),
        changes=changes,
        findings=findings,
        source_hashes=pair.source,
        target_hashes=pair.target,
    )


def _state_of(changes: tuple[model.Change, ...]) -> model.SetState:
    """The state of a tree that is neither skipped nor refused."""
    return model.SetState.MIGRATE if changes else model.SetState.DONE
