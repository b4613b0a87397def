"""Reading back: every verdict derives from one snapshot, and what cannot be read is not verified.

An owner's edit, scale-in or deletion is reported, and is not a failure.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Final

from migrator import errors
from migrator.exact_json import integer
from migrator.grove.hash_fields import stored_hashes
from migrator.grove.objects import PodClique, Ref, Snapshot, Tree, kubernetes_time
from migrator.hashing import schemes
from migrator.planning import crds
from migrator.planning.detect import HashPair, Verdict, detect, hashes_of, lagging
from migrator.planning.guards.updates import open_progress
from migrator.planning.model import Table
from migrator.planning.options import Direction
from migrator.planning.planner import template_digest
from migrator.planning.releases import builds_of
from migrator.run import operator
from migrator.run.context import Context, RunOptions
from migrator.run.endings import start_command
from migrator.run.leases import OWN_LEASE, Leases, LeaseState
from migrator.run.record import RUN_NAME, Recorded, Recorder, pod_id
from migrator.run.snapshot import read_snapshot
from migrator.store import Store

_NAMED: Final = 3
_INTERVAL: Final = 2.0  # seconds between two readings


@dataclass(frozen=True, slots=True)
class Problem:
    """One deviation from the expected state, which ``settles`` if it may end by itself.

    ``owner``: a change by the set's owner since the migration, or a hash that only lags behind: it does not fail the
    verification.
    """

    ref: Ref
    field: str | None
    message: str
    settles: bool = True
    owner: bool = False


@dataclass(frozen=True, slots=True)
class VerifyOptions(RunOptions):
    """The options of ``verify``; ``wait`` is how long problems that may still settle are read again, in seconds."""

    after_upgrade: bool = False


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The last snapshot's verdict."""

    sets: int
    stored: int
    compared: bool  # with the pods of a record
    noticed: tuple[Problem, ...] = ()  # what does not fail it


@dataclass(frozen=True, slots=True)
class _Known:
    """What was recorded, and where; ``tables`` are those of the migration that is meant, by PodCliqueSet uid."""

    home: str | None = None
    recorded: Recorded = field(default_factory=Recorded)
    tables: Mapping[str, Table] = field(default_factory=dict)


def verify(store: Store, options: VerifyOptions, context: Context, *, namespace: str | None = None) -> VerifyResult:
    """Read until every stored hash is the target's or an OnDelete leftover.

    Raises :class:`~migrator.errors.VerificationFailed` with the problems of the last snapshot once ``wait`` is
    over or a problem cannot settle.

    With ``after_upgrade`` an operator of the target must run, and an update that began since and a pod of the record
    that is missing are problems. If there is none, the record is removed. Without a record only the cluster is checked.
    The record is in ``namespace`` if no operator is found; one of another migration raises
    :class:`~migrator.errors.UsageError`.
    """
    known = _read(store, options, namespace)
    run = known.recorded.run
    if options.after_upgrade and not known.tables:
        if run is not None and known.recorded.tables:
            raise errors.UsageError(
                f"the record in {known.home} is of another run, from {run.source} to {run.target}: verify that one "
                f"with --to {shlex.quote(run.target)}"
            )
        context.log.warning("no_record", consequence="earlier pods and updates are not known, so they are not compared")
    compared = any(table.pods for table in known.tables.values())
    if options.after_upgrade and known.tables and not compared:
        context.log.warning("no_pods_in_record", consequence="earlier pods are not known, so they are not compared")
    deadline = context.clock() + options.wait
    for attempts in count(1):
        snapshot = read_snapshot(store)
        found = tuple(_found(store, snapshot, known, options))
        problems = tuple(problem for problem in found if not problem.owner)
        event = "verify_failed" if problems else "verified"
        context.log.info(event, attempt=attempts, problems=len(problems), trees=len(snapshot.trees))
        settling = problems and all(problem.settles for problem in problems)
        if not settling or context.clock() + _INTERVAL > deadline:
            break
        context.sleep(_INTERVAL)
    noticed = tuple(problem for problem in found if problem.owner)
    for problem in noticed:
        context.log.warning("external_change", object=str(problem.ref), what=problem.message)
    if problems:
        named = errors.first_of([problem.message for problem in problems], _NAMED)
        raise errors.VerificationFailed(
            f"verification failed after {errors.count(attempts, 'snapshot')}: {named}", problems
        )
    if options.after_upgrade and known.home is not None and run is not None:
        try:
            _close(store, known.home, context)
        except errors.MigratorError as error:  # verified all the same
            context.log.warning("record_not_removed", error=str(error))
    stored = sum(1 for tree in snapshot.trees for _ in stored_hashes(tree))
    return VerifyResult(len(snapshot.trees), stored, compared, noticed)


def _read(store: Store, options: VerifyOptions, namespace: str | None) -> _Known:
    """The record; without ``after_upgrade`` one that cannot be read or is not understood counts as absent."""
    try:
        home = operator.find(store, options.flags).home or namespace
        if home is None:
            return _Known()
        recorded = Recorder(store, home).load()
        tables = {uid: table for uid, table in recorded.by_set().items() if _has_target(table, options.direction)}
        return _Known(home, recorded, tables)
    except (errors.NotAuthorised, errors.Unreadable, errors.UsageError):
        if options.after_upgrade:
            raise
        return _Known()


def _has_target(table: Table, direction: Direction) -> bool:
    """Whether a table is of a migration to this target, from whatever source."""
    return direction.target.name == table.target


def _found(store: Store, snapshot: Snapshot, known: _Known, options: VerifyOptions) -> Iterator[Problem]:
    after = options.after_upgrade
    since = known.recorded.run.started if known.tables and known.recorded.run else None
    yield from problems_of(snapshot, options.direction, known.tables, after_upgrade=after, since=since)
    if not snapshot.trees:  # without a set nothing is proven
        ref = Ref("PodCliqueSet", "", "")
        if known.tables:
            message = f"there is no PodCliqueSet, and the record names {len(known.tables)}: is this the right cluster?"
            yield Problem(ref, None, message)
        elif not snapshot.installed:
            yield Problem(ref, None, "Grove's CRDs are not installed: there is nothing to verify")
    run = known.recorded.unfinished
    if after and run is not None:
        message = f"the run to {run.target} that began at {run.started:%Y-%m-%d %H:%M} did not end: run it again first"
        yield Problem(Ref("ConfigMap", str(known.home), RUN_NAME), None, message, settles=False)
    if after:
        yield from _no_operator(store, options)


def _close(store: Store, home: str, context: Context) -> None:
    """Delete the record under our Lease; raises ``LeaseHeld`` if a run holds it, or died with it."""
    leases = Leases(store, home, context)
    if leases.look(OWN_LEASE).state is LeaseState.FREE:
        leases.take(OWN_LEASE)
    seen = leases.look(OWN_LEASE)
    if seen.state is not LeaseState.OURS:
        raise errors.LeaseHeld(f"Lease {home}/{OWN_LEASE} is held by {seen.holder}: a migration runs, or was killed")
    try:
        recorder = Recorder(store.within(leases.seconds_left), home)
        recorder.load()
        recorder.delete()
    finally:
        leases.release_all(park=False)


def _no_operator(store: Store, options: VerifyOptions) -> Iterator[Problem]:
    """The problems that no operator of the target runs, or that another one does."""
    for lack in crds.lacks(builds_of(options.plan.target, options.direction.target), store.short_names(crds.GROUP)):
        yield Problem(lack.ref, None, lack.message, settles=not lack.lasts)
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


# --- the problems of a snapshot, and what owners did since the migration: pure ---------------------------------------


def problems_of(
    snapshot: Snapshot,
    direction: Direction,
    tables: Mapping[str, Table],
    *,
    after_upgrade: bool,
    since: datetime | None = None,
) -> Iterator[Problem]:
    """All problems of one snapshot; with ``after_upgrade`` each set is compared with its table, by uid.

    ``since`` is when the recorded run began, if there is a record.
    """
    for tree in snapshot.trees:
        if tree.pcs.terminating:
            continue
        table = tables.get(tree.ref.uid)
        if after_upgrade and table is not None and template_digest(tree.pcs) != table.template_digest:
            message = f"{tree.ref} was edited after its migration, so the operator replaces its pods"
            yield Problem(tree.ref, "/spec/template", message, owner=True)
            continue
        yield from _values(tree, direction, table)
        if after_upgrade and (table is not None or not tables):
            yield from _in_flight(tree, since)
        if after_upgrade and table is not None:
            yield from lost_pods(tree, table)
    present = {tree.ref.uid for tree in snapshot.trees}
    for table in tables.values() if after_upgrade and present else ():
        if table.uid not in present:
            ref = Ref("PodCliqueSet", table.namespace, table.name, table.uid)
            yield Problem(ref, None, f"{ref} was deleted after the migration", owner=True)


def _values(tree: Tree, direction: Direction, table: Table | None) -> Iterator[Problem]:
    hashes = hashes_of(tree.pcs)
    stored = tuple(stored_hashes(tree))
    if not stored:
        return
    target = detect(stored, direction, hashes).target
    pair = HashPair(hashes(target), hashes(target))
    other = [item for item in stored if pair.classify(item) not in {Verdict.TARGET, Verdict.LEFTOVER}]
    lags = lagging(tree, other)
    before = schemes.all_schemes()
    if table is not None:  # a run leaves what is neither hash as it is
        before = (schemes.by_name(table.source),)
    for item in other:
        # A value that no pod depends on may stay as the old operator left it. A hash that was not migrated fails.
        late = (item.ref.uid, item.field) in lags and not any(
            item.value == hashes(one).of(item.clique) for one in before
        )
        message = f"{item.ref}: {item.field} is {item.value}, not {target.name}'s {pair.target.of(item.clique)}"
        if late:
            message += "; it lags behind, and no pod depends on it"
        yield Problem(item.ref, item.field, message, owner=late)


def _in_flight(tree: Tree, since: datetime | None) -> Iterator[Problem]:
    """Updates that began after the migration and have not ended; without a record the upgrade may have begun any.

    alpha.12-rc1 begins an update of every standalone PodClique that stores no progress
    (``podclique/reconcilespec.go:shouldResetOrTriggerUpdate``, until Grove PR 757): a PodClique's may end without
    replacing a pod. Under OnDelete the operator may write progress without touching a pod.
    """
    if tree.pcs.on_delete:
        return
    why = "no record shows whether the upgrade began it" if since is None else "it is later than the migration"
    for item in (tree.pcs, *tree.scaling_groups, *tree.pod_cliques):
        name = open_progress(item)
        began = kubernetes_time(item.status[name].get("updateStartedAt")) if name else None
        if began is not None and (since is None or began > since):
            message = f"{item.ref}: an update that began at {began:%Y-%m-%d %H:%M:%S} UTC has not ended, and {why}"
            yield Problem(item.ref, f"/status/{name}", message, settles=isinstance(item, PodClique))


def lost_pods(tree: Tree, table: Table) -> Iterator[Problem]:
    """The pods of the table that are gone, by uid, unless their owner has scaled them in."""
    found = {clique.ref.name: clique for clique in tree.pod_cliques}
    expected = frozenset(_expected(tree))
    for name, pods in table.pods.items():
        clique = found.get(name)
        if clique is not None and (name in expected or not clique.terminating):
            yield from _lost_in(clique, pods)
            continue
        ref = Ref("PodClique", tree.ref.namespace, name)
        if name in expected:
            missing = f"{ref} is missing with all its earlier pods ({len(pods)})"
            yield Problem(ref, None, missing, settles=False)
        else:
            yield Problem(ref, None, f"{ref} was removed: its owner scaled it in", owner=True)


def _expected(tree: Tree) -> Iterator[str]:
    """The PodCliques that the specs ask for now (Grove: ``operator/api/common/namegen.go``), of lost groups too."""
    groups = {group.ref.name: group for group in tree.scaling_groups}
    for index in range(integer(tree.pcs.spec.get("replicas"), 1)):
        yield from (f"{tree.ref.name}-{index}-{clique.get('name')}" for clique in tree.pcs.standalone)
        for config in tree.pcs.group_configs:
            name = f"{tree.ref.name}-{index}-{config.get('name')}"
            spec = groups[name].spec if name in groups else config
            for replica in range(integer(spec.get("replicas"), 1)):
                yield from (f"{name}-{replica}-{clique}" for clique in config.get("cliqueNames") or ())


def _lost_in(clique: PodClique, before: tuple[str, ...]) -> Iterator[Problem]:
    present = {pod_id(pod.ref.uid) for pod in clique.pods if not pod.terminating}
    lost = [uid for uid in before if uid not in present]
    wanted = integer(clique.spec.get("replicas"), len(before))
    scaled_in = max(0, len(before) - wanted)
    if len(lost) > scaled_in:
        message = f"{clique.ref} lacks {len(lost) - scaled_in} of its earlier pods ({len(before)})"
        yield Problem(clique.ref, None, message, settles=False)
    elif lost:
        message = f"{clique.ref} was scaled in from {len(before)} to {wanted}"
        yield Problem(clique.ref, "/spec/replicas", message, owner=True)
