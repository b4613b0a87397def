"""The problems that one snapshot of a migrated cluster shows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final

from migrator import words
from migrator.errors import DecodeError
from migrator.grove import objects, places
from migrator.hashing import schemes
from migrator.hashing.schemes import Scheme
from migrator.planning.detect import HashPair, Verdict, lagging, unlabelled

#: By how much the clocks of the API server and of an operator may differ.
CLOCKS: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Problem:
    """One deviation from the expected state.

    ``settles``: it may end without help, so it is worth waiting. ``late``: it is told and fails no verification, such
    as a hash that only lags behind, or a set that its owner has edited. ``missed``: the value is a hash of the source,
    so the target's operator replaces pods when it starts. ``commands`` mend it.
    """

    ref: objects.Ref
    field: str | None
    message: str
    settles: bool = True
    late: bool = False
    missed: bool = False
    commands: tuple[str, ...] = ()


def problems_of(
    snapshot: objects.Snapshot, target: Scheme, *, source: Scheme | None = None, since: datetime | None = None
) -> Iterator[Problem]:
    """All problems of one snapshot.

    ``source`` is the scheme that was migrated from, if that is known. ``since`` is when the migration began: with it,
    updates that began later are judged too.
    """
    if not snapshot.installed:
        message = "Grove's CRDs are not installed: there is nothing to verify"
        yield Problem(objects.Ref("PodCliqueSet", "", ""), None, message)
    staying = [tree for tree in snapshot.trees if not tree.pcs.terminating]
    edits = {} if since is None else {tree.ref.uid: _edit(tree, since) for tree in staying}
    for tree in staying:
        yield from _values(tree, target, source)
        if unlabelled(tree):  # an operator takes what has no label for outdated
            message = f"{tree.ref}: a pod or PodClique has no label {objects.LABEL_POD_TEMPLATE_HASH}"
            yield Problem(tree.ref, None, message)
        if since is None or tree.pcs.on_delete:  # under OnDelete operators write progress and touch no pod
            continue
        if (edit := edits[tree.ref.uid]) is not None:
            yield _edited(tree, edit)
        else:
            yield from _updated_since(tree, since)
    if edits and all(edits.values()):
        message = "every set was edited since the migration, so nothing shows whether the upgrade replaced pods"
        yield Problem(staying[0].pcs.ref, None, message, settles=False)


def _values(tree: objects.Tree, target: Scheme, source: Scheme | None) -> Iterator[Problem]:
    """Stored hashes that are not the target's, except leftovers of OnDelete."""
    hashes, stored = tree.pcs.hashes, tuple(places.stored_hashes(tree))
    if not stored:
        return
    try:
        pair = HashPair(hashes(target), hashes(target))
    except DecodeError as error:
        yield Problem(tree.ref, None, f"{tree.ref}: its template cannot be hashed: {error}", settles=False)
        return
    other = [item for item in stored if pair.classify(item) not in {Verdict.TARGET, Verdict.LEFTOVER}]
    lags = lagging(tree, other)
    migrated = (source,) if source else schemes.all_schemes()
    for item in other:
        # A run leaves what is neither the source's hash nor the target's, and that may stay if no pod depends on it.
        missed = any(item.value == hashes(scheme).of(item.clique) for scheme in migrated)
        late = item in lags and not missed
        message = f"{item.ref}: {item.field} is {item.value}, not {target.name}'s {pair.target.of(item.clique)}"
        if late:
            message += "; it lags behind, and no pod depends on it"
        yield Problem(item.ref, item.field, message, late=late, missed=missed)


def _edited(tree: objects.Tree, edit: objects.Edit) -> Problem:
    """That the owner has edited a set since the migration, so that its updates are no problem."""
    pods = words.count(sum(len(clique.live) for clique in tree.staying), "pod")
    message = (
        f"{tree.ref}: {edit.manager} has edited its template at {edit.time:%Y-%m-%d %H:%M:%S} UTC, after the "
        f"migration, so its {pods} prove nothing"
    )
    return Problem(tree.ref, None, message, late=True)


def _updated_since(tree: objects.Tree, since: datetime) -> Iterator[Problem]:
    """Updates that began after the migration: they are open, or they have replaced pods."""
    updates = _updates(tree, since)
    for item in (tree.pcs, *tree.children):
        moment, name = updates.get(item.ref.uid), places.open_progress(item)
        if name and moment is not None:
            message = f"{item.ref}: an update is open that began at {moment:%Y-%m-%d %H:%M:%S} UTC, after the migration"
            yield Problem(item.ref, f"/status/{name}", message, settles=isinstance(item, objects.PodClique))
    yield from _replaced(tree, updates, since)


def _updates(tree: objects.Tree, since: datetime) -> Mapping[str, datetime]:
    """When each update began that did so after the migration, by the uid of its object."""
    began = {item.ref.uid: _began(item) for item in (tree.pcs, *tree.children)}
    return {uid: moment for uid, moment in began.items() if moment is not None and moment > since - CLOCKS}


def _replaced(tree: objects.Tree, updates: Mapping[str, datetime], since: datetime) -> Iterator[Problem]:
    """Pods that updates have replaced; an update of a standalone PodClique alone has replaced none that was migrated.

    Where a generation hash differs, an update of the set begins as well, since that hash covers every template. Without
    it alpha.12-rc1 updates each standalone PodClique that stores no progress
    (``podclique/reconcilespec.go:shouldResetOrTriggerUpdate``, until Grove PR 757), and finds every label current. Its
    pods that are younger are those that an autoscaler added, or that took the place of lost ones.
    """
    for clique in tree.staying:
        owners = (tree.ref.uid,) if clique.standalone else (clique.ref.uid, clique.owner_uid or "", tree.ref.uid)
        update = max((updates[uid] for uid in owners if uid in updates), default=None)
        if update is None:
            continue
        if new := [pod for pod in clique.live if _is_younger(pod, max(since, update - CLOCKS))]:
            message = (
                f"{clique.ref}: {words.count(len(new), 'pod')} of {len(clique.live)} replaced by an update that began "
                f"at {update:%Y-%m-%d %H:%M:%S} UTC, after the migration"
            )
            yield Problem(clique.ref, None, message, settles=False)


def _edit(tree: objects.Tree, since: datetime) -> objects.Edit | None:
    """The first edit of the template after the migration, if it began the set's update.

    If no update followed, the edit was of something else, such as the replicas, by a manager that owns the template. An
    update that began before the edit is the operator's, so its pods are judged. That of a standalone PodClique alone
    does not count, as for :func:`_replaced`: the set's reaches the PodCliques of one replica after another.
    """
    edit = min((edit for edit in tree.pcs.edits if edit.time > since), key=attrgetter("time"), default=None)
    if edit is None:
        return None
    standalone = {clique.ref.uid for clique in tree.pod_cliques if clique.standalone}
    updates = {uid: began for uid, began in _updates(tree, since).items() if uid not in standalone}
    was_first = all(began >= edit.time - CLOCKS for began in updates.values())
    return edit if tree.ref.uid in updates and was_first else None


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
