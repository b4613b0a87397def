"""The problems of a snapshot after a migration, and the changes of each set since then. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from migrator.exact_json import integer
from migrator.grove.hash_fields import stored_hashes
from migrator.grove.objects import PodClique, PodCliqueScalingGroup, PodCliqueSet, Ref, Snapshot, Tree, kubernetes_time
from migrator.hashing import layouts, schemes
from migrator.planning.detect import Pair, Verdict, detect, hashes_of, lagging
from migrator.planning.guards.updates import open_progress
from migrator.planning.model import Table
from migrator.planning.options import Direction
from migrator.planning.planner import template_digest
from migrator.run.tables import pod_id


@dataclass(frozen=True, slots=True)
class Problem:
    """One deviation from the expected state, which ``settles`` if it may end by itself.

    ``lost_pods``: pods of ``ref`` are missing; Events may report more about them. ``owner``: the owner of the set made
    the change since the migration, so it does not fail the verification.
    """

    ref: Ref
    field: str | None
    message: str
    settles: bool = True
    lost_pods: bool = False
    owner: bool = False


def problems_of(
    snapshot: Snapshot,
    way: Direction,
    tables: Mapping[str, Table],
    *,
    after_upgrade: bool,
    since: datetime | None = None,
) -> Iterator[Problem]:
    """All problems of one snapshot; with ``after_upgrade`` each set is compared with its table, by uid.

    ``since`` is when the recorded run began, if there is a record.
    """
    for tree in snapshot.trees:
        if tree.pcs.terminating:
            continue
        table = tables.get(tree.ref.uid)
        if after_upgrade and table is not None and template_digest(tree.pcs) != table.template_digest:
            message = f"{tree.ref} was edited since its migration: its pods are replaced as its owner wants"
            yield Problem(tree.ref, "/spec/template", message, owner=True)
            continue
        yield from _values(tree, way)
        if after_upgrade and (table is not None or not tables):
            yield from _in_flight(tree, since)
        if after_upgrade and table is not None:
            yield from lost_pods(tree, table)
    present = {tree.ref.uid for tree in snapshot.trees}
    for table in tables.values() if after_upgrade and present else ():
        if table.uid not in present:
            ref = Ref("PodCliqueSet", table.namespace, table.name, table.uid)
            yield Problem(ref, None, f"{ref} was there before the upgrade, and was deleted since", owner=True)


def _values(tree: Tree, way: Direction) -> Iterator[Problem]:
    hashes = hashes_of(tree.pcs)
    stored = tuple(stored_hashes(tree))
    if not stored:
        return
    target = detect(stored, way, hashes, on_delete=tree.pcs.on_delete).target
    pair = Pair(hashes(target), hashes(target), tree.pcs.on_delete)
    other = [item for item in stored if pair.verdict(item) not in {Verdict.TARGET, Verdict.LEFTOVER}]
    lags = lagging(tree, other)
    read_elsewhere = (one for one in schemes.all_schemes() if one.minor in layouts.adopted())
    before = dict.fromkeys((*way.candidates, *schemes.spoken_schemes(), *read_elsewhere))
    for item in other:
        # A value that no pod depends on may stay as the old operator left it. A hash that was not migrated fails.
        late = (item.ref.uid, item.field) in lags and not any(item.value == hashes(one).of(item) for one in before)
        message = f"{item.ref}: {item.field} is {item.value}, not {target.name}'s {pair.target.of(item)}"
        if late:
            message += "; it lags behind, and no pod depends on it"
        yield Problem(item.ref, item.field, message, owner=late)


def _in_flight(tree: Tree, since: datetime | None) -> Iterator[Problem]:
    """Updates that began after the migration and have not ended; without a record the upgrade may have begun any.

    alpha.12-rc1 begins an update of every standalone PodClique, though all hashes are right
    (``podclique/reconcilespec.go:shouldResetOrTriggerUpdate``, until Grove PR 757): a PodClique's may end without
    replacing a pod. Under OnDelete the operator may write progress without touching a pod.
    """
    if tree.pcs.on_delete:
        return
    items: tuple[PodCliqueSet | PodCliqueScalingGroup | PodClique, ...] = (tree.pcs, *tree.scaling_groups)
    why = "no record shows whether the upgrade began it" if since is None else "it is later than the migration"
    for item in (*items, *tree.pod_cliques):
        name = open_progress(item)
        began = kubernetes_time(item.status[name].get("updateStartedAt")) if name else None
        if began is not None and (since is None or began > since):
            message = f"{item.ref}: an update that began at {began:%Y-%m-%d %H:%M:%S} UTC has not ended, and {why}"
            yield Problem(item.ref, f"/status/{name}", message, settles=isinstance(item, PodClique))


def lost_pods(tree: Tree, table: Table) -> Iterator[Problem]:
    """The pods of the table that are gone, by uid, unless their owner has scaled them in."""
    found = {clique.ref.name: clique for clique in tree.pod_cliques}
    expected = frozenset(_expected(tree))
    for name, pods in table.pods.items():
        clique = found.get(name)
        if clique is not None:
            yield from _lost_in(clique, pods)
            continue
        ref = Ref("PodClique", tree.ref.namespace, name)
        if name in expected:
            missing = f"{ref} is missing, with its {len(pods)} earlier pods"
            yield Problem(ref, None, missing, settles=False, lost_pods=True)
        else:
            yield Problem(ref, None, f"{ref} is gone: its owner scaled it in", owner=True)


def _expected(tree: Tree) -> Iterator[str]:
    """The PodCliques that the specs ask for now (Grove: ``operator/api/common/namegen.go``), of lost groups too."""
    groups = {group.ref.name: group for group in tree.scaling_groups}
    for index in range(integer(tree.pcs.spec.get("replicas"), 1)):
        yield from (f"{tree.ref.name}-{index}-{clique.get('name')}" for clique in tree.pcs.standalone)
        for config in tree.pcs.group_configs:
            name = f"{tree.ref.name}-{index}-{config.get('name')}"
            spec = groups[name].spec if name in groups else config
            for replica in range(integer(spec.get("replicas"), 1)):
                yield from (f"{name}-{replica}-{clique}" for clique in config.get("cliqueNames") or ())


def _lost_in(clique: PodClique, before: tuple[str, ...]) -> Iterator[Problem]:
    present = {pod_id(pod.ref.uid) for pod in clique.pods if not pod.terminating}
    lost = [uid for uid in before if uid not in present]
    wanted = integer(clique.spec.get("replicas"), len(before))
    scaled_in = max(0, len(before) - wanted)
    if len(lost) > scaled_in:
        message = f"{clique.ref}: {len(lost) - scaled_in} of its {len(before)} earlier pods are missing"
        yield Problem(clique.ref, None, message, settles=False, lost_pods=True)
    elif lost:
        message = f"{clique.ref} was scaled in from {len(before)} to {wanted}"
        yield Problem(clique.ref, "/spec/replicas", message, owner=True)
