"""The problems that one snapshot of a migrated cluster shows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Final

from migrator import words
from migrator.grove import objects, places
from migrator.hashing import schemes
from migrator.hashing.schemes import Scheme
from migrator.planning.detect import HashPair, Verdict, hashes_of, lagging, unlabelled

#: By how much the clocks of the API server and of an operator may differ.
CLOCKS: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Problem:
    """One deviation from the expected state, which ``settles`` if it may end by itself.

    ``late``: a hash that only lags behind, or an update of a set that its owner may have begun: it does not fail the
    verification. ``commands`` mend it.
    """

    ref: objects.Ref
    field: str | None
    message: str
    settles: bool = True
    late: bool = False
    commands: tuple[str, ...] = ()


def problems_of(
    snapshot: objects.Snapshot,
    target: Scheme,
    *,
    after_upgrade: bool,
    since: datetime | None = None,
    scheme: Scheme | None = None,
) -> Iterator[Problem]:
    """All problems of one snapshot; ``since`` is when the migration began, ``scheme`` its source if that is known."""
    staying = [tree for tree in snapshot.trees if not tree.pcs.terminating]
    for tree in staying:
        yield from _values(tree, target, scheme)
        yield from _without_label(tree)
        if after_upgrade and since is not None:
            yield from _updated_since(tree, since)
    if since is not None and staying and all(_edit(tree, since) is not None for tree in staying):
        message = "every set was edited since the migration, so nothing shows whether the upgrade replaced pods"
        yield Problem(staying[0].pcs.ref, None, message, settles=False)


def _values(tree: objects.Tree, target: Scheme, scheme: Scheme | None) -> Iterator[Problem]:
    hashes = hashes_of(tree.pcs)
    stored = tuple(places.stored_hashes(tree))
    if not stored:
        return
    pair = HashPair(hashes(target), hashes(target))
    other = [item for item in stored if pair.classify(item) not in {Verdict.TARGET, Verdict.LEFTOVER}]
    lags = lagging(tree, other)
    # A run leaves what is neither its hash nor the target's.
    before = (scheme,) if scheme else schemes.all_schemes()
    for item in other:
        # A value that no pod depends on may stay as the old operator left it. A hash that was not migrated fails.
        late = (item.ref.uid, item.field) in lags and not any(
            item.value == hashes(one).of(item.clique) for one in before
        )
        message = f"{item.ref}: {item.field} is {item.value}, not {target.name}'s {pair.target.of(item.clique)}"
        if late:
            message += "; it lags behind, and no pod depends on it"
        yield Problem(item.ref, item.field, message, late=late)


def _without_label(tree: objects.Tree) -> Iterator[Problem]:
    """A pod or PodClique without its hash label, which the operator takes for outdated."""
    if unlabelled(tree):
        yield Problem(tree.ref, None, f"{tree.ref}: a pod or PodClique has no label {objects.LABEL_POD_TEMPLATE_HASH}")


def _updated_since(tree: objects.Tree, since: datetime) -> Iterator[Problem]:
    """Updates that began after the migration: they are open, or they have replaced pods.

    alpha.12-rc1 begins an update of every standalone PodClique that stores no progress
    (``podclique/reconcilespec.go:shouldResetOrTriggerUpdate``, until Grove PR 757). It replaces a pod only for a hash
    that was changed after the run, because any other difference begins an update of the set too; but after it, pods
    take the place of those that were lost. Under OnDelete the operator may write progress without touching a pod.
    """
    if tree.pcs.on_delete:
        return
    if (edit := _edit(tree, since)) is None:
        updates = _updates(tree, since)
        yield from _open(tree, updates)
        yield from _replaced(tree, updates, since)
        return
    manager, moment = edit
    pods = words.count(sum(len(clique.live) for clique in tree.staying), "pod")
    message = (
        f"{tree.ref}: {manager} has edited its template at {moment:%Y-%m-%d %H:%M:%S} UTC, after the migration, so "
        f"its {pods} prove nothing"
    )
    yield Problem(tree.ref, None, message, late=True)


def _updates(tree: objects.Tree, since: datetime) -> Mapping[str, datetime]:
    """When the updates that began after the migration did so, by the uids of their objects."""
    began = {item.ref.uid: _began(item) for item in (tree.pcs, *tree.children)}
    return {uid: moment for uid, moment in began.items() if moment is not None and moment > since - CLOCKS}


def _open(tree: objects.Tree, updates: Mapping[str, datetime]) -> Iterator[Problem]:
    for item in (tree.pcs, *tree.children):
        moment, name = updates.get(item.ref.uid), places.open_progress(item)
        if name and moment is not None:
            message = f"{item.ref}: an update is open that began at {moment:%Y-%m-%d %H:%M:%S} UTC, after the migration"
            yield Problem(item.ref, f"/status/{name}", message, settles=isinstance(item, objects.PodClique))


def _replaced(tree: objects.Tree, updates: Mapping[str, datetime], since: datetime) -> Iterator[Problem]:
    for clique in tree.staying:
        # An update of a standalone PodClique without its set's replaces no pod that was migrated.
        owners = (tree.ref.uid,) if clique.standalone else (clique.ref.uid, clique.owner_uid or "", tree.ref.uid)
        update = max((updates[uid] for uid in owners if uid in updates), default=None)
        if update is None:
            continue
        if new := [pod for pod in clique.live if _is_younger(pod, max(since, update - CLOCKS))]:
            message = (
                f"{clique.ref}: {words.count(len(new), 'pod')} of {len(clique.pods)} replaced by an update that began "
                f"at {update:%Y-%m-%d %H:%M:%S} UTC, after the migration"
            )
            yield Problem(clique.ref, None, message, settles=False)


def _edit(tree: objects.Tree, since: datetime) -> tuple[str, datetime] | None:
    """Who has edited the template since, and when, if the set's update followed; what began before is the operator's.

    Without that it was no edit of pods: a manager that owns the template may have written the replicas.
    """
    first = min((edit for edit in tree.pcs.edits if edit[1] > since), key=itemgetter(1), default=None)
    updates = _updates(tree, since)
    if first is None or tree.ref.uid not in updates or any(one < first[1] - CLOCKS for one in updates.values()):
        return None
    return first


def _is_younger(pod: objects.Pod, moment: datetime) -> bool:
    return (objects.kubernetes_time(pod.created) or moment) > moment


def ages_of(snapshot: objects.Snapshot, since: datetime) -> tuple[int, int]:
    """How many live pods are older than the migration, and how many younger, of sets that were not edited since."""
    trees = [tree for tree in snapshot.trees if not tree.pcs.terminating and _edit(tree, since) is None]
    ages = [_is_younger(pod, since) for tree in trees for clique in tree.staying for pod in clique.live]
    return ages.count(False), ages.count(True)


def _began(item: objects.GroveObject) -> datetime | None:
    """When the last update of an object began."""
    progresses = (item.status.get(name) or {} for name in places.PROGRESS_FIELDS)
    found = (objects.kubernetes_time(progress.get("updateStartedAt")) for progress in progresses)
    return max((moment for moment in found if moment is not None), default=None)
