"""The values of neither scheme on which no pod depends. Pure.

Operators delete a pod because of the pod's own label, and the PodCliques of a scaling group's replica because of their
labels: ``podclique/components/pod/rollingupdate.go:computeUpdateWork`` and
``podcliquescalinggroup/components/podclique/rollingupdate.go:isReplicaUpdated``. So if these are current, a hash in a
status that lags behind (Grove issue 671) starts at most an update that finds nothing to replace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migrator.grove.hash_fields import CLIQUE_LABEL, POD_LABEL, HashField, StoredHash
from migrator.grove.objects import PodClique, Tree


def lagging(tree: Tree, foreign: Sequence[StoredHash]) -> frozenset[tuple[str, str]]:
    """The foreign values on which no pod depends, by uid and field.

    ``foreign`` are all values of the tree that are neither the source's hash nor the target's.
    """
    if not foreign:
        return frozenset()
    strange = {(stored.ref.uid, stored.place) for stored in foreign}
    populated = {_unit(clique) for clique in tree.pod_cliques if _present(clique)}
    empty = {clique.ref.uid for clique in tree.pod_cliques if _unit(clique) not in populated}
    settled = empty | {clique.ref.uid for clique in tree.pod_cliques if _is_current(clique, strange)}

    def lags(stored: StoredHash) -> bool:
        uid = stored.ref.uid
        if stored.place.kind == "PodCliqueScalingGroup":
            return all(member.ref.uid in settled for member in tree.pod_cliques if member.owner_uid == uid)
        is_status = stored.place.kind == "PodClique" and stored.place is not CLIQUE_LABEL
        return uid in (settled if is_status else empty)

    return frozenset((stored.ref.uid, stored.field) for stored in foreign if lags(stored))


def _unit(clique: PodClique) -> tuple[str, str | None]:
    """The key of all that is replaced together: a standalone PodClique, or one replica of a scaling group."""
    if clique.standalone:
        return clique.ref.uid, None
    return clique.owner_uid or "", clique.group_index


def _present(clique: PodClique) -> bool:
    """Whether it has pods or will have some. The operator recreates a PodClique at zero before it gets pods."""
    return bool(clique.spec.get("replicas", 1)) or any(not pod.terminating for pod in clique.pods)


def unlabelled(tree: Tree) -> bool:
    """Whether a PodClique or pod that stays has no label: the operator takes it for outdated."""
    staying = (clique for clique in tree.pod_cliques if not clique.terminating)
    return any(not value for clique in staying for _, _, value in _labels(clique))


def _is_current(clique: PodClique, strange: set[tuple[str, HashField]]) -> bool:
    """Whether the labels of a PodClique and of all its pods are there and not foreign."""
    return all(value and (uid, place) not in strange for uid, place, value in _labels(clique))


def _labels(clique: PodClique) -> Iterator[tuple[str, HashField, str | None]]:
    yield clique.ref.uid, CLIQUE_LABEL, clique.template_hash
    yield from ((pod.ref.uid, POD_LABEL, pod.template_hash) for pod in clique.pods if not pod.terminating)
