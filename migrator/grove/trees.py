"""From raw objects to the trees by which one attempt decides, from one set of lists.

Objects are joined by owner references and cross-checked by labels, never by splitting names
(Grove: ``operator/api/common/namegen.go`` joins with ``-``, which names may contain).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from migrator.errors import IncompleteDump, InputError
from migrator.grove.model import (
    LABEL_GENERATION_HASH,
    Orphan,
    Pod,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodGang,
    PodGangMap,
    Ref,
    Snapshot,
    Tree,
)

#: What a dump is made with: pods and every kind of Grove that the cluster has. A kind spelt out that the cluster lacks
#: (podgangmaps before alpha.12) would end ``kubectl get`` with an error.
DUMP_COMMAND: Final = (
    "kubectl get pods,$(kubectl api-resources --verbs=list -o name | grep 'grove.io$' | paste -sd, -) -A -o yaml"
)

Owned = TypeVar("Owned", PodCliqueScalingGroup, PodGangMap, PodGang)


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of one set of lists, trimmed."""

    sets: tuple[PodCliqueSet, ...] = ()
    groups: tuple[PodCliqueScalingGroup, ...] = ()
    cliques: tuple[PodClique, ...] = ()
    pods: tuple[Pod, ...] = ()
    gang_maps: tuple[PodGangMap, ...] = ()
    gangs: tuple[PodGang, ...] = ()


def build(objects: Objects, *, is_cluster: bool) -> Snapshot:
    """Join objects to trees. An object without an owner that was read is reported as an orphan, not guessed."""
    orphans: list[Orphan] = []
    clique_uids = {clique.ref.uid for clique in objects.cliques}
    group_owner = {group.ref.uid: group.owner_uid for group in objects.groups}
    set_uids = {pcs.ref.uid for pcs in objects.sets}

    pods: dict[str, list[Pod]] = defaultdict(list)
    for pod in sorted(objects.pods, key=_by_ref):
        if pod.owner_uid in clique_uids:
            pods[pod.owner_uid].append(pod)
        else:
            orphans.append(Orphan(pod.ref, "its controller is not a PodClique that was read"))

    def of_sets(items: Iterable[Owned]) -> Mapping[str, list[Owned]]:
        owned: dict[str, list[Owned]] = defaultdict(list)
        for item in sorted(items, key=_by_ref):
            if item.owner_uid in set_uids:
                owned[item.owner_uid].append(item)
            else:
                orphans.append(Orphan(item.ref, "its controller is not a PodCliqueSet that was read"))
        return owned

    groups, gang_maps, gangs = of_sets(objects.groups), of_sets(objects.gang_maps), of_sets(objects.gangs)

    cliques: dict[str, list[PodClique]] = defaultdict(list)
    for clique in sorted(objects.cliques, key=_by_ref):
        owner, own = group_owner.get(clique.owner_uid or "", clique.owner_uid), pods[clique.ref.uid]
        if owner in set_uids:
            cliques[owner].append(replace(clique, pods=tuple(own)))
        else:
            reason = f"its controller is not a PodCliqueSet or scaling group that was read (it has {len(own)} pods)"
            orphans.append(Orphan(clique.ref, reason))

    trees = tuple(
        Tree(
            pcs=pcs,
            scaling_groups=tuple(groups.get(pcs.ref.uid, ())),
            pod_cliques=tuple(cliques.get(pcs.ref.uid, ())),
            pod_gang_maps=tuple(gang_maps.get(pcs.ref.uid, ())),
            pod_gangs=tuple(gangs.get(pcs.ref.uid, ())),
        )
        for pcs in sorted(objects.sets, key=_by_ref)
    )
    return Snapshot(trees=trees, orphans=tuple(orphans), is_cluster=is_cluster)


def check_distinct(objects: Objects) -> None:
    """Refuse a dump that has one object twice: two states of it prove nothing.

    Raises :class:`~migrator.errors.InputError`, naming the object.
    """
    kinds = (objects.sets, objects.groups, objects.cliques, objects.pods, objects.gang_maps, objects.gangs)
    seen = Counter(item.ref for kind in kinds for item in kind)
    twice = next((ref for ref, times in seen.items() if times > 1), None)
    if twice is not None:
        raise InputError(f"the dump has {twice} twice (uid {twice.uid}): dump the cluster once, into one file")


def check_complete(snapshot: Snapshot) -> None:
    """Refuse a dump that lacks objects which its PodCliqueSets must have.

    Judged set by set, by what its other objects report: a set that is made only of scaling groups at zero has no
    PodCliques, and neither has one whose reconciliation failed before they were made. Raises
    :class:`~migrator.errors.IncompleteDump`, naming the first object that lacks something.
    """
    for tree in snapshot.trees:
        pcs = tree.pcs
        if pcs.terminating:
            continue
        if pcs.generation_hash is not None and _count(pcs.spec.get("replicas")):
            if pcs.template.get("podCliqueScalingGroups") and not tree.scaling_groups and _has_run(tree):
                raise _incomplete(pcs.ref, "none of its PodCliqueScalingGroups", "podcliquescalinggroups")
            if not tree.pod_cliques and _must_have_cliques(tree):
                raise _incomplete(pcs.ref, "none of its PodCliques", "podcliques")
        for clique in tree.pod_cliques:
            if _count(clique.status.get("replicas")) and not clique.pods and not clique.terminating:
                raise _incomplete(clique.ref, "none of its pods", "pods")


def lacking(snapshot: Snapshot) -> tuple[str, ...]:
    """The kinds of which a dump has no object, though its pods and PodGangs show that the cluster has some.

    Every operator makes PodGangs for its pods; one that labels them with the generation hash keeps PodGangMaps.
    """
    pods = any(clique.pods for tree in snapshot.trees for clique in tree.pod_cliques)
    gangs = [gang for tree in snapshot.trees for gang in tree.pod_gangs]
    maps = any(tree.pod_gang_maps for tree in snapshot.trees)
    found = []
    if pods and not gangs:
        found.append("PodGang")
    if not maps and ((pods and not gangs) or any(LABEL_GENERATION_HASH in gang.labels for gang in gangs)):
        found.append("PodGangMap")
    return tuple(found)


def _must_have_cliques(tree: Tree) -> bool:
    """Whether a set without PodCliques must have some: a group counts replicas, or standalone cliques were made."""
    if any(
        _count(group.spec.get("replicas")) and _count(group.status.get("replicas")) for group in tree.scaling_groups
    ):
        return True
    grouped = {n for g in tree.pcs.template.get("podCliqueScalingGroups") or () for n in g.get("cliqueNames") or ()}
    alone = any(clique.get("name") not in grouped for clique in tree.pcs.cliques)
    return alone and _has_run(tree)


def _has_run(tree: Tree) -> bool:
    """Whether the operator has made children: its status shows no earlier failure, and no count is zero."""
    status = tree.pcs.status
    if _count(status.get("availableReplicas")) or _count(status.get("updatedReplicas")):
        return True
    return not status.get("lastErrors")


def _by_ref(
    item: PodCliqueSet | PodClique | Pod | PodCliqueScalingGroup | PodGangMap | PodGang,
) -> tuple[str, str]:
    return item.ref.namespace, item.ref.name


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _incomplete(ref: Ref, lacking: str, plural: str) -> IncompleteDump:
    return IncompleteDump(
        f"incomplete dump: {ref} is there, but {lacking} ({plural}); dump again with `{DUMP_COMMAND}`"
    )
