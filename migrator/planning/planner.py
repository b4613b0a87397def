"""From trees to a plan: the changes, the refusals, and the pods at stake. Pure.

A change replaces one stored value, which equals the source's hash of its own field, by the target's hash. Every other
value stays as it is, or is a reason to refuse.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from migrator.exact_json import dumps
from migrator.grove.model import (
    BlastRadius,
    Change,
    Plan,
    PodCliqueSet,
    SetHashes,
    Severity,
    Sighting,
    Snapshot,
    StoredHash,
    Tree,
    TreePlan,
    TreeState,
)
from migrator.grove.places import POINTER_SET_GENERATION, stored_hashes
from migrator.hashing import schemes
from migrator.hashing.schemes import Scheme
from migrator.planning import guards
from migrator.planning.advisories import advise_plan, unknown_target
from migrator.planning.blast import Behaviour, behaviour_of, stakes
from migrator.planning.cluster_findings import lacking_kinds, narrowed, not_checked, orphan, others_unseen, unlisted
from migrator.planning.detect import Detection, Pair, Verdict, detect
from migrator.planning.guards.base import harmless, refuse, warn
from migrator.planning.hashes import HashesOf
from migrator.planning.lag import lagging
from migrator.planning.lineage import builds_of, span, speakers
from migrator.planning.newer_fields import newer_fields
from migrator.planning.options import AUTO, Direction, PlanOptions, check_allowed, direction
from migrator.planning.tables import Table


def make_plan(
    snapshot: Snapshot,
    options: PlanOptions,
    *,
    tables: Mapping[str, Table] | None = None,
    now: datetime | None = None,
    running: str | None = None,
) -> Plan:
    """Decide the changes of every selected tree.

    ``tables`` are those of earlier runs, by PodCliqueSet uid. ``now`` is the time by which the cluster's conditions
    are judged, ``None`` if it is unknown. ``running`` is the release of the running operator, if known. The plan for a
    release whose source was not read has only advisories. Raises :class:`~migrator.errors.InputError` for a
    PodCliqueSet that Go could not decode.
    """
    check_allowed(options.allow)
    unread = schemes.unread_release(options.target)
    if unread is not None and options.describes:
        return unknown_target(snapshot, options, unread, running)
    way = direction(options)
    planner = _Planner(options, way, dict(tables or {}), now if snapshot.is_cluster else None, snapshot.sightings)
    plans = [planner.plan_tree(tree) for tree in snapshot.trees]
    selected = tuple(p for p in plans if options.selection.matches(p.tree.pcs))
    others = tuple(p for p in plans if not options.selection.matches(p.tree.pcs))
    findings = [orphan(o.ref, o.reason) for o in snapshot.orphans]
    findings += narrowed(others, options)
    if any(p.changes for p in plans):
        findings += unlisted(snapshot, options)
    findings += others_unseen(snapshot)
    findings += lacking_kinds(snapshot)
    if not snapshot.is_cluster and snapshot.trees:
        findings += not_checked()
    if options.skip_refused:
        selected = tuple(_skipped(p) if p.state is TreeState.REFUSED else p for p in selected)
    return Plan(
        requested_source=options.source,
        requested_target=options.target,
        trees=selected,
        findings=tuple(findings),
        cluster_blast=sum((p.blast for p in plans), BlastRadius()),
        cluster_rest=sum((p.rest for p in plans), BlastRadius()),
        advisories=tuple(advice for p in selected for advice in advise_plan(p, options, running)),
    )


def template_digest(pcs: PodCliqueSet) -> str:
    """A digest of the hashed part of a set's spec. It shows a rerun whether that part has changed."""
    hashed = {
        "priorityClassName": pcs.template.get("priorityClassName"),
        "cliqueStartupType": pcs.template.get("cliqueStartupType"),
        "cliques": [
            {
                "name": clique.get("name"),
                "labels": clique.get("labels"),
                "annotations": clique.get("annotations"),
                "podSpec": (clique.get("spec") or {}).get("podSpec"),
            }
            for clique in pcs.cliques
        ],
    }
    return hashlib.sha256(dumps(hashed, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def changes_of(stored: Iterable[StoredHash], old: SetHashes, new: SetHashes, *, pair: Pair) -> tuple[Change, ...]:
    """The substitutions that turn every value of ``old`` into the one of ``new``, in the order of writing."""
    return _substitutions(((item, pair.verdict(item)) for item in stored), old, new)


def _substitutions(judged: Iterable[tuple[StoredHash, Verdict]], old: SetHashes, new: SetHashes) -> tuple[Change, ...]:
    changes = []
    for item, verdict in judged:
        before, after = old.of(item), new.of(item)
        if verdict is Verdict.SOURCE and before is not None and after is not None:
            changes.append(Change(item.ref, item.place, item.field, before, after, item.identity))
    return tuple(changes)


class _Planner:
    def __init__(
        self,
        options: PlanOptions,
        way: Direction,
        tables: Mapping[str, Table],
        now: datetime | None,
        sightings: Iterable[Sighting],
    ) -> None:
        self._options = options
        self._way = way
        self._tables = tables
        self._now = now
        self._sightings = tuple(sightings)

    def plan_tree(self, tree: Tree) -> TreePlan:
        """Decide one tree."""
        hashes = HashesOf(tree.pcs)
        stored = tuple(stored_hashes(tree))
        table = self._table(tree)
        skipped = None
        if tree.pcs.terminating:
            message = f"{tree.ref} is being deleted; it is left alone"
            skipped = warn("GM-106", tree.ref, "/metadata/deletionTimestamp", message)
        elif not stored and not tree.pod_cliques and not tree.scaling_groups:
            message = f"{tree.ref} was never reconciled and stores no hash; the next operator starts with its own"
            skipped = warn("GM-104", tree.ref, POINTER_SET_GENERATION, message)
        if skipped is not None:
            target = self._way.target_of(self._way.candidates[-1])
            return TreePlan(tree, None, target.name, TreeState.SKIPPED, findings=(skipped,))
        found = self._detect(tree, stored, hashes, table)
        if found.source is None and self._options.source != AUTO:
            other = self._explained_by(tree, stored, hashes, found.target)
            if other is not None:
                return self._misnamed(tree, hashes, found, other)
        if table is not None and _unfinished(tree.pcs, table, hashes):
            # No override helps here: it would leave hashes that only the recorded table can translate.
            decided = self._decide(tree, stored, hashes, found, recorded=table.source, allow=frozenset())
            back = _restore(decided, stored, table)
            if decided.state is TreeState.REFUSED and back.changes:
                return back
        recorded = table.source if table is not None else None
        return self._decide(tree, stored, hashes, found, recorded=recorded, allow=self._options.allow)

    def _decide(
        self,
        tree: Tree,
        stored: tuple[StoredHash, ...],
        hashes: HashesOf,
        found: Detection,
        *,
        recorded: str | None,
        allow: frozenset[str],
    ) -> TreePlan:
        pair = Pair(hashes(found.closest), hashes(found.target), tree.pcs.on_delete)
        verdicts = [(item, pair.verdict(item)) for item in stored]
        done = found.done
        foreign = tuple(item for item, verdict in verdicts if verdict is Verdict.FOREIGN)
        case = guards.Case(
            tree=tree,
            source=found.closest,
            target=found.target,
            explained=found.source is not None and not done,
            source_hashes=pair.source,
            target_hashes=pair.target,
            foreign=foreign,
            lagging=lagging(tree, foreign),
            equal=pair.source == pair.target
            and (self._options.source != AUTO or tree.pcs.generation_hash == pair.target.generation),
            sightings=() if done else self._seen(tree, pair),
            leftovers=tuple(item for item, verdict in verdicts if verdict is Verdict.LEFTOVER),
            target_values=sum(1 for item, v in verdicts if v is Verdict.TARGET and item.value != pair.source.of(item)),
            known=any(verdict in {Verdict.SOURCE, Verdict.TARGET} for _, verdict in verdicts),
            recorded=recorded,
            unknown_fields=() if done else newer_fields(tree.pcs.spec, found.closest.minor, found.target.minor),
            lost_fields=() if done else newer_fields(tree.pcs.spec, found.target.minor, found.closest.minor),
            now=self._now,
            downtime=self._options.downtime,
        )
        findings = guards.check_tree(case, allow=allow)
        if done:
            findings = tuple(map(harmless, findings))
        refused = any(f.severity is Severity.REFUSAL for f in findings)
        at_stake = stakes(
            tree, pair, source=found.closest, target=found.target, behaviour=self._behaviour(found.target)
        )
        source = found.source
        if source is None and foreign and not refused:
            source = found.closest  # every foreign value lags behind or was allowed, and stays
        # A refused tree shows the changes that it would have without the refusals, even if no scheme explains it all.
        changes = () if done else _substitutions(verdicts, pair.source, pair.target)
        return TreePlan(
            tree=tree,
            source=source.name if source else None,
            target=found.target.name,
            state=state_of(refused=refused, changes=changes),
            changes=changes,
            findings=findings,
            blast=at_stake.without,
            rest=at_stake.with_migration,
            source_hashes=pair.source,
            target_hashes=pair.target,
        )

    def _misnamed(self, tree: Tree, hashes: HashesOf, found: Detection, other: Scheme) -> TreePlan:
        """The plan of a tree whose hashes are not those of ``--from``: no change and one finding."""
        pair = Pair(hashes(other), hashes(found.target), tree.pcs.on_delete)
        at_stake = stakes(tree, pair, source=other, target=found.target, behaviour=self._behaviour(found.target))
        message = (
            f"{tree.ref} holds the hashes of {other.name} ({span(speakers(other))}), not those of --from "
            f"{self._options.source}; leave out --from, or give --from {other.name}"
        )
        finding = refuse("GM-135", tree.ref, POINTER_SET_GENERATION, message)
        return TreePlan(
            tree=tree,
            source=None,
            target=found.target.name,
            state=TreeState.REFUSED,
            findings=(finding,),
            blast=at_stake.without,
            rest=at_stake.without,
            source_hashes=pair.source,
            target_hashes=pair.target,
        )

    def _explained_by(
        self, tree: Tree, stored: tuple[StoredHash, ...], hashes: HashesOf, target: Scheme
    ) -> Scheme | None:
        """The scheme that explains all of a tree, whatever ``--from`` names; ``None`` if no scheme does."""
        return detect(
            stored,
            on_delete=tree.pcs.on_delete,
            candidates=schemes.spoken_schemes(),
            target_of=lambda _source: target,
            hashes=hashes,
        ).source

    def _seen(self, tree: Tree, pair: Pair) -> tuple[Sighting, ...]:
        """The source's hashes outside the known places, except in objects of other trees."""
        if not self._sightings:
            return ()
        old = {pair.source.generation, *pair.source.templates.values()}
        old -= {pair.target.generation, *pair.target.templates.values()}
        return tuple(
            seen
            for seen in self._sightings
            if seen.value in old
            and seen.ref.namespace in {"", tree.ref.namespace}
            and seen.part_of in {None, tree.ref.name}
            and (seen.ref.kind != tree.ref.kind or seen.ref.uid == tree.ref.uid)
        )

    def _behaviour(self, target: Scheme) -> Behaviour:
        return behaviour_of(builds_of(self._options.target, target))

    def _detect(self, tree: Tree, stored: tuple[StoredHash, ...], hashes: HashesOf, table: Table | None) -> Detection:
        candidates = self._way.candidates
        if table is not None:  # what is recorded decides first
            candidates = tuple(dict.fromkeys((schemes.by_name(table.source), *candidates)))
        return detect(
            stored,
            on_delete=tree.pcs.on_delete,
            candidates=candidates,
            target_of=self._way.target_of,
            hashes=hashes,
        )

    def _table(self, tree: Tree) -> Table | None:
        table = self._tables.get(tree.ref.uid)
        return table if table is not None and is_of(table, self._way) else None


def _restore(decided: TreePlan, stored: tuple[StoredHash, ...], table: Table) -> TreePlan:
    """Bring a tree back whose spec changed after its first write: by its table, from target to source.

    Cliques that were not edited get back exactly the old operator's hash.
    """
    tree = decided.tree
    pair = Pair(table.target_hashes, table.source_hashes, tree.pcs.on_delete)
    message = (
        f"{tree.ref} was edited after its migration had begun at generation {table.generation}: it is brought "
        "back to the old hashes; start the old operator, let it roll the edit out, and run again"
    )
    finding = refuse("GM-130", tree.ref, "/spec/template", message)
    return TreePlan(
        tree=tree,
        source=table.target,
        target=table.source,
        state=TreeState.REFUSED,
        changes=without_kept(changes_of(stored, table.target_hashes, table.source_hashes, pair=pair), table),
        findings=(finding,),
        blast=decided.blast,
        rest=decided.blast,
        source_hashes=table.target_hashes,
        target_hashes=table.source_hashes,
    )


def _unfinished(pcs: PodCliqueSet, table: Table, hashes: HashesOf) -> bool:
    """Whether the tree was edited before its migration ended: its commit record is still the source's.

    If source and target have the same generation hash, nothing is unfinished: no unedited clique has two hashes.
    """
    if table.template_digest == template_digest(pcs):
        return False
    old = {table.source_hashes.generation, hashes(schemes.by_name(table.source)).generation}
    new = {table.target_hashes.generation, hashes(schemes.by_name(table.target)).generation}
    return pcs.generation_hash in old - new


def is_of(table: Table, way: Direction) -> bool:
    """Whether a table was recorded by a run of these schemes."""
    source = schemes.by_name(table.source)
    return source in way.candidates and way.target_of(source).name == table.target


def without_kept(changes: tuple[Change, ...], table: Table) -> tuple[Change, ...]:
    """The changes that revert writes of the table's run; values that were the target's before it are left out."""
    kept = {(entry.uid, entry.field) for entry in table.kept}
    return tuple(c for c in changes if (c.ref.uid, c.field) not in kept)


def state_of(*, refused: bool, changes: tuple[Change, ...]) -> TreeState:
    """The state of a tree that is not skipped."""
    if refused:
        return TreeState.REFUSED
    return TreeState.MIGRATE if changes else TreeState.DONE


def _skipped(plan: TreePlan) -> TreePlan:
    findings = tuple(replace(f, severity=Severity.WARNING) for f in plan.findings)
    return replace(plan, state=TreeState.SKIPPED, changes=(), findings=findings)
