"""Reading back: every verdict derives from one snapshot, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Final

from migrator import errors
from migrator.grove.hash_fields import PROGRESS_FIELDS, stored_hashes
from migrator.grove.objects import (
    LABEL_POD_TEMPLATE_HASH,
    GroveObject,
    Pod,
    PodClique,
    Ref,
    Snapshot,
    Tree,
    kubernetes_time,
)
from migrator.hashing import layouts, schemes
from migrator.planning.detect import HashPair, Verdict, detect, hashes_of, lagging, unlabelled
from migrator.planning.guards.updates import open_progress
from migrator.planning.options import Direction
from migrator.run import leases, operator, webhooks
from migrator.run.context import Context, RunOptions
from migrator.run.endings import start_command
from migrator.run.observation import is_same_target
from migrator.run.record import Record, parse
from migrator.run.snapshot import read_snapshot
from migrator.store import Store

_NAMED: Final = 3
_INTERVAL: Final = 2.0  # seconds between two readings

#: By how much the clocks of the API server and of an operator may differ.
CLOCKS: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Problem:
    """One deviation from the expected state, which ``settles`` if it may end by itself.

    ``late``: a hash that only lags behind, or an update of a set that its owner may have begun: it does not fail the
    verification.
    """

    ref: Ref
    field: str | None
    message: str
    settles: bool = True
    late: bool = False


@dataclass(frozen=True, slots=True)
class VerifyOptions(RunOptions):
    """The options of ``verify``; ``wait`` is how long problems that may still settle are read again, in seconds."""

    after_upgrade: bool = False


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The last snapshot's verdict.

    ``older`` and ``younger`` count the live pods of the sets that nobody has edited since the migration, by its time;
    both are ``None`` without a record.
    """

    sets: int
    stored: int
    compared: bool  # with the time of a record
    noticed: tuple[Problem, ...] = ()  # what does not fail it
    older: int | None = None
    younger: int | None = None


def verify(store: Store, options: VerifyOptions, context: Context) -> VerifyResult:
    """Read until every stored hash is the target's or an OnDelete leftover; nothing is written.

    Raises :class:`~migrator.errors.VerificationFailed` with the problems of the last snapshot once ``wait`` is
    over or a problem cannot settle.

    With ``after_upgrade`` an operator of the target must run and no other, and an update that began since the run and
    is open, or has replaced pods, is a problem. Without a record of a run to this target only values and operators
    count.
    """
    records = _records(store, options)
    since = max((one.started for one in records if is_same_target(one, options)), default=None)
    if options.after_upgrade and since is None:
        context.log.warning("no_record", consequence="it is not known when the run was: updates since are not judged")
    deadline = context.clock() + options.wait
    for attempts in count(1):
        snapshot = read_snapshot(store)
        found = tuple(_found(store, snapshot, records, since, options))
        problems = tuple(problem for problem in found if not problem.late)
        event = "verify_failed" if problems else "verified"
        context.log.info(event, attempt=attempts, problems=len(problems), trees=len(snapshot.trees))
        settling = problems and all(problem.settles for problem in problems)
        if not settling or context.clock() + _INTERVAL > deadline:
            break
        context.sleep(_INTERVAL)
    noticed = tuple(problem for problem in found if problem.late)
    for problem in noticed:
        context.log.warning("noticed", object=str(problem.ref), what=problem.message)
    if problems:
        named = errors.first_of([problem.message for problem in problems], _NAMED)
        raise errors.VerificationFailed(
            f"verification failed after {errors.count(attempts, 'snapshot')}: {named}", problems
        )
    stored = sum(1 for tree in snapshot.trees for _ in stored_hashes(tree))
    older, younger = _ages(snapshot, since) if since is not None else (None, None)
    return VerifyResult(len(snapshot.trees), stored, since is not None, noticed, older, younger)


def _records(store: Store, options: VerifyOptions) -> list[Record]:
    """The records of runs, in all namespaces; without ``after_upgrade`` they do not matter."""
    if not (store.is_cluster and options.after_upgrade):
        return []
    found = leases.everywhere(store, leases.OWN_LEASE).values()
    records = [parse(lease.annotations.get(leases.RECORD, ""), lease.namespace) for lease in found]
    return [one for one in records if one is not None]


def _found(
    store: Store, snapshot: Snapshot, records: Sequence[Record], since: datetime | None, options: VerifyOptions
) -> Iterator[Problem]:
    yield from problems_of(snapshot, options.direction, after_upgrade=options.after_upgrade, since=since)
    if store.is_cluster and not snapshot.installed:
        message = "Grove's CRDs are not installed: there is nothing to verify"
        yield Problem(Ref("PodCliqueSet", "", ""), None, message)
    for record in records:
        if record.is_open:
            message = f"the run to {record.target} that began at {record.started:%Y-%m-%d %H:%M} did not end"
            yield Problem(Ref("Lease", "", leases.OWN_LEASE), None, f"{message}: run it again", settles=False)
    if options.after_upgrade:
        yield from _no_operator(store, options)
        for one in webhooks.read(store):
            if one.ours:
                message = f"webhook {one.name} still leaves an account of grove-migrator out: run again, or remove that"
                ref = Ref("ValidatingWebhookConfiguration", "", one.configuration)
                yield Problem(ref, None, f"{message} matchCondition", late=True)


def _no_operator(store: Store, options: VerifyOptions) -> Iterator[Problem]:
    """The problems that no operator of the target runs, or that another one does."""
    found = operator.find(store, options.flags)
    installed = found.operator
    name = (installed.deployment if installed else options.flags.deployment) or "grove-operator"
    ref = Ref("Deployment", installed.namespace if installed else "", name)
    what = f"beside the operator of {options.plan.target}"
    for other, image in found.others.items():
        if not options.is_target(image):
            yield Problem(ref, None, f"{other} runs {image} {what}: scale it to zero, or remove it")
    pods = [pod for pod in installed.pods if not pod.terminating] if installed is not None else []
    if any(options.is_target(pod.image) for pod in pods if pod.ready):
        for pod in pods:
            if not options.is_target(pod.image):
                yield Problem(pod.ref, None, f"{pod} runs {what}")
        return
    seen = installed.description if installed else "there is none"
    remedy = "upgrade first, or name its image with --target-image"
    if installed and installed.deployment and not installed.replicas and options.is_target(installed.image):
        remedy = f"start it: {start_command(installed)}"
    elif installed and any(map(options.is_target, installed.images)):
        remedy = "its pods do not run or are not ready; see why, and verify again"
    yield Problem(ref, None, f"no operator of {options.plan.target} runs ({seen}): {remedy}")


# --- the problems of a snapshot: pure ---------------------------------------------------------------------------------


def problems_of(
    snapshot: Snapshot, direction: Direction, *, after_upgrade: bool, since: datetime | None = None
) -> Iterator[Problem]:
    """All problems of one snapshot; ``since`` is when the migration began."""
    staying = [tree for tree in snapshot.trees if not tree.pcs.terminating]
    for tree in staying:
        yield from _values(tree, direction)
        yield from _without_label(tree)
        if after_upgrade and since is not None:
            yield from _updated_since(tree, since)
    if since is not None and staying and all(_edit(tree, since) is not None for tree in staying):
        message = "every set was edited since the migration, so nothing shows whether the upgrade replaced pods"
        yield Problem(staying[0].pcs.ref, None, message, settles=False)


def _values(tree: Tree, direction: Direction) -> Iterator[Problem]:
    hashes = hashes_of(tree.pcs)
    stored = tuple(stored_hashes(tree))
    if not stored:
        return
    target = detect(stored, direction, hashes).target
    pair = HashPair(hashes(target), hashes(target))
    other = [item for item in stored if pair.classify(item) not in {Verdict.TARGET, Verdict.LEFTOVER}]
    lags = lagging(tree, other)
    read_elsewhere = (one for one in schemes.all_schemes() if one.minor in layouts.adopted())
    before = dict.fromkeys((*direction.candidates, *schemes.released_schemes(), *read_elsewhere))
    for item in other:
        # A value that no pod depends on may stay as the old operator left it. A hash that was not migrated fails.
        late = (item.ref.uid, item.field) in lags and not any(
            item.value == hashes(one).of(item.clique) for one in before
        )
        message = f"{item.ref}: {item.field} is {item.value}, not {target.name}'s {pair.target.of(item.clique)}"
        if late:
            message += "; it lags behind, and no pod depends on it"
        yield Problem(item.ref, item.field, message, late=late)


def _without_label(tree: Tree) -> Iterator[Problem]:
    """A pod or PodClique without its hash label, which the operator takes for outdated."""
    if not tree.pcs.on_delete and unlabelled(tree):
        yield Problem(tree.ref, None, f"{tree.ref}: a pod or PodClique has no label {LABEL_POD_TEMPLATE_HASH}")


def _updated_since(tree: Tree, since: datetime) -> Iterator[Problem]:
    """Updates that began after the migration: they are open, or they have replaced pods.

    alpha.12-rc1 begins an update of every standalone PodClique that stores no progress
    (``podclique/reconcilespec.go:shouldResetOrTriggerUpdate``, until Grove PR 757): a PodClique's may end without
    replacing a pod. Under OnDelete the operator may write progress without touching a pod.
    """
    if tree.pcs.on_delete:
        return
    edit = _edit(tree, since)
    found = [*_open(tree, since), *_replaced(tree, since)]
    if edit is not None:
        manager, moment = edit
        pods = errors.count(sum(pod.live for clique in tree.staying for pod in clique.pods), "pod")
        message = (
            f"{tree.ref}: {manager} has edited its template at {moment:%Y-%m-%d %H:%M:%S} UTC, after the migration, so "
            f"its {pods} prove nothing"
        )
        yield Problem(tree.ref, None, message, late=True)
        return
    yield from found


def _open(tree: Tree, since: datetime) -> Iterator[Problem]:
    for item in (tree.pcs, *tree.scaling_groups, *tree.pod_cliques):
        moment, name = _began(item), open_progress(item)
        if name and moment is not None and moment > since - CLOCKS:
            message = f"{item.ref}: an update is open that began at {moment:%Y-%m-%d %H:%M:%S} UTC, after the migration"
            yield Problem(item.ref, f"/status/{name}", message, settles=isinstance(item, PodClique))


def _replaced(tree: Tree, since: datetime) -> Iterator[Problem]:
    began = {item.ref.uid: _began(item) for item in (tree.pcs, *tree.scaling_groups, *tree.pod_cliques)}
    for clique in tree.staying:
        owners = (began.get(uid) for uid in (clique.ref.uid, clique.owner_uid or "", tree.pcs.ref.uid))
        update = max((at for at in owners if at is not None and at > since - CLOCKS), default=None)
        new = [pod for pod in clique.pods if update and pod.live and _is_younger(pod, max(since, update - CLOCKS))]
        if update is not None and new:
            message = (
                f"{clique.ref}: {errors.count(len(new), 'pod')} of {len(clique.pods)} replaced by an update that began "
                f"at {update:%Y-%m-%d %H:%M:%S} UTC, after the migration"
            )
            yield Problem(clique.ref, None, message, settles=False)


def _edit(tree: Tree, since: datetime) -> tuple[str, datetime] | None:
    """Who has edited the template since, and when, if an update began then or later; else the operator began it."""
    edits = [edit for edit in tree.pcs.edits if edit[1] > since]
    updates = [at for item in (tree.pcs, *tree.scaling_groups, *tree.pod_cliques) if (at := _began(item)) is not None]
    first = min(edits, key=lambda edit: edit[1], default=None)
    if first is None:
        return None
    since_then = [at for at in updates if at > since - CLOCKS]
    return first if all(at >= first[1] - CLOCKS for at in since_then) else None


def _is_younger(pod: Pod, moment: datetime) -> bool:
    return (kubernetes_time(pod.created) or moment) > moment


def _ages(snapshot: Snapshot, since: datetime) -> tuple[int, int]:
    """How many live pods are older than the migration, and how many younger, of sets that were not edited since."""
    trees = [tree for tree in snapshot.trees if not tree.pcs.terminating and _edit(tree, since) is None]
    ages = [_is_younger(pod, since) for tree in trees for clique in tree.staying for pod in clique.pods if pod.live]
    return ages.count(False), ages.count(True)


def _began(item: GroveObject) -> datetime | None:
    """When the last update of an object began."""
    found = (kubernetes_time((item.status.get(name) or {}).get("updateStartedAt")) for name in PROGRESS_FIELDS)
    return max((moment for moment in found if moment is not None), default=None)
