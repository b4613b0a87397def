"""From changes to patches: compare-and-swap on the hash itself, tree by tree, bottom-up.

A patch tests the object's uid and the old value of each field, then replaces it; the server re-applies the tests
on the fresh object, so busy pods do not conflict. What a failed test or a lost reply means is found out by
reading, never by guessing. Several trees may be under way at once; within a tree one rank is finished before the
next begins, and the PodCliqueSet's own status comes last.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

import structlog

from migrator import resources
from migrator.errors import Conflict, LostReply, MigratorError, NotFound, TestFailed
from migrator.exact_json import JSONObject
from migrator.grove.model import Change, Place, PodCliqueSet, Ref, TreePlan
from migrator.resources import Op, Resource
from migrator.store import Store

#: How often one object is read again and retried before its tree is given up.
MAX_ATTEMPTS: Final = 5

_RANKS: Final = {
    Place.POD_LABEL: 0,
    Place.CLIQUE_LABEL: 1,
    Place.CLIQUE_TEMPLATE: 2,
    Place.CLIQUE_GENERATION: 2,
    Place.CLIQUE_PROGRESS: 2,
    Place.GROUP_GENERATION: 3,
    Place.GROUP_PROGRESS: 3,
    Place.GANG_MAP_ENTRY: 4,
    Place.GANG_LABEL: 5,
    Place.SET_GENERATION: 6,
}

#: The kinds that hold hashes, by their names.
RESOURCES: Final[Mapping[str, Resource]] = {
    resource.kind: resource
    for resource in (
        resources.PODS,
        resources.POD_CLIQUES,
        resources.POD_CLIQUE_SCALING_GROUPS,
        resources.POD_GANG_MAPS,
        resources.POD_GANGS,
        resources.POD_CLIQUE_SETS,
    )
}


class TreeConflict(MigratorError):
    """A value of the tree is neither old nor new any more: somebody else is writing to it."""

    exit_code = 4
    code = "lost-race"


@dataclass(frozen=True, slots=True)
class Patch:
    """One request: all changes of one object in one subresource. ``rank`` orders it within its tree."""

    ref: Ref
    subresource: str
    changes: tuple[Change, ...]
    rank: int

    def ops(self, pcs: PodCliqueSet | None) -> tuple[Op, ...]:
        """Tests first, then the replacements.

        With ``pcs`` the set's generation and template are tested as read, so that a spec which moved under us
        cannot be blessed.
        """
        ops = [Op("test", "/metadata/uid", self.ref.uid)]
        if pcs is not None:
            ops += [
                Op("test", "/metadata/generation", pcs.generation),
                Op("test", "/spec/template", pcs.spec.get("template")),
            ]
        for change in self.changes:
            if change.identity is not None:
                ops.append(Op("test", *change.identity))
            ops.append(Op("test", change.field, change.old))
        ops += [Op("replace", change.field, change.new) for change in self.changes]
        return tuple(ops)


@dataclass(frozen=True, slots=True)
class Job:
    """One tree's patches. ``pcs`` is given where its spec must not have moved (migrating, not reverting)."""

    ref: Ref
    patches: tuple[Patch, ...]
    pcs: PodCliqueSet | None = None


@dataclass(slots=True)
class Outcome:
    """What became of one tree. ``written`` are the patches that the server may have applied, by object."""

    job: Job
    written: dict[tuple[Ref, str], Patch] = field(default_factory=dict)
    gone: list[Ref] = field(default_factory=list)
    error: MigratorError | None = None
    complete: bool = False

    @property
    def untouched(self) -> bool:
        """Whether nothing can have been written."""
        return not self.written

    @property
    def writes(self) -> int:
        """How many patches the server may have applied."""
        return len(self.written)

    @property
    def undoable(self) -> Job:
        """The job as far as it was carried out: what was never written need not, and perhaps cannot, be put back."""
        return replace(self.job, patches=tuple(p for p in self.job.patches if (p.ref, p.subresource) in self.written))

    def note(self, patch: Patch) -> None:
        """The server may have applied this patch."""
        self.written[patch.ref, patch.subresource] = patch


def job_of(plan: TreePlan) -> Job:
    """The patches that carry out a tree's plan."""
    return Job(plan.tree.ref, patches_of(plan.changes), plan.tree.pcs)


def reverse(job: Job) -> Job:
    """The patches that undo a job, top-down: the commit record goes back first."""
    undone = tuple(
        replace(patch, changes=tuple(replace(c, old=c.new, new=c.old) for c in patch.changes), rank=-patch.rank)
        for patch in reversed(job.patches)
    )
    return Job(job.ref, undone)


def top_down(job: Job) -> Job:
    """A job whose patches are revert changes already: the same order as :func:`reverse` gives."""
    ordered = tuple(replace(patch, rank=-patch.rank) for patch in reversed(job.patches))
    return Job(job.ref, ordered)


def patches_of(changes: Iterable[Change]) -> tuple[Patch, ...]:
    """Group changes into one patch per object and subresource, in the order of their ranks."""
    grouped: dict[tuple[Ref, str], list[Change]] = {}
    for change in changes:
        grouped.setdefault((change.ref, change.subresource), []).append(change)
    patches = [
        Patch(ref, subresource, tuple(group), _RANKS[group[0].place]) for (ref, subresource), group in grouped.items()
    ]
    return tuple(sorted(patches, key=lambda patch: patch.rank))


class Executor:
    """Sends patches, a few at a time.

    ``check`` is called before every patch and raises when we may not write any more (it must be local and
    cheap). ``stopping`` is asked before a tree is begun.
    """

    def __init__(
        self,
        store: Store,
        *,
        check: Callable[[], None],
        stopping: Callable[[], bool],
        workers: int,
        log: structlog.typing.FilteringBoundLogger,
        on_patch: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._check = check
        self._stopping = stopping
        self._workers = workers
        self._log = log
        self._on_patch = on_patch

    def run(self, jobs: Sequence[Job], *, keep_going: bool = False) -> list[Outcome]:
        """Carry out jobs; returns an outcome for each that was begun, in the order of ``jobs``.

        The first error stops the begin of further trees and of further ranks, unless it is a
        :class:`TreeConflict` and ``keep_going`` is set: then only that tree stops.
        """
        schedule = _Schedule(jobs, stopping=self._stopping, keep_going=keep_going)
        with ThreadPoolExecutor(self._workers, thread_name_prefix="patch") as pool:
            workers = [pool.submit(self._work, schedule) for _ in range(self._workers)]
            try:
                for worker in workers:
                    worker.result()
            finally:
                schedule.abandon()  # of no effect at the end; after a bug or a second signal the others stop too
        return schedule.outcomes()

    def _work(self, schedule: _Schedule) -> None:
        """Send one patch after the other for as long as there are any. An error that is none of ours is a bug."""
        while (found := schedule.take()) is not None:
            patch, outcome = found
            error = None
            try:
                self._apply(patch, outcome)
            except MigratorError as caught:
                error = caught
            except BaseException:
                schedule.abandon()
                raise
            if schedule.finish(outcome, error):
                ref = outcome.job.ref
                self._log.info("tree_written", namespace=ref.namespace, name=ref.name, writes=outcome.writes)

    def _apply(self, patch: Patch, outcome: Outcome) -> None:
        """Send one patch until it is certain that it took effect, or that it must not."""
        pcs = outcome.job.pcs if patch.ref.kind == resources.POD_CLIQUE_SETS.kind else None
        if outcome.error is not None:
            return
        todo = patch
        for attempt in range(1, MAX_ATTEMPTS + 1):
            self._check()
            try:
                self._send(todo, pcs)
            except (TestFailed, Conflict) as error:
                left = self._settle(todo, pcs, outcome, error)
            except LostReply as error:
                outcome.note(patch)
                left = self._settle(todo, pcs, outcome, error)
            except NotFound:
                outcome.gone.append(patch.ref)
                self._log.warning("object_gone", **_names(patch.ref))
                return
            else:
                outcome.note(patch)
                self._on_patch()
                self._log.info("patched", **_names(patch.ref), **_values(todo), attempt=attempt)
                return
            if left is None:
                return
            if not left.changes:
                outcome.note(patch)
                self._on_patch()
                return
            todo = left
        raise TreeConflict(
            f"{patch.ref}: {todo.changes[0].field} could not be replaced in {MAX_ATTEMPTS} attempts although its "
            "value is the expected one; somebody is writing to it all the time"
        )

    def _send(self, patch: Patch, pcs: PodCliqueSet | None) -> None:
        resource = RESOURCES[patch.ref.kind]
        self._store.patch(resource, patch.ref.namespace, patch.ref.name, patch.ops(pcs), subresource=patch.subresource)

    def _settle(self, patch: Patch, pcs: PodCliqueSet | None, outcome: Outcome, cause: MigratorError) -> Patch | None:
        """Read the object again: what is left of the patch, or ``None`` if the object is gone."""
        self._log.info("reread", **_names(patch.ref), cause=cause.code)
        try:
            found = self._store.get(RESOURCES[patch.ref.kind], patch.ref.namespace, patch.ref.name)
        except NotFound:
            outcome.gone.append(patch.ref)
            return None
        if found.get("metadata", {}).get("uid") != patch.ref.uid:
            outcome.gone.append(patch.ref)  # an object of the same name: it was never ours to change
            return None
        left = []
        for change in patch.changes:
            value = value_at(found, change.field)
            identity = change.identity is None or value_at(found, change.identity[0]) == change.identity[1]
            if value == change.new and identity:
                continue
            if value != change.old or not identity:
                raise TreeConflict(
                    f"{patch.ref}: {change.field} is {value!r} now, neither {change.old} nor {change.new}: "
                    "somebody else is writing to it"
                )
            left.append(change)
        if (
            left
            and pcs is not None
            and (
                value_at(found, "/metadata/generation") != pcs.generation
                or value_at(found, "/spec/template") != pcs.spec.get("template")
            )
        ):
            raise TreeConflict(
                f"{patch.ref}: its spec changed during the run (generation {pcs.generation} when it was read, "
                f"{value_at(found, '/metadata/generation')} now)"
            )
        return replace(patch, changes=tuple(left))


class _Schedule:
    """Which patch may be sent next: trees in order, and within a tree one rank after the other.

    Workers share it. A further tree is begun only when a worker would have nothing to do otherwise, so that as few
    as possible are half-written at any time.
    """

    def __init__(self, jobs: Sequence[Job], *, stopping: Callable[[], bool], keep_going: bool) -> None:
        self._jobs = jobs
        self._stopping = stopping
        self._keep_going = keep_going
        self._waiting = deque(jobs)
        self._outcomes: dict[Ref, Outcome] = {}
        self._ranks: dict[Ref, deque[tuple[Patch, ...]]] = {}
        self._open: dict[Ref, int] = {}
        self._ready: deque[tuple[Patch, Outcome]] = deque()
        self._sending = 0
        self._halted = False
        self._changed = threading.Condition()  # guards everything above

    def outcomes(self) -> list[Outcome]:
        """What became of every job that was begun, in the order given."""
        return [self._outcomes[job.ref] for job in self._jobs if job.ref in self._outcomes]

    def take(self) -> tuple[Patch, Outcome] | None:
        """The next patch, waiting for one; ``None`` when there is none and will be none."""
        with self._changed:
            while not self._ready:
                if self._begin_next():
                    continue
                if self._halted or not self._sending:
                    return None
                self._changed.wait()
            self._sending += 1
            return self._ready.popleft()

    def finish(self, outcome: Outcome, error: MigratorError | None) -> bool:
        """Take note of a patch's end; true when it was the last of its tree."""
        with self._changed:
            self._sending -= 1
            self._open[outcome.job.ref] -= 1
            if error is not None:
                outcome.error = outcome.error or error
                if not (self._keep_going and isinstance(error, TreeConflict)):
                    self._halted = True
            complete = self._advance(outcome)
            if self._halted or not self._sending:  # whoever waits must see that nothing will come
                self._changed.notify_all()
            return complete

    def abandon(self) -> None:
        """Send nothing more at all, but for what is under way."""
        with self._changed:
            self._halted = True
            self._ready.clear()
            self._changed.notify_all()

    def _begin_next(self) -> bool:
        """Begin the next tree; false if there is none, or none may be begun."""
        if self._halted or not self._waiting or self._stopping():
            return False
        job = self._waiting.popleft()
        outcome = self._outcomes[job.ref] = Outcome(job)
        ranks: dict[int, list[Patch]] = {}
        for patch in job.patches:
            ranks.setdefault(patch.rank, []).append(patch)
        self._ranks[job.ref] = deque(tuple(patches) for patches in ranks.values())
        self._open[job.ref] = 0
        self._advance(outcome)
        return True

    def _advance(self, outcome: Outcome) -> bool:
        """Make the tree's next rank ready once the last is finished; true when that was the last."""
        ref = outcome.job.ref
        if self._open[ref] or outcome.error is not None or self._halted:
            return False
        if not self._ranks[ref]:
            outcome.complete = True
            return True
        patches = self._ranks[ref].popleft()
        self._open[ref] = len(patches)
        self._ready.extend((patch, outcome) for patch in patches)
        self._changed.notify(len(patches))
        return False


def value_at(document: JSONObject, pointer: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value at a JSON Pointer, or ``None`` where there is none."""
    value: Any = document
    for raw in pointer.split("/")[1:]:
        token = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = value.get(token)
        elif isinstance(value, Sequence) and not isinstance(value, str) and token.isdigit() and int(token) < len(value):
            value = value[int(token)]
        else:
            return None
    return value


def _names(ref: Ref) -> dict[str, str]:
    return {"kind": ref.kind, "namespace": ref.namespace, "name": ref.name}


def _values(patch: Patch) -> dict[str, object]:
    return {
        "subresource": patch.subresource,
        "changes": [{"field": c.field, "old": c.old, "new": c.new} for c in patch.changes],
    }
