"""The problems of a snapshot after a migration, and the changes of each set since then. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from migrator.exact_json import integer
from migrator.grove.hash_fields import stored_hashes
from migrator.grove.objects import PodClique, PodCliqueScalingGroup, PodCliqueSet, Ref, Snapshot, Tree
from migrator.hashing import layouts, schemes
from migrator.planning.detect import Pair, Verdict, detect, hashes_of, lagging
from migrator.planning.model import Table
from migrator.planning.options import Direction
from migrator.planning.planner import template_digest
from migrator.run.baseline import newest_update, pod_id, replicas_of
from migrator.run.tables import Baseline, CliqueBaseline, Replicas


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
    baselines: Mapping[str, Baseline],
    *,
    after_upgrade: bool,
) -> Iterator[Problem]:
    """All problems of one snapshot; with ``after_upgrade`` each set is compared with its table and baseline, by uid."""
    for tree in snapshot.trees:
        if tree.pcs.terminating:
            continue
        table = tables.get(tree.ref.uid)
        if after_upgrade and table is not None and template_digest(tree.pcs) != table.template_digest:
            message = f"{tree.ref} was edited since its migration: its pods are replaced as its owner wants"
            yield Problem(tree.ref, "/spec/template", message, owner=True)
            continue
        yield from _values(tree, way)
        if after_upgrade and tree.ref.uid in baselines:
            yield from changes_since(tree, baselines[tree.ref.uid])
        elif after_upgrade and not tables:
            yield from _in_flight(tree)
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


def _in_flight(tree: Tree) -> Iterator[Problem]:
    """Updates that have not ended. Without a record the upgrade may have begun them, even if they end later.

    A PodClique's may end by itself, see :func:`_replicas`.
    """
    if tree.pcs.on_delete:
        return
    items: tuple[PodCliqueSet | PodCliqueScalingGroup | PodClique, ...] = (tree.pcs, *tree.scaling_groups)
    for item in (*items, *tree.pod_cliques):
        name, progress = newest_update(item.status)
        if progress and not progress.get("updateEndedAt"):
            began = f"{item.ref}: an update that began at {progress['updateStartedAt']} has not ended"
            message = f"{began}, and no record shows whether the upgrade began it"
            yield Problem(item.ref, f"/status/{name}", message, settles=isinstance(item, PodClique))


def changes_since(tree: Tree, before: Baseline) -> Iterator[Problem]:
    """The changes of a tree since its migration: updates that began, replicas that are behind, pods that are lost."""
    on_delete = tree.pcs.on_delete  # then the operator may write progress without touching a pod
    if not on_delete:
        yield from _replicas(tree.pcs, before.status)
        for group in tree.scaling_groups:
            if group.ref.name in before.scaling_groups:
                yield from _replicas(group, before.scaling_groups[group.ref.name])
    found = {clique.ref.name: clique for clique in tree.pod_cliques}
    wanted = frozenset(_expected(tree))
    for name, clique_before in before.pod_cliques.items():
        clique = found.get(name)
        if clique is None:
            ref = Ref("PodClique", tree.ref.namespace, name)
            if name in wanted:
                missing = f"{ref} is missing, with its {len(clique_before.pods)} earlier pods"
                yield Problem(ref, None, missing, settles=False, lost_pods=True)
            else:
                yield Problem(ref, None, f"{ref} is gone: its owner scaled it in", owner=True)
            continue
        if not on_delete:
            yield from _replicas(clique, clique_before.status, may_end=clique.standalone)
        yield from _pods(clique, clique_before)


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


def _pods(clique: PodClique, before: CliqueBaseline) -> Iterator[Problem]:
    """Earlier pods that are gone, by uid, unless their owner has scaled them in."""
    present = {pod_id(pod.ref.uid) for pod in clique.pods if not pod.terminating}
    lost = [uid for uid in before.pods if uid not in present]
    wanted = integer(clique.spec.get("replicas"), len(before.pods))
    scaled_in = max(0, len(before.pods) - wanted)
    if len(lost) > scaled_in:
        message = f"{clique.ref}: {len(lost) - scaled_in} of its {len(before.pods)} earlier pods are missing"
        yield Problem(clique.ref, None, message, settles=False, lost_pods=True)
    elif lost:
        message = f"{clique.ref} was scaled in from {len(before.pods)} to {wanted}"
        yield Problem(clique.ref, "/spec/replicas", message, owner=True)


def _replicas(
    item: PodCliqueSet | PodClique | PodCliqueScalingGroup, before: Replicas, *, may_end: bool = False
) -> Iterator[Problem]:
    """A new update of an object, and the replicas that it has lost. With ``may_end`` one that has ended is none.

    alpha.12-rc1 begins an update of every standalone PodClique without ``updateProgress``, though all hashes are
    right (``podclique/reconcilespec.go:shouldResetOrTriggerUpdate``, until Grove PR 757). It ends by itself, and the
    other checks prove that it replaced nothing. If pods are to be replaced, the set's own update begins first.
    """
    now = replicas_of(item)
    if now.update_started is not None and now.update_started != before.update_started:
        name, progress = newest_update(item.status)
        if not (may_end and progress.get("updateEndedAt")):
            began = f"an update began at {now.update_started}, after the migration: the operator found a change"
            yield Problem(item.ref, f"/status/{name}", f"{item.ref}: {began}", settles=may_end)
    updated, replicas = now.updated or 0, now.replicas or 0
    was_updated, was_replicas = before.updated or 0, before.replicas or 0
    wanted = replicas if was_updated == was_replicas else min(was_updated, replicas)
    if updated < wanted:
        fell = f"{updated} of {replicas}, before the upgrade it was {was_updated} of {was_replicas}"
        yield Problem(item.ref, "/status/updatedReplicas", f"{item.ref}: updatedReplicas is {fell}")
