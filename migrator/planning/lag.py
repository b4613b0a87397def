"""The values of neither scheme on which no pod depends. Pure.

Operators delete a pod because of the pod's own label, and the PodCliques of a scaling group's replica because of their
labels: ``podclique/components/pod/rollingupdate.go:computeUpdateWork`` and
``podcliquescalinggroup/components/podclique/rollingupdate.go:isReplicaUpdated``. Hashes in a status only record the
operator's progress. So if label and pods are current, a status that lags behind (Grove issue 671) starts at most an
update that finds nothing to replace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from migrator.grove.model import (
    LABEL_POD_TEMPLATE_HASH,
    LABEL_SCALING_GROUP_REPLICA_INDEX,
    Place,
    PodClique,
    StoredHash,
    Tree,
)

_OF_CLIQUE: Final = frozenset({Place.CLIQUE_TEMPLATE, Place.CLIQUE_GENERATION, Place.CLIQUE_PROGRESS})
_OF_GROUP: Final = frozenset({Place.GROUP_GENERATION, Place.GROUP_PROGRESS})


def lagging(tree: Tree, foreign: Iterable[StoredHash]) -> frozenset[tuple[str, str]]:
    """The foreign values on which no pod depends, by uid and field.

    ``foreign`` are all values of the tree that are neither the source's hash nor the target's.
    """
    foreign = tuple(foreign)
    if not foreign:
        return frozenset()
    strange = {(stored.ref.uid, stored.place) for stored in foreign}
    units: dict[tuple[str, str | None], list[PodClique]] = defaultdict(list)
    for clique in tree.pod_cliques:
        units[_unit(clique)].append(clique)
    empty = {key for key, members in units.items() if not any(_present(member) for member in members)}
    settled = {
        clique.ref.uid
        for clique in tree.pod_cliques
        if _unit(clique) in empty or (_labelled(clique, strange) and _pods_are_current(clique, strange))
    }
    of_group: dict[str | None, list[PodClique]] = defaultdict(list)
    for clique in tree.pod_cliques:
        of_group[clique.owner_uid].append(clique)
    without_pods = {clique.ref.uid for clique in tree.pod_cliques if _unit(clique) in empty}

    def lags(stored: StoredHash) -> bool:
        uid = stored.ref.uid
        if stored.place in _OF_CLIQUE:
            return uid in settled
        if stored.place is Place.CLIQUE_LABEL:
            return uid in without_pods
        return stored.place in _OF_GROUP and all(member.ref.uid in settled for member in of_group[uid])

    return frozenset((stored.ref.uid, stored.field) for stored in foreign if lags(stored))


def _unit(clique: PodClique) -> tuple[str, str | None]:
    """The key of all that is replaced together: a standalone PodClique, or one replica of a scaling group."""
    if clique.standalone:
        return clique.ref.uid, None
    return clique.owner_uid or "", clique.labels.get(LABEL_SCALING_GROUP_REPLICA_INDEX)


def _present(clique: PodClique) -> bool:
    """Whether it has pods or will have some. A PodClique at zero is made anew before it gets any."""
    return bool(clique.spec.get("replicas", 1)) or any(not pod.terminating for pod in clique.pods)


def _labelled(clique: PodClique, strange: set[tuple[str, Place]]) -> bool:
    return bool(clique.labels.get(LABEL_POD_TEMPLATE_HASH)) and (clique.ref.uid, Place.CLIQUE_LABEL) not in strange


def _pods_are_current(clique: PodClique, strange: set[tuple[str, Place]]) -> bool:
    return all(
        pod.template_hash and (pod.ref.uid, Place.POD_LABEL) not in strange
        for pod in clique.pods
        if not pod.terminating
    )
