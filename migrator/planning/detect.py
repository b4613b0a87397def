"""The scheme that explains a set's stored values, and the values on which no pod depends. Pure.

A value may be either scheme's hash; otherwise a half-migrated set could not be finished.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from migrator.grove import objects, places
from migrator.hashing.podcliqueset import SetHashes
from migrator.hashing.schemes import Scheme

#: The kinds whose hashes only show how far an operator has come (:func:`lagging`).
_LAGGING: Final = frozenset({"PodClique", "PodCliqueScalingGroup", "PodGangMap"})


class Verdict(Enum):
    """The origin of one stored value."""

    SOURCE = auto()
    TARGET = auto()
    LEFTOVER = auto()
    FOREIGN = auto()


@dataclass(frozen=True, slots=True)
class HashPair:
    """The hashes of one set under a source and a target."""

    source: SetHashes
    target: SetHashes

    @property
    def is_accepted(self) -> bool:
        """Whether an operator of the target leaves the source's hashes as they are."""
        return self.source.scheme.name in self.target.scheme.accepts

    def by_verdict(self, stored: Iterable[places.StoredHash]) -> Mapping[Verdict, Sequence[places.StoredHash]]:
        """The values by their origin."""
        values = {verdict: list[places.StoredHash]() for verdict in Verdict}
        for item in stored:
            values[self.classify(item)].append(item)
        return values

    def classify(self, stored: places.StoredHash) -> Verdict:
        """Classify one stored value; a value that both schemes give counts as the target's."""
        if stored.value == self.target.of(stored.clique):
            return Verdict.TARGET
        if stored.value == self.source.of(stored.clique):
            return Verdict.SOURCE
        if stored.may_be_old:
            return Verdict.LEFTOVER
        return Verdict.FOREIGN


def detect(
    pcs: objects.PodCliqueSet, stored: Sequence[places.StoredHash], candidates: Sequence[Scheme], target: Scheme
) -> tuple[HashPair, bool]:
    """The hashes of the likely scheme and of the target, and whether that scheme explains the set.

    A scheme explains a set if it gives some of the values, and the target all others but leftovers of OnDelete. The
    first that does so is the source: the target itself, if the set is done, or else the first such candidate. If none
    does, the likely one is the best match, for messages and overrides: the target only if it gives some values and no
    candidate gives any: a set that the target's operator had half updated when it was edited is not done.

    Raises :class:`~migrator.errors.DecodeError` for a set that Go could not decode.
    """
    new = pcs.hashes(target)
    # What looks like a leftover may be an old hash of the present template, which a revert that died has left beside
    # new ones. So an only candidate comes before the target.
    asked = [target, *candidates] if len(candidates) > 1 else [*candidates, target]
    given = dict[Scheme, int]()  # how many values it gives; of a candidate's, those that are not the target's too
    for scheme in asked:
        pair = HashPair(pcs.hashes(scheme), new)
        counts = Counter(map(pair.classify, stored))
        given[scheme] = counts[Verdict.TARGET if scheme == target else Verdict.SOURCE]
        if given[scheme] and not counts[Verdict.FOREIGN]:
            return pair, True

    def match(scheme: Scheme) -> tuple[bool, int]:
        # The target's generation hash speaks for no other scheme, though a canonical one may give the same.
        return pcs.hashes(scheme).generation == pcs.generation_hash != new.generation, given[scheme]

    likely = max((one for one in asked if one != target), key=match, default=target)  # the first of equals
    if given[target] and not given[likely]:
        likely = target
    return HashPair(pcs.hashes(likely), new), False


def lagging(tree: objects.Tree, foreign: Sequence[places.StoredHash]) -> frozenset[places.StoredHash]:
    """The foreign values on which no pod depends.

    Operators delete a pod because of the pod's own label, and the PodCliques of a scaling group's replica because of
    their labels: ``podclique/components/pod/rollingupdate.go:computeUpdateWork`` and
    ``podcliquescalinggroup/components/podclique/rollingupdate.go:isReplicaUpdated``. So if these are current, a hash in
    a status that lags behind (Grove issue 671) starts at most an update that finds nothing to replace. The entries of
    a PodGangMap lag behind where an update had nothing to do in their replica, or OnDelete was in force: they move on
    while an update replaces the pods of that replica (Grove PR 778: ``podgangmap/syncflow.go:runSyncFlow``).
    ``foreign`` are all values of the tree that are neither the source's hash nor the target's.
    """
    if not foreign:
        return frozenset()
    of_labels = {stored.ref.uid for stored in foreign if stored.place in (places.CLIQUE_LABEL, places.POD_LABEL)}
    # What has pods or will have some; the operator recreates a PodClique at zero before it gets pods.
    populated = {_unit(one) for one in tree.pod_cliques if one.spec.get("replicas", 1) or one.live}
    outdated = (c for c in tree.pod_cliques if _unit(c) in populated and not _is_current(c, of_labels))
    with_owners = {uid for clique in outdated for uid in (clique.ref.uid, clique.owner_uid, tree.ref.uid)}
    if with_owners or places.open_progress(tree.pcs):
        with_owners.update(gang_map.ref.uid for gang_map in tree.pod_gang_maps)
    return frozenset(stored for stored in foreign if stored.ref.kind in _LAGGING and stored.ref.uid not in with_owners)


def next_has_begun(tree: objects.Tree, pair: HashPair) -> bool:
    """Whether the next operator has begun the update that a migration would prevent; without one, that goes on.

    One that accepts the source's hashes begins none because of them: then an open update is of the owner's edit. Under
    OnDelete none replaces a pod.
    """
    if tree.pcs.on_delete or pair.is_accepted or places.open_progress(tree.pcs) is None:
        return False
    return tree.pcs.generation_hash == pair.target.generation != pair.source.generation


def _unit(clique: objects.PodClique) -> tuple[str | None, str | None]:
    """The key of all that is replaced together: a standalone PodClique, or one replica of a scaling group."""
    return clique.ref.uid if clique.standalone else clique.owner_uid, clique.group_index


def unlabelled(tree: objects.Tree) -> bool:
    """Whether a PodClique or pod that stays has no label, so that an operator replaces it; none does under OnDelete."""
    staying = (clique for clique in tree.pod_cliques if not clique.terminating)
    return not tree.pcs.on_delete and any(not value for clique in staying for value in _labels(clique).values())


def _is_current(clique: objects.PodClique, foreign: Collection[str]) -> bool:
    """Whether the labels of a PodClique and of all its pods are there; the uids of ``foreign`` ones are given."""
    return all(value and uid not in foreign for uid, value in _labels(clique).items())


def _labels(clique: objects.PodClique) -> Mapping[str, str | None]:
    """The hash labels of a PodClique and of its live pods by the uid of their object; ``None`` if one is absent."""
    return {clique.ref.uid: clique.template_hash} | {pod.ref.uid: pod.template_hash for pod in clique.live}
