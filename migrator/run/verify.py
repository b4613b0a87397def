"""Reading back: one coherent snapshot per attempt, from which everything that is said of it derives.

After an upgrade what is there is compared with what should be there now: what owners did since, such as an edit, a
scale-in or a deletion, is reported and does not fail. Any error of the API fails closed: what cannot be read is not
verified.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from migrator.errors import (
    LostRace,
    MigratorError,
    NotAuthorised,
    NotFound,
    Refused,
    UsageError,
    VerificationFailed,
)
from migrator.exact_json import JSONObject
from migrator.grove.model import Ref, Snapshot
from migrator.grove.places import stored_hashes
from migrator.planning.images import is_target, other_digest
from migrator.planning.options import AUTO, Direction, PlanOptions, direction
from migrator.planning.planner import is_of
from migrator.planning.problems import Problem, problems_of
from migrator.planning.revert import make_revert
from migrator.planning.tables import Baseline, Table
from migrator.resources import EVENTS, POD_CLIQUE_SETS
from migrator.run import operator
from migrator.run.context import Context
from migrator.run.decisions import Lease
from migrator.run.leases import OWN_LEASE, Leases
from migrator.run.observation import left_of
from migrator.run.operator import Flags
from migrator.run.record import Recorded, Recorder
from migrator.run.snapshot import take
from migrator.store import Store

#: How many problems are named in one sentence; all of them are in the result.
_NAMED: Final = 3

#: Events of a pod's life, not of its end.
_ORDINARY: Final = frozenset({"Scheduled", "Pulling", "Pulled", "Created", "Started"})


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What ``verify`` is asked; ``source`` and ``target`` as in a plan. ``settle`` and ``interval`` are in seconds."""

    target: str
    source: str = AUTO
    settle: float = 0.0
    interval: float = 2.0
    after_upgrade: bool = False
    flags: Flags = field(default_factory=Flags)
    target_image: str | None = None
    target_digests: frozenset[str] = frozenset()

    @property
    def way(self) -> Direction:
        """The schemes that are meant."""
        return direction(PlanOptions(source=self.source, target=self.target))


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The last snapshot's verdict, and how many attempts it took. ``noticed`` is what owners did since.

    ``compared``: a record had the pods and updates of before.
    """

    problems: tuple[Problem, ...]
    attempts: int
    trees: int
    stored: int
    compared: bool
    noticed: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class _Known:
    """What was recorded, and where."""

    home: str | None = None
    recorded: Recorded = field(default_factory=Recorded)
    tables: Mapping[str, Table] = field(default_factory=dict)
    baselines: Mapping[str, Baseline] = field(default_factory=dict)


def verify(store: Store, options: VerifyOptions, context: Context, *, namespace: str | None = None) -> VerifyResult:
    """Check that every stored hash is the target's, or an OnDelete leftover; until it is, or time is up.

    With ``after_upgrade`` also that an operator of the target runs and, by the record, that no update has begun since
    the migration, that no ``updatedReplicas`` lags behind, and that no pod of before is missing; then the record has
    served and goes. Without a record only what can be seen is checked. ``namespace`` is where the record is if no
    operator is found. Raises :class:`~migrator.errors.VerificationFailed` with the problems of the last snapshot, and
    :class:`~migrator.errors.UsageError` if the record is of another migration.
    """
    known, way = _read(store, options, namespace), options.way
    if options.after_upgrade and not known.tables:
        _explain_no_tables(known, options, context)
    deadline = context.clock() + options.settle
    attempts = 0
    while True:
        attempts += 1
        snapshot = take(store)
        found = tuple(problems_of(snapshot, way, known.tables, known.baselines, after_upgrade=options.after_upgrade))
        if store.is_cluster and not snapshot.trees:
            found += tuple(_nothing_there(store, known.tables))
        if options.after_upgrade:
            found += tuple(_no_operator(store, options))
        problems = tuple(problem for problem in found if not problem.owner)
        context.log.info("verified", attempt=attempts, problems=len(problems), trees=len(snapshot.trees))
        stuck = any(not problem.settles for problem in problems)
        if not problems or stuck or context.clock() + options.interval > deadline:
            break
        context.sleep(options.interval)
    noticed = tuple(problem for problem in found if problem.owner)
    for problem in noticed:
        context.log.warning("changed_by_its_owner", object=str(problem.ref), what=problem.message)
    stored = sum(1 for tree in snapshot.trees for _ in stored_hashes(tree))
    if problems:
        raise _failed(_with_events(store, problems, snapshot), attempts)
    if options.after_upgrade and known.home is not None and known.recorded.run is not None:
        try:
            _forget(store, known.home, context)
        except MigratorError as error:  # verified all the same
            context.log.warning("record_not_removed", error=str(error))
    return VerifyResult(problems, attempts, len(snapshot.trees), stored, bool(known.tables), noticed)


def _explain_no_tables(known: _Known, options: VerifyOptions, context: Context) -> None:
    """A run with nothing to migrate leaves no record, nor does a verified one; another migration's is not ours."""
    run = known.recorded.run
    if run is not None:
        raise UsageError(
            f"the record in {known.home} is of a run from {run.source} to {run.target} and has no table for one from "
            f"{options.source} to {options.target}: verify that one, or give its record up with `verify --close`"
        )
    context.log.warning("no_record", consequence="pods and updates of before are unknown and not compared")


@dataclass(frozen=True, slots=True)
class Closing:
    """What ``verify --close`` gives up, and where the record is."""

    home: str
    gives_up: tuple[str, ...]


def closing(store: Store, options: VerifyOptions, *, namespace: str | None = None) -> Closing:
    """What is lost with the record; raises :class:`~migrator.errors.Refused` where sets are half-migrated.

    Raises :class:`~migrator.errors.UsageError` where there is no record.
    """
    known = _read(store, options, namespace)
    run = known.recorded.run
    if known.home is None or run is None:
        raise UsageError("there is no record of a run in the operator's namespace")
    trees = {tree.ref.uid: tree for tree in take(store).trees}
    written = []
    for table in known.recorded.tables:
        tree = trees.get(table.uid)
        if tree is None:
            continue
        way = PlanOptions(source=table.source, target=table.target)
        back = any(plan.changes for plan in make_revert(Snapshot((tree,)), way, tables={table.uid: table}).trees)
        if back and left_of(tree, table):
            raise Refused(
                f"{tree.ref} is half-migrated from {table.source} to {table.target}, and only the record can translate "
                f"it: run `run --to {table.target}` or `run --revert` first"
            )
        if back:
            written.append(table)
    gives_up = [f"the way back of {len(written)} PodCliqueSets ({run.source} to {run.target}, {run.started:%Y-%m-%d})"]
    if run.operator is not None:
        gives_up.append(f"what the operator was: {run.operator.replicas} replicas of {run.operator.image}")
    return Closing(known.home, tuple(gives_up))


def close(store: Store, closing: Closing, context: Context) -> None:
    """Remove the record; raises :class:`~migrator.errors.LostRace` while a run is at work."""
    _forget(store, closing.home, context)


def _forget(store: Store, home: str, context: Context) -> None:
    """Delete the record under our Lease: a run that is at work needs it."""
    leases = Leases(store, home, context)
    seen = leases.look(OWN_LEASE)
    if seen.standing is Lease.FREE:
        leases.take(OWN_LEASE)
        seen = leases.look(OWN_LEASE)
    if seen.standing is not Lease.OURS:
        raise LostRace(f"Lease {home}/{OWN_LEASE} is held by {seen.holder}: a migration is at work, or died just now")
    try:
        recorder = Recorder(store.within(leases.left), home)
        recorder.load()
        recorder.delete_all()
    finally:
        leases.let_go(park=False)


def _read(store: Store, options: VerifyOptions, namespace: str | None) -> _Known:
    """The record; without ``after_upgrade`` one that may not be read, or is not understood, is none."""
    if not store.is_cluster:
        return _Known()
    try:
        home = operator.find(store, options.flags).home or namespace
        if home is None:
            return _Known()
        recorder = Recorder(store, home)
        recorded = recorder.load()
        way = options.way
        tables = {uid: table for uid, table in recorded.by_set().items() if is_of(table, way)}
        return _Known(home, recorded, tables, recorder.baselines() if options.after_upgrade else {})
    except (NotAuthorised, Refused, UsageError):
        if options.after_upgrade:
            raise
        return _Known()


def _nothing_there(store: Store, tables: Mapping[str, Table]) -> Iterator[Problem]:
    """No set at all is proof of nothing where the record names some, or where Grove's CRDs are missing."""
    ref = Ref("PodCliqueSet", "", "")
    if tables:
        yield Problem(ref, None, f"there is no PodCliqueSet, and the record names {len(tables)}: is this the cluster?")
        return
    try:
        store.list(POD_CLIQUE_SETS, lambda _raw: None)
    except NotFound:
        yield Problem(ref, None, "Grove's CRDs are not installed: there is nothing to verify")


def _no_operator(store: Store, options: VerifyOptions) -> Iterator[Problem]:
    """Before an operator of the target has run there is no "after the upgrade"; nor if it is another build of it."""
    way = options.way
    installed = operator.find(store, options.flags).operator
    for pod in installed.pods if installed is not None else ():
        other = other_digest(pod.digests, options.target_digests)
        if other is not None:
            yield Problem(pod.ref, None, f"operator pod {pod.ref} ({pod.image}) {other}")
    live = [pod for pod in installed.pods if not pod.terminating] if installed is not None else []
    if any(_is_of(pod.image, way, options) for pod in live):
        return
    seen = f"{installed} has replicas {installed.replicas} of {installed.image}" if installed else "there is none"
    said = f"no operator of {options.target} runs ({seen}): upgrade first, or name its image with --target-image"
    yield Problem(Ref("Deployment", installed.namespace if installed else "", "grove-operator"), None, said)


def _is_of(image: str, way: Direction, options: VerifyOptions) -> bool:
    speak = (way.target_of(scheme) for scheme in way.candidates)
    return any(is_target(image, scheme, options.target_image, options.target_digests) for scheme in speak)


def _with_events(store: Store, problems: Iterable[Problem], snapshot: Snapshot) -> tuple[Problem, ...]:
    """Add to missing pods what Events say of their end: an eviction or a lost node is not a deletion by the operator.

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
