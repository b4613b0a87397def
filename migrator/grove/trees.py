"""Join trimmed objects, from one set of lists, to the trees that one attempt judges.

Objects are joined by the uid of their controller, never by labels or by splitting names
(Grove: ``operator/api/common/namegen.go`` joins with ``-``, which names may contain).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final, TypeVar

from migrator.errors import DUMP_COMMAND, IncompleteDump
from migrator.exact_json import integer
from migrator.grove.objects import LABEL_GENERATION_HASH, GroveObject, Pod, PodClique, PodCliqueSet, Ref, Snapshot, Tree

_BY_NAME: Final = attrgetter("ref.namespace", "ref.name")

Owned = TypeVar("Owned", bound=Pod | GroveObject)


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of one set of lists, trimmed."""

    sets: tuple[PodCliqueSet, ...]
    groups: tuple[GroveObject, ...]
    cliques: tuple[PodClique, ...]
    pods: tuple[Pod, ...]
    gang_maps: tuple[GroveObject, ...]
    gangs: tuple[GroveObject, ...]


def build(objects: Objects, *, is_cluster: bool) -> Snapshot:
    """Join objects to trees. An object whose owner was not read is left out; its owner is never guessed."""
    sets = {_owner(pcs): pcs.ref.uid for pcs in objects.sets}  # each is the root of what it controls
    pods = _owned(objects.pods, {_owner(clique): clique.ref.uid for clique in objects.cliques})
    groups = _owned(objects.groups, sets)
    gang_maps = _owned(objects.gang_maps, sets)
    gangs = _owned(objects.gangs, sets)
    with_pods = (replace(clique, pods=tuple(pods.get(clique.ref.uid, ()))) for clique in objects.cliques)
    roots = sets | {_owner(group): uid for uid, members in groups.items() for group in members}
    cliques = _owned(with_pods, roots)
    trees = tuple(
        Tree(
            pcs=pcs,
            scaling_groups=tuple(groups.get(pcs.ref.uid, ())),
            pod_cliques=tuple(cliques.get(pcs.ref.uid, ())),
            pod_gang_maps=tuple(gang_maps.get(pcs.ref.uid, ())),
            pod_gangs=tuple(gangs.get(pcs.ref.uid, ())),
        )
        for pcs in sorted(objects.sets, key=_BY_NAME)
    )
    return Snapshot(trees=trees, is_cluster=is_cluster)


def _owner(item: GroveObject) -> tuple[str, str]:
    """The key of an object as an owner: with its namespace, because Kubernetes has no owners in another one."""
    return item.ref.namespace, item.ref.uid


def _owned(items: Iterable[Owned], roots: Mapping[tuple[str, str], str]) -> Mapping[str, list[Owned]]:
    """The items by the uid of their root; ``roots`` has that by the key of their controller."""
    owned: dict[str, list[Owned]] = defaultdict(list)
    for item in sorted(items, key=_BY_NAME):
        if (root := roots.get((item.ref.namespace, item.owner_uid or ""))) is not None:
            owned[root].append(item)
    return owned


def check_complete(snapshot: Snapshot) -> None:
    """Raise :class:`~migrator.errors.IncompleteDump` for a dump that lacks objects which its PodCliqueSets must have.

    A set that is made only of scaling groups at zero has no PodCliques, and neither has one whose reconciliation failed
    before they were made. So each set is judged by what its other objects report.
    """
    for tree in snapshot.trees:
        pcs = tree.pcs
        if pcs.terminating:
            continue
        if pcs.generation_hash is not None and integer(pcs.spec.get("replicas")):
            if pcs.group_configs and not tree.scaling_groups and _has_run(tree):
                raise _incomplete(pcs.ref, "PodCliqueScalingGroups")
            if not tree.pod_cliques and _must_have_cliques(tree):
                raise _incomplete(pcs.ref, "PodCliques")
        for clique in tree.pod_cliques:
            if integer(clique.status.get("replicas")) and not clique.pods and not clique.terminating:
                raise _incomplete(clique.ref, "pods")


def missing_kinds(snapshot: Snapshot) -> tuple[str, ...]:
    """The kinds of which a dump has no object, though its pods and PodGangs show that the cluster has some.

    Every operator makes PodGangs for its pods; one that labels them with the generation hash keeps PodGangMaps.
    """
    gangs = [gang for tree in snapshot.trees for gang in tree.pod_gangs]
    no_gangs = not gangs and any(clique.pods for tree in snapshot.trees for clique in tree.pod_cliques)
    keeps_maps = no_gangs or any(LABEL_GENERATION_HASH in gang.labels for gang in gangs)
    no_maps = keeps_maps and not any(tree.pod_gang_maps for tree in snapshot.trees)
    return ("PodGang",) * no_gangs + ("PodGangMap",) * no_maps


def _must_have_cliques(tree: Tree) -> bool:
    """Whether a set must have PodCliques: a group counts replicas, or the operator has made the standalone ones."""
    counted = any(integer(group.status.get("replicas")) for group in tree.scaling_groups)
    return counted or (bool(tree.pcs.standalone) and _has_run(tree))


def _has_run(tree: Tree) -> bool:
    """Whether the operator has made children: the status counts some, or reports no error before they were made."""
    status = tree.pcs.status
    return bool(integer(status.get("availableReplicas"))) or not status.get("lastErrors")


def _incomplete(ref: Ref, kind: str) -> IncompleteDump:
    return IncompleteDump(f"the dump has {ref}, but none of its {kind}; dump again with `{DUMP_COMMAND}`")
