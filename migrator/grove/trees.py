"""From raw objects to trees: what one attempt decides upon, from one set of lists.

Objects are joined by owner references and cross-checked by labels, never by splitting names
(Grove: ``operator/api/common/namegen.go`` joins with ``-``, which names may contain).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from migrator.errors import IncompleteDump, InputError
from migrator.grove.model import (
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
    """Join objects to trees. What belongs to nobody is reported as an orphan, not guessed."""
    orphans: list[Orphan] = []
    clique_uids = {clique.ref.uid for clique in objects.cliques}
    group_owner = {group.ref.uid: group.owner_uid for group in objects.groups}
    set_uids = {pcs.ref.uid for pcs in objects.sets}

    pods: dict[str, list[Pod]] = defaultdict(list)
    for pod in sorted(objects.pods, key=_by_ref):
        if pod.owner_uid in clique_uids:
            pods[pod.owner_uid].append(pod)
        else:
            orphans.append(Orphan(pod.ref, "its controller is no PodClique that was read"))

    def of_sets(items: Iterable[Owned]) -> Mapping[str, list[Owned]]:
        owned: dict[str, list[Owned]] = defaultdict(list)
        for item in sorted(items, key=_by_ref):
            if item.owner_uid in set_uids:
                owned[item.owner_uid].append(item)
            else:
                orphans.append(Orphan(item.ref, "its controller is no PodCliqueSet that was read"))
        return owned

    groups, gang_maps, gangs = of_sets(objects.groups), of_sets(objects.gang_maps), of_sets(objects.gangs)

    cliques: dict[str, list[PodClique]] = defaultdict(list)
    for clique in sorted(objects.cliques, key=_by_ref):
        owner, own = group_owner.get(clique.owner_uid or "", clique.owner_uid), pods[clique.ref.uid]
        if owner in set_uids:
            cliques[owner].append(replace(clique, pods=tuple(own)))
        else:
            reason = f"its controller is no PodCliqueSet or scaling group that was read (it has {len(own)} pods)"
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
    """Refuse a dump that tells of one object twice: two states of it prove nothing.

    Raises :class:`~migrator.errors.InputError`, naming the object.
    """
    kinds = (objects.sets, objects.groups, objects.cliques, objects.pods, objects.gang_maps, objects.gangs)
    seen = Counter(item.ref for kind in kinds for item in kind)
    twice = next((ref for ref, times in seen.items() if times > 1), None)
    if twice is not None:
        raise InputError(f"the dump has {twice} twice (uid {twice.uid}): dump the cluster once, into one file")


def check_complete(snapshot: Snapshot) -> None:
    """Refuse a dump that lacks objects which its PodCliqueSets must have.

    Raises :class:`~migrator.errors.IncompleteDump`, naming the first such object.
    """
    for tree in snapshot.trees:
        pcs = tree.pcs
        if pcs.terminating:
            continue
        if pcs.generation_hash is not None and _count(pcs.spec.get("replicas")):
            if not tree.pod_cliques:
                raise _incomplete(pcs.ref, "none of its PodCliques", "podcliques")
            if pcs.template.get("podCliqueScalingGroups") and not tree.scaling_groups:
                raise _incomplete(pcs.ref, "none of its PodCliqueScalingGroups", "podcliquescalinggroups")
        for clique in tree.pod_cliques:
            if _count(clique.status.get("replicas")) and not clique.pods and not clique.terminating:
                raise _incomplete(clique.ref, "none of its pods", "pods")


def _by_ref(
    item: PodCliqueSet | PodClique | Pod | PodCliqueScalingGroup | PodGangMap | PodGang,
) -> tuple[str, str]:
    return item.ref.namespace, item.ref.name


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _incomplete(ref: Ref, lacking: str, plural: str) -> IncompleteDump:
    return IncompleteDump(
        f"incomplete dump: {ref} is there, but {lacking} ({plural}); dump again with "
        "`kubectl get podcliquesets,podcliques,podcliquescalinggroups,pods -A -o yaml`"
    )
