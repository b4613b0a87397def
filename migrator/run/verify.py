"""Reading back: one coherent snapshot per attempt, from which everything that is said of it derives.

Any error of the API fails closed: what cannot be read is not verified.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from migrator.errors import (
    ClusterError,
    DecodeError,
    InputError,
    NotAuthorised,
    NotFound,
    UsageError,
    VerificationFailed,
)
from migrator.exact_json import JSONObject
from migrator.grove.model import Pod, PodClique, PodCliqueScalingGroup, PodCliqueSet, Ref, SetHashes, Snapshot, Tree
from migrator.grove.places import stored_hashes
from migrator.hashing import podcliqueset
from migrator.hashing.schemes import Scheme
from migrator.planning.baseline import update_started
from migrator.planning.detect import Pair, Verdict, detect
from migrator.planning.options import PlanOptions, direction
from migrator.planning.tables import CliqueBaseline, ReplicaBaseline, Table
from migrator.resources import EVENTS
from migrator.run import target_image
from migrator.run.context import Context
from migrator.run.execute import Job
from migrator.run.record import Recorded, Recorder
from migrator.run.snapshot import take
from migrator.store import Store

#: How many problems are named in one sentence; all of them are in the result.
_NAMED: Final = 3

#: Events of a pod's life, not of its end.
_ORDINARY: Final = frozenset({"Scheduled", "Pulling", "Pulled", "Created", "Started"})


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it should be. ``settles`` tells whether waiting may mend it.

    ``lost_pods`` marks pods of ``ref`` that are missing, of which Events may tell more.
    """

    ref: Ref
    field: str | None
    message: str
    settles: bool = True
    lost_pods: bool = False


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What ``verify`` is asked. ``settle`` and ``interval`` are in seconds."""

    target: str
    settle: float = 0.0
    interval: float = 2.0
    after_upgrade: bool = False
    target_digests: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The last snapshot's verdict, and how many attempts it took."""

    problems: tuple[Problem, ...]
    attempts: int
    trees: int
    stored: int


def verify(store: Store, options: VerifyOptions, context: Context, *, recorder: Recorder | None = None) -> VerifyResult:
    """Check that every stored hash is the target's, or an OnDelete leftover; until it is, or time is up.

    With ``after_upgrade`` also that no update has begun since the migration that ``recorder`` tells of, that no
    ``updatedReplicas`` has fallen, and that no pod of before is missing; then the record has served and goes. Raises
    :class:`~migrator.errors.VerificationFailed` with the problems of the last snapshot.
    """
    recorded = recorder.load() if recorder is not None else Recorded()
    if options.after_upgrade and not recorded.tables:
        raise UsageError(
            "--after-upgrade compares with the record of a run, and there is none in the operator's namespace"
        )
    deadline = context.clock() + options.settle
    attempts = 0
    while True:
        attempts += 1
        snapshot = take(store)
        problems = tuple(problems_of(snapshot, options, recorded.tables))
        if options.after_upgrade and options.target_digests:
            others = target_image.others(store, options.target_digests)
            problems += tuple(Problem(ref, None, message) for ref, message in others)
        context.log.info("verified", attempt=attempts, problems=len(problems), trees=len(snapshot.trees))
        stuck = any(not problem.settles for problem in problems)
        if not problems or stuck or context.clock() + options.interval > deadline:
            break
        context.sleep(options.interval)
    stored = sum(1 for tree in snapshot.trees for _ in stored_hashes(tree))
    if problems:
        raise _failed(_with_events(store, problems, snapshot), attempts)
    if recorder is not None:
        _forget(recorder, context)
    return VerifyResult(problems, attempts, len(snapshot.trees), stored)


def problems_of(snapshot: Snapshot, options: VerifyOptions, tables: Mapping[str, Table]) -> Iterator[Problem]:
    """Everything that is wrong with one snapshot."""
    way = direction(PlanOptions(target=options.target))
    for tree in snapshot.trees:
        if tree.pcs.terminating:
            continue
        yield from _values(tree, way.candidates, way.target_of)
        table = tables.get(tree.ref.uid)
        if options.after_upgrade and table is not None:
            yield from _since(tree, table)
    if options.after_upgrade:
        present = {tree.ref.uid for tree in snapshot.trees}
        for table in tables.values():
            if table.uid not in present:
                ref = Ref("PodCliqueSet", table.namespace, table.name, table.uid)
                yield Problem(ref, None, f"{ref} was there before the upgrade and is gone", settles=False)


def check_written(jobs: Iterable[Job], before: Iterable[Tree], after: Snapshot) -> tuple[list[Problem], list[Problem]]:
    """Compare a run's own work with one fresh snapshot.

    Returns what is wrong (a planned value that is not there) and what others changed meanwhile (spec, labels,
    conditions, pods that are gone), which is no fault of the run but worth knowing.
    """
    now = {tree.ref.uid: tree for tree in after.trees}
    wrong: list[Problem] = []
    for job in jobs:
        tree = now.get(job.ref.uid)
        if tree is None:
            continue
        values = {(item.ref.uid, item.field): item.value for item in stored_hashes(tree)}
        uids = set(_uids(tree))
        for patch in job.patches:
            for change in patch.changes:
                value = values.get((change.ref.uid, change.field))
                if value != change.new and change.ref.uid in uids:
                    wrong.append(
                        Problem(
                            change.ref,
                            change.field,
                            f"{change.ref}: {change.field} is {value}, not {change.new} as it was written",
                        )
                    )
    noticed: list[Problem] = []
    for old in before:
        tree = now.get(old.ref.uid)
        if tree is None:
            noticed.append(Problem(old.ref, None, f"{old.ref} was deleted during the run"))
        else:
            noticed += _differences(old, tree)
    return wrong, noticed


def _values(tree: Tree, candidates: tuple[Scheme, ...], target_of: Callable[[Scheme], Scheme]) -> Iterator[Problem]:
    known: dict[Scheme, SetHashes] = {}
    hasher = podcliqueset.SetHasher({"spec": tree.pcs.spec})

    def hashes(scheme: Scheme) -> SetHashes:
        if scheme not in known:
            try:
                computed = hasher.under(scheme)
            except DecodeError as error:
                raise InputError(f"{tree.ref}: {error}") from error
            known[scheme] = SetHashes(computed.generation_hash, computed.pod_template_hashes)
        return known[scheme]

    stored = tuple(stored_hashes(tree))
    if not stored:
        return
    found = detect(stored, on_delete=tree.pcs.on_delete, candidates=candidates, target_of=target_of, hashes=hashes)
    pair = Pair(hashes(found.target), hashes(found.target), tree.pcs.on_delete)
    for item in stored:
        if pair.verdict(item) not in {Verdict.TARGET, Verdict.LEFTOVER}:
            yield Problem(
                item.ref,
                item.field,
                f"{item.ref}: {item.field} is {item.value}, not {found.target.name}'s {pair.target.of(item)}",
            )


def _since(tree: Tree, table: Table) -> Iterator[Problem]:
    """What happened to a tree after its migration: updates begun, replicas fallen behind, pods lost."""
    if not tree.pcs.on_delete:  # there the operator may write progress without touching a pod
        yield from _replicas(tree.pcs, table.set_baseline)
        for group in tree.scaling_groups:
            if group.ref.name in table.group_baseline:
                yield from _replicas(group, table.group_baseline[group.ref.name])
        for pod_clique in tree.pod_cliques:
            if pod_clique.ref.name in table.baseline:
                before = table.baseline[pod_clique.ref.name]
                yield from _replicas(pod_clique, before, may_end=pod_clique.standalone)
    owners = {pod_clique.ref.name: pod_clique for pod_clique in tree.pod_cliques}
    for name, before in table.baseline.items():
        owner = owners.get(name)
        pods = owner.pods if owner is not None else ()
        kept = sum(1 for pod in pods if not pod.terminating and pod.created <= before.newest)
        if kept < before.pods:
            ref = owner.ref if owner is not None else Ref("PodClique", tree.ref.namespace, name)
            message = f"{ref}: {before.pods - kept} of the {before.pods} pods of before are missing"
            yield Problem(ref, None, message, settles=False, lost_pods=True)


def _replicas(
    item: PodCliqueSet | PodClique | PodCliqueScalingGroup,
    before: CliqueBaseline | ReplicaBaseline,
    *,
    may_end: bool = False,
) -> Iterator[Problem]:
    """What an object has lost. ``may_end``: an update that was begun is nothing to worry about once it has ended.

    Operators of alpha.12-rc1 begin one of every standalone PodClique without ``updateProgress``, though all hashes are
    right (``podclique/reconcilespec.go:shouldResetOrTriggerUpdate``, until Grove PR 757). It ends by itself; that it
    had nothing to replace is what the other checks prove. Where pods are to be replaced, the set's update begins first.
    """
    started = update_started(item.status)
    if started is not None and started != before.update_started:
        ended = (item.status.get("updateProgress") or {}).get("updateEndedAt")
        if not (may_end and ended):
            yield Problem(
                item.ref,
                "/status/updateProgress",
                f"{item.ref}: an update began at {started}, after the migration: the operator found something to "
                "change",
                settles=may_end,
            )
    updated, replicas = item.status.get("updatedReplicas") or 0, item.status.get("replicas") or 0
    was_updated, was_replicas = before.updated_replicas or 0, before.replicas or 0
    if updated < was_updated or (was_updated == was_replicas and updated != replicas):
        yield Problem(
            item.ref,
            "/status/updatedReplicas",
            f"{item.ref}: updatedReplicas is {updated} of {replicas}, before the upgrade it was {was_updated} of "
            f"{was_replicas}",
        )


def _differences(old: Tree, new: Tree) -> Iterator[Problem]:
    before = {item.ref.uid: item for item in _objects(old)}
    after = {item.ref.uid: item for item in _objects(new)}
    for uid, item in before.items():
        found = after.get(uid)
        if found is None:
            yield Problem(item.ref, None, f"{item.ref} was deleted during the run")
        elif isinstance(item, Pod) and isinstance(found, Pod):
            if item.other_labels != found.other_labels:
                yield Problem(item.ref, "/metadata/labels", f"{item.ref}: another label changed during the run")
        elif not isinstance(item, Pod) and not isinstance(found, Pod):
            if item.generation != found.generation:
                yield Problem(item.ref, "/spec", f"{item.ref}: the spec changed during the run")
            if item.status.get("conditions") != found.status.get("conditions"):
                yield Problem(item.ref, "/status/conditions", f"{item.ref}: a condition changed during the run")


def _objects(tree: Tree) -> Iterator[PodCliqueSet | PodClique | PodCliqueScalingGroup | Pod]:
    """The objects that a run compares before and after; PodGangMaps are not among them, their spec is written to."""
    yield tree.pcs
    yield from tree.scaling_groups
    for pod_clique in tree.pod_cliques:
        yield pod_clique
        yield from pod_clique.pods


def _uids(tree: Tree) -> Iterator[str]:
    yield from (item.ref.uid for item in _objects(tree))
    yield from (gang_map.ref.uid for gang_map in tree.pod_gang_maps)
    yield from (gang.ref.uid for gang in tree.pod_gangs)


def _forget(recorder: Recorder, context: Context) -> None:
    try:
        recorder.delete_all()
    except ClusterError as error:  # verified all the same
        context.log.warning("record_not_removed", error=str(error))


def _with_events(store: Store, problems: Iterable[Problem], snapshot: Snapshot) -> tuple[Problem, ...]:
    """Say of missing pods what Events say of their end: an eviction or a lost node is no deletion by the operator.

    A pod that is missing is known by its Events only; it is the PodClique's if its name is the PodClique's and a suffix
    that the API server made (``generateName``), which holds no dash.
    """
    present = {(pod.ref.namespace, pod.ref.name) for tree in snapshot.trees for c in tree.pod_cliques for pod in c.pods}
    reasons: dict[str, list[tuple[str, str]]] = {}
    explained = []
    for problem in problems:
        namespace = problem.ref.namespace
        if problem.lost_pods and store.is_cluster:
            if namespace not in reasons:
                reasons[namespace] = _pod_events(store, namespace)
            found = Counter(
                why
                for pod, why in reasons[namespace]
                if pod.rpartition("-")[0] == problem.ref.name and (namespace, pod) not in present
            )
            told = ", ".join(f"{why} ({number})" for why, number in found.most_common(_NAMED))
            explained.append(replace(problem, message=f"{problem.message}; Events of its pods: {told or 'none'}"))
        else:
            explained.append(problem)
    return tuple(explained)


def _pod_events(store: Store, namespace: str) -> list[tuple[str, str]]:
    """(pod, reason) of the Events of a namespace that speak of a pod; none where they may not be read."""

    def project(raw: JSONObject) -> tuple[str, str]:
        regarding = raw.get("regarding") or {}
        return (str(regarding.get("name")) if regarding.get("kind") == "Pod" else "", str(raw.get("reason")))

    try:
        listed = store.list(EVENTS, project, namespace=namespace).items
    except (NotAuthorised, NotFound):
        return []
    return [(pod, why) for pod, why in listed if pod and why not in _ORDINARY]


def _failed(problems: tuple[Problem, ...], attempts: int) -> VerificationFailed:
    named = "; ".join(problem.message for problem in problems[:_NAMED])
    more = f"; and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
    return VerificationFailed(f"verification failed after {attempts} snapshots: {named}{more}", problems)
