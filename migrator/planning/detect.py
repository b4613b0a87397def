"""The scheme that explains a set's stored values, and the values on which no pod depends. Pure.

A value may be either scheme's hash; otherwise a half-migrated set could not be finished.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from migrator.grove import objects, places
from migrator.hashing.podcliqueset import SetHashes
from migrator.hashing.schemes import Scheme


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

    A scheme explains a set if every value is its hash or the target's, except leftovers of OnDelete. The target itself
    explains a set that is done; otherwise the first such candidate does. If none does, the likely one is the best
    match, for messages and overrides: the target only if it gives some values and no other candidate gives any. What
    half an update of the target's operator has left beside an edit is not done.

    What looks like a leftover may be an old hash of the present template, which a revert that died left beside new
    ones. So with leftovers the target explains a set only after an only candidate has given none of its values.

    Raises :class:`~migrator.errors.DecodeError` for a set that Go could not decode, and ``ValueError`` without
    candidates.
    """
    new = pcs.hashes(target)
    # The target's generation hash speaks for no other scheme, though a canonical one may give the same.
    recorded = {one.value for one in stored if one.place is places.SET_GENERATION} - {new.generation}
    # Whether a scheme gives the generation hash, how many values it and the target explain, and how many it alone.
    scores: dict[Scheme, tuple[bool, int, int]] = {}
    done = False
    for candidate in dict.fromkeys((target, *candidates)):
        pair = HashPair(pcs.hashes(candidate), new)
        counts = Counter(map(pair.classify, stored))
        found = counts[Verdict.TARGET if candidate == target else Verdict.SOURCE]
        if found and not counts[Verdict.FOREIGN]:
            if candidate != target or len(candidates) > 1 or not counts[Verdict.LEFTOVER]:
                return pair, True
            done = True  # unless the only candidate, which comes next, gives some of the leftovers
        explained = counts[Verdict.SOURCE] + counts[Verdict.TARGET]
        scores[candidate] = (pair.source.generation in recorded, explained, counts[Verdict.SOURCE])
    if done:
        return HashPair(new, new), True
    others = [one for one in candidates if one != target] or candidates
    best = max(others, key=scores.__getitem__)  # the first of equals
    _, explained, by_source = scores[best]
    return HashPair(new if explained and not by_source else pcs.hashes(best), new), False


def lagging(tree: objects.Tree, foreign: Sequence[places.StoredHash]) -> frozenset[tuple[str, str]]:
    """The foreign values on which no pod depends, by uid and field.

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
    foreign_fields = {(stored.ref.uid, stored.place) for stored in foreign}
    populated = {_unit(clique) for clique in tree.pod_cliques if _present(clique)}
    outdated = (c for c in tree.pod_cliques if _unit(c) in populated and not _is_current(c, foreign_fields))
    with_owners = {uid for clique in outdated for uid in (clique.ref.uid, clique.owner_uid, tree.ref.uid)}
    if with_owners or places.open_progress(tree.pcs):
        with_owners.update(gang_map.ref.uid for gang_map in tree.pod_gang_maps)
    lags = (stored for stored in foreign if stored.place.lags and stored.ref.uid not in with_owners)
    return frozenset((stored.ref.uid, stored.field) for stored in lags)


def next_has_begun(tree: objects.Tree, pair: HashPair) -> bool:
    """Whether the next operator has begun the update that a migration prevents; unless it does, that goes on.

    One that accepts the source's hashes begins none because of them: then an open update is of the owner's edit. Under
    OnDelete none replaces a pod.
    """
    is_accepted = pair.source.scheme.name in pair.target.scheme.accepts
    if tree.pcs.on_delete or is_accepted or places.open_progress(tree.pcs) is None:
        return False
    return tree.pcs.generation_hash == pair.target.generation != pair.source.generation


def _unit(clique: objects.PodClique) -> tuple[str, str | None]:
    """The key of all that is replaced together: a standalone PodClique, or one replica of a scaling group."""
    if clique.standalone:
        return clique.ref.uid, None
    return clique.owner_uid or "", clique.group_index


def _present(clique: objects.PodClique) -> bool:
    """Whether it has pods or will have some. The operator recreates a PodClique at zero before it gets pods."""
    return bool(clique.spec.get("replicas", 1) or clique.live)


def unlabelled(tree: objects.Tree) -> bool:
    """Whether a PodClique or pod that stays has no label, so that an operator replaces it; none does under OnDelete."""
    staying = (clique for clique in tree.pod_cliques if not clique.terminating)
    return not tree.pcs.on_delete and any(not value for clique in staying for _, _, value in _labels(clique))


def _is_current(clique: objects.PodClique, foreign_fields: set[tuple[str, places.HashField]]) -> bool:
    """Whether the labels of a PodClique and of all its pods are there and not foreign."""
    return all(value and (uid, place) not in foreign_fields for uid, place, value in _labels(clique))


def _labels(clique: objects.PodClique) -> Iterator[tuple[str, places.HashField, str | None]]:
    """The hash labels of a PodClique and of its live pods, each with its object's uid; ``None`` if it is absent."""
    yield clique.ref.uid, places.CLIQUE_LABEL, clique.template_hash
    yield from ((pod.ref.uid, places.POD_LABEL, pod.template_hash) for pod in clique.live)
