"""From trees to a plan, forward or back, or to one for each target: the changes, refusals, and pods at stake. Pure.

A change replaces one stored value, which equals the source's hash of its own field, by the target's hash. Every other
value stays as it is, or is a reason to refuse.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from migrator.errors import UsageError
from migrator.exact_json import dumps
from migrator.grove.hash_fields import SET_GENERATION, StoredHash, stored_hashes
from migrator.grove.objects import PodCliqueSet, PossibleHash, Snapshot, Tree
from migrator.hashing import schemes
from migrator.hashing.schemes import Scheme
from migrator.planning.detect import Detection, HashesUnder, HashPair, Verdict, detect, hashes_of
from migrator.planning.disruption import disruption_of
from migrator.planning.guards import check_set, cluster_findings, judged, not_checked
from migrator.planning.guards.base import SetFacts, as_warning, report
from migrator.planning.guards.updates import gang_termination
from migrator.planning.known_issues import advise, advise_on_crds
from migrator.planning.model import Advice, Change, Disruption, Finding, Plan, SetPlan, SetState, Severity, Table
from migrator.planning.options import AUTO, Direction, PlanOptions, direction_of
from migrator.planning.patches import PATCHES_PER_SECOND, patch_count
from migrator.planning.releases import build_range, builds_of, builds_with

#: The time from the last write until the next operator works, in seconds; the time of the writes comes on top. GM-116
#: refuses a set whose gang termination would happen meanwhile.
OPERATOR_UPGRADE: Final = 300.0


@dataclass(frozen=True, slots=True)
class Outlook:
    """The cluster or the dump as it is, whatever the target; counts are of selected sets and their pods.

    ``running`` is the release of the operator if its image names one. ``record`` tells of a run that did not end, and
    ``resumes`` are the flags that finish it.
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


@dataclass(frozen=True, slots=True)
class Target:
    """A scheme, the releases that use it (``running``: one of them runs), and the plan of an upgrade to them."""

    scheme: Scheme
    releases: tuple[str, ...]
    running: bool
    plan: Plan


@dataclass(frozen=True, slots=True)
class Known:
    """What is known and is in no object: tables of earlier runs by PodCliqueSet uid, the time, the running release.

    ``begun`` are the uids of the sets that the open run has begun and not finished: none of them is skipped.
    ``short_names`` are the kinds that a cluster serves in Grove's API group, by short name.
    """

    tables: Mapping[str, Table] = field(default_factory=dict)
    now: datetime | None = None
    running: str | None = None
    begun: frozenset[str] = frozenset()
    short_names: Mapping[str, str] = field(default_factory=dict)


NOTHING: Final = Known()


def make_plan(snapshot: Snapshot, options: PlanOptions, known: Known = NOTHING) -> Plan:
    """Decide the changes of every selected tree.

    With ``skip_refused`` refused sets are left out, unless that leaves nothing to migrate.
    Raises :class:`~migrator.errors.InputError` for a PodCliqueSet that Go could not decode.
    """
    direction = direction_of(options)
    own = {uid: table for uid, table in known.tables.items() if belongs_to(table, direction)}
    planner = _Planner(options, direction, own, known.now if snapshot.is_cluster else None, snapshot.possible_hashes)
    plans = list(planner.with_gang_terminations([planner.plan_tree(tree) for tree in snapshot.trees]))
    selected = tuple(p for p in plans if options.selects(p.tree.pcs))
    if options.skip_refused and any(p.state in {SetState.MIGRATE, SetState.DONE} for p in selected):
        selected = tuple(p if p.tree.ref.uid in known.begun else _skipped(p) for p in selected)
    return Plan(
        requested_source=options.source,
        requested_target=options.target,
        set_plans=selected,
        findings=tuple(
            as_warning(finding) if options.for_display or finding.code in options.allow else finding
            for finding in cluster_findings(snapshot, plans, options)
        ),
        not_checked=tuple(not_checked(snapshot)),
        cluster_disruption=sum((p.disruption for p in plans), Disruption()),
        advisories=_advisories(snapshot, [(p.tree, p.source, p.target) for p in selected], options, known),
    )


def _advisories(
    snapshot: Snapshot, ends: Sequence[tuple[Tree, str | None, str | None]], options: PlanOptions, known: Known
) -> tuple[Advice, ...]:
    """The known issues of an upgrade of these trees, each with the schemes of its plan."""
    of_trees = (found for tree, *schemes_of in ends for found in advise(tree, options, known.running, *schemes_of))
    served = known.short_names if snapshot.is_cluster else None
    return (*of_trees, *advise_on_crds(ends, options, known.running, served))


def plans_for_all_releases(snapshot: Snapshot, options: PlanOptions, known: Known = NOTHING) -> Iterator[Target]:
    """Plan for every scheme that a release uses, one by one, because a plan is as large as a cluster.

    Arguments and exceptions are those of :func:`make_plan`; ``options.target`` is ignored.
    """
    for scheme in schemes.released_schemes():
        builds = schemes.releases_with(scheme)
        if releases := tuple(one.name for one in builds if not one.from_main):
            plan = make_plan(snapshot, replace(options, target=scheme.name), known)
            yield Target(scheme, releases, known.running in {build.name for build in builds}, plan)


def template_digest(pcs: PodCliqueSet) -> str:
    """A digest of the hashed part of a set's spec. It shows a rerun whether that part has changed."""
    cliques = [
        {key: clique.get(key) for key in ("name", "labels", "annotations")}
        | {"podSpec": (clique.get("spec") or {}).get("podSpec")}
        for clique in pcs.cliques
    ]
    hashed = {key: pcs.template.get(key) for key in ("priorityClassName", "cliqueStartupType")} | {"cliques": cliques}
    return hashlib.sha256(dumps(hashed, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def changes_of(stored: Iterable[StoredHash], *pairs: HashPair) -> tuple[Change, ...]:
    """The changes that turn every value of a pair's source into its target's, in the order of writing.

    The first pair that knows a value decides: what is its target already stays, whatever the others say.
    """
    changes = list[Change]()
    for item in stored:
        for pair in pairs:
            verdict, new = pair.classify(item), pair.target.of(item.clique)
            if verdict is Verdict.TARGET:
                break
            if verdict is Verdict.SOURCE and new is not None:
                changes.append(Change(item.ref, item.field, item.value, new, item.clique, item.identity))
                break
    return tuple(changes)


@dataclass(frozen=True, slots=True)
class _Planner:
    options: PlanOptions
    direction: Direction
    tables: Mapping[str, Table]
    now: datetime | None
    possible_hashes: tuple[PossibleHash, ...]

    def plan_tree(self, tree: Tree) -> SetPlan:
        """Decide one tree."""
        hashes = hashes_of(tree.pcs)
        if _is_skipped(tree):
            return SetPlan(tree, None, self.direction.target.name, SetState.SKIPPED)
        table = self.tables.get(tree.ref.uid)
        first = (schemes.by_name(table.source),) if table is not None else ()  # what is recorded decides first
        direction = replace(self.direction, candidates=tuple(dict.fromkeys((*first, *self.direction.candidates))))
        detection = detect(stored_hashes(tree), direction, hashes)
        if detection.source is None and self.options.source != AUTO:
            shipped = Direction(schemes.all_schemes(), detection.target)
            other = detect(stored_hashes(tree), shipped, hashes)
            if other.source is not None:
                decided = self._decide(tree, hashes, other, None, allow=frozenset())
                return _wrong_from(decided, other.source, self.options.source)
        if table is not None and _edited_midway(tree.pcs, table, hashes):
            # No override helps here: it would leave hashes that only the recorded table can translate.
            decided = self._decide(tree, hashes, detection, table, allow=frozenset())
            back = _undone(decided, table)
            if decided.state is SetState.REFUSED and back.changes:
                return back
        return self._decide(tree, hashes, detection, table, allow=self.options.allow)

    def _decide(
        self, tree: Tree, hashes: HashesUnder, detection: Detection, table: Table | None, *, allow: frozenset[str]
    ) -> SetPlan:
        pair = HashPair(hashes(detection.likely_source), hashes(detection.target))
        values = pair.by_verdict(stored_hashes(tree))
        # A refused tree shows the changes that it would have if nothing refused, even if no scheme explains all of it.
        changes, foreign = changes_of(values[Verdict.SOURCE], pair), values[Verdict.FOREIGN]
        facts = SetFacts(
            tree, detection, pair, values, table.source if table is not None else None, self.possible_hashes
        )
        certain = self.options.source != AUTO or tree.pcs.generation_hash == pair.target.generation
        unchanged = detection.done or (pair.source == pair.target and certain)
        findings = judged(check_set(facts), allow=allow, unchanged=unchanged)
        refused = any(f.severity is Severity.REFUSAL for f in findings)
        source = detection.source
        if source is None and foreign and (not refused or len(facts.lagging) == len(foreign)):
            source = detection.likely_source  # every foreign value lags behind or was allowed, and stays
        builds = builds_of(self.options.target, detection.target)
        without, remaining = disruption_of(
            tree, pair, source=detection.likely_source, target=detection.target, builds=builds
        )
        return SetPlan(
            tree=tree,
            source=source.name if source else None,
            target=detection.target.name,
            state=SetState.REFUSED if refused else _state_of(changes),
            changes=changes,
            findings=findings,
            disruption=without,
            remaining=remaining,
            source_hashes=pair.source,
            target_hashes=pair.target,
        )

    def with_gang_terminations(self, plans: Sequence[SetPlan]) -> Iterator[SetPlan]:
        """The plans with GM-116, which needs the downtime that all of them cause together."""
        patches = sum(patch_count(plan.changes) for plan in plans if plan.state is SetState.MIGRATE)
        downtime = patches / PATCHES_PER_SECOND + OPERATOR_UPGRADE
        for plan in plans:
            builds = builds_of(self.options.target, schemes.by_name(plan.target))
            live = plan.state is not SetState.SKIPPED
            found = gang_termination(plan.tree, builds=builds, now=self.now, downtime=downtime) if live else ()
            new = judged(found, allow=self.options.allow, unchanged=not plan.changes)
            refused = any(finding.severity is Severity.REFUSAL for finding in new)
            state = SetState.REFUSED if refused else plan.state
            yield replace(plan, state=state, findings=(*plan.findings, *new))


def _is_skipped(tree: Tree) -> bool:
    """Whether a set is left alone: it is being deleted, or an operator has never reconciled it."""
    children = tree.pod_cliques or tree.scaling_groups
    return tree.pcs.terminating or (not children and next(stored_hashes(tree), None) is None)


def _wrong_from(decided: SetPlan, other: Scheme, requested: str) -> SetPlan:
    """The plan of a tree whose hashes are not those of ``--from``: no change and one finding."""
    ref = decided.tree.ref
    message = (
        f"{ref} holds the hashes of {other.name} ({build_range(builds_with(other))}), not those of --from {requested}"
    )
    remedy = f"leave out --from, or give --from {other.name}"
    finding = report("GM-101", ref, SET_GENERATION.pointer, message, remedy)
    return replace(
        decided, source=None, state=SetState.REFUSED, changes=(), findings=(finding,), remaining=decided.disruption
    )


def _undone(decided: SetPlan, table: Table) -> SetPlan:
    """Revert a tree whose spec changed after its first write, by its table alone."""
    tree = decided.tree
    pair = HashPair(table.target_hashes, table.source_hashes)
    message = (
        f"{tree.ref} was edited after its migration had begun at generation {table.generation}: its old hashes must be "
        "restored first"
    )
    remedy = "add `--revert` to the run, let the old operator roll the edit out, and migrate again"
    return replace(
        _reverted(tree, table, table.target, table.source, pair),
        state=SetState.REFUSED,
        findings=(report("GM-130", tree.ref, "/spec/template", message, remedy),),
        disruption=decided.disruption,
        remaining=decided.disruption,
    )


def _edited_midway(pcs: PodCliqueSet, table: Table, hashes: HashesUnder) -> bool:
    """Whether the tree was edited before its migration ended: its commit record is still the source's.

    Nothing is unfinished if source and target give the same generation hash: then no clique has two hashes.
    """
    if table.template_digest == template_digest(pcs):
        return False
    old = {table.source_hashes.generation, hashes(schemes.by_name(table.source)).generation}
    new = {table.target_hashes.generation, hashes(schemes.by_name(table.target)).generation}
    return pcs.generation_hash in old - new


def belongs_to(table: Table, direction: Direction) -> bool:
    """Whether a table was recorded by a run of these schemes."""
    return schemes.by_name(table.source) in direction.candidates and direction.target.name == table.target


def _skipped(plan: SetPlan) -> SetPlan:
    """Leave a refused set out; any other plan stays as it is."""
    if plan.state is not SetState.REFUSED:
        return plan
    return replace(plan, state=SetState.SKIPPED, changes=(), findings=tuple(map(as_warning, plan.findings)))


def make_revert(snapshot: Snapshot, options: PlanOptions, *, tables: Mapping[str, Table]) -> Plan:
    """The plan of ``run --revert`` for all sets of a migrated cluster, whichever are selected.

    Every target value becomes the source's again, except those that were the target's before the run. ``--from`` and
    ``--to`` must be those of the run that is undone, and ``tables`` its tables, by PodCliqueSet uid. A table has the
    hashes from before any later edit. If there is none, ``--from`` must name the source; without it the set stays as
    it is, with a warning if it holds a recorded target's hashes. Values of neither scheme stay too, with a warning.
    Raises :class:`~migrator.errors.UsageError` if there is neither a table nor a source.
    """
    direction = direction_of(options)
    if not tables and options.source == AUTO and snapshot.trees:
        raise UsageError("--revert found no record of the old hashes: name the release to return to with --from")
    known, others = list[Tree](), list[Tree]()
    for tree in snapshot.trees:
        if not tree.pcs.terminating:
            (known if options.source != AUTO or tree.ref.uid in tables else others).append(tree)
    reverts = tuple(_revert(tree, direction, tables.get(tree.ref.uid)) for tree in known)
    pairs = {(schemes.by_name(table.source), schemes.by_name(table.target)) for table in tables.values()}
    return Plan(options.source, options.target, reverts, tuple(_not_recorded(others, pairs)))


def _not_recorded(trees: Iterable[Tree], pairs: Iterable[tuple[Scheme, Scheme]]) -> Iterator[Finding]:
    """Warnings of sets that hold a target's hashes though no run has written them: perhaps they were made since."""
    for tree in trees:
        hashes, stored = hashes_of(tree.pcs), tree.pcs.generation_hash
        for old, new in pairs:
            if stored == hashes(new).generation != hashes(old).generation:
                message = (
                    f"{tree.ref} holds the hashes of {new.name}, but the record of that run does not have it, so it is "
                    "left alone: the old operator would replace its pods"
                )
                remedy = f"to revert it too, run with --from {old.name}"
                yield report("GM-112", tree.ref, SET_GENERATION.pointer, message, remedy)


def _revert(tree: Tree, direction: Direction, table: Table | None) -> SetPlan:
    old = schemes.by_name(table.source) if table is not None else direction.candidates[0]
    new = direction.target
    hashes = hashes_of(tree.pcs)
    pairs = [HashPair(hashes(new), hashes(old))]
    if table is not None:
        pairs.append(HashPair(table.target_hashes, table.source_hashes))
    which = f"which is neither {old.name}'s nor {new.name}'s; it is left alone"
    findings = tuple(
        report("GM-112", item.ref, item.field, f"{item.ref} holds {item.value}, {which}")
        for item in stored_hashes(tree)
        if {pair.classify(item) for pair in pairs}.isdisjoint({Verdict.SOURCE, Verdict.TARGET})
    )
    return replace(_reverted(tree, table, new.name, old.name, *pairs), findings=findings)


def _reverted(tree: Tree, table: Table | None, source: str, target: str, *pairs: HashPair) -> SetPlan:
    """The plan of a tree that goes back; what was the target's before the table's run stays."""
    kept = {(entry.ref.uid, entry.field) for entry in (table.kept if table is not None else ())}
    changes = changes_of(stored_hashes(tree), *pairs)
    changes = tuple(change for change in changes if (change.ref.uid, change.field) not in kept)
    return SetPlan(
        tree=tree,
        source=source,
        target=target,
        state=_state_of(changes),
        changes=changes,
        source_hashes=pairs[0].source,
        target_hashes=pairs[0].target,
    )


def _state_of(changes: tuple[Change, ...]) -> SetState:
    """The state of a tree that is neither skipped nor refused."""
    return SetState.MIGRATE if changes else SetState.DONE
