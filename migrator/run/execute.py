"""Sending patches, tree by tree, bottom-up.

A patch tests the object's uid and the old value of each field, then replaces it; the server re-applies the tests
on the fresh object, so busy pods do not conflict. What a failed test or a lost reply means is found out by
reading, never by guessing. Several trees may be under way at once; within a tree one rank is finished before the
next begins, and the PodCliqueSet's own status comes last.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from migrator import resources
from migrator.errors import Conflict, LostReply, MigratorError, NotFound, TestFailed
from migrator.grove.model import PodCliqueSet, Ref
from migrator.planning.patches import RESOURCES, Batch, Patch, value_at
from migrator.store import Store

#: How often one object is read again and retried before its tree is given up.
MAX_ATTEMPTS: Final = 5


class TreeConflict(MigratorError):
    """A value of the tree is neither old nor new any more: somebody else is writing to it."""

    exit_code = 4
    code = "lost-race"


@dataclass(slots=True)
class Outcome:
    """What became of one tree; ``written`` names what the server may have changed."""

    batch: Batch
    written: set[tuple[Ref, str]] = field(default_factory=set)
    error: MigratorError | None = None
    complete: bool = False

    def note(self, patch: Patch) -> None:
        """The server may have applied this patch."""
        self.written.add((patch.ref, patch.subresource))


class Executor:
    """Sends patches, a few at a time.

    ``check`` is called before every patch and raises when we may not write any more (it must be local and
    cheap). ``stopping`` is asked before a tree is begun. ``doubtful`` tells whether a reply was lost, so that a write
    may still be under way.
    """

    def __init__(
        self,
        store: Store,
        *,
        check: Callable[[], object],
        stopping: Callable[[], bool],
        workers: int,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._store = store
        self._check = check
        self._stopping = stopping
        self._workers = workers
        self._log = log
        self.doubtful = False

    def run(self, batches: Sequence[Batch], *, keep_going: bool = False) -> list[Outcome]:
        """Carry out batches; returns an outcome for each that was begun, in their order.

        The first error stops the begin of further trees and of further ranks, unless it is a
        :class:`TreeConflict` and ``keep_going`` is set: then only that tree stops.
        """
        schedule = _Schedule(batches, stopping=self._stopping, keep_going=keep_going)
        with ThreadPoolExecutor(self._workers, thread_name_prefix="patch") as pool:
            workers = [pool.submit(self._work, schedule) for _ in range(self._workers)]
            try:
                for worker in workers:
                    worker.result()
            finally:
                schedule.abandon()  # of no effect at the end; after a bug or a second signal the others stop too
        return schedule.outcomes()

    def _work(self, schedule: _Schedule) -> None:
        """Send one patch after the other for as long as there are any. An error that is not ours is a bug."""
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
                ref = outcome.batch.ref
                self._log.info(
                    "tree_written", namespace=ref.namespace, name=ref.name, writes=len(outcome.written), **self._mark()
                )

    def _mark(self) -> dict[str, str]:
        """What tells a dry run's events from those of a run."""
        return {} if self._store.dry_run == "none" else {"dry_run": self._store.dry_run.value}

    def _apply(self, patch: Patch, outcome: Outcome) -> None:
        """Send one patch until it is certain that it took effect, or that it must not."""
        pcs = outcome.batch.pcs if patch.ref.kind == resources.POD_CLIQUE_SETS.kind else None
        if outcome.error is not None:
            return
        todo = patch
        for attempt in range(1, MAX_ATTEMPTS + 1):
            self._check()
            try:
                self._send(todo, pcs)
            except (TestFailed, Conflict) as error:
                left = self._settle(todo, pcs, error)
            except LostReply as error:
                outcome.note(patch)
                self.doubtful = True
                left = self._settle(todo, pcs, error)
            except NotFound:
                self._log.warning("object_gone", **_names(patch.ref))
                return
            else:
                outcome.note(patch)
                self._log.info("patched", **_names(patch.ref), **_values(todo), attempt=attempt, **self._mark())
                return
            if left is None:
                return
            if not left.changes:
                outcome.note(patch)
                return
            todo = left
        raise TreeConflict(
            f"{patch.ref}: {todo.changes[0].field} could not be replaced in {MAX_ATTEMPTS} attempts although its "
            "value is the expected one; somebody is writing to it all the time"
        )

    def _send(self, patch: Patch, pcs: PodCliqueSet | None) -> None:
        resource = RESOURCES[patch.ref.kind]
        self._store.patch(resource, patch.ref.namespace, patch.ref.name, patch.ops(pcs), subresource=patch.subresource)

    def _settle(self, patch: Patch, pcs: PodCliqueSet | None, cause: MigratorError) -> Patch | None:
        """Read the object again: what is left of the patch, or ``None`` if the object is gone."""
        self._log.info("reread", **_names(patch.ref), cause=cause.code)
        try:
            found = self._store.get(RESOURCES[patch.ref.kind], patch.ref.namespace, patch.ref.name)
        except NotFound:
            return None
        if found.get("metadata", {}).get("uid") != patch.ref.uid:
            return None  # an object of the same name: it was never ours to change
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

    def __init__(self, batches: Sequence[Batch], *, stopping: Callable[[], bool], keep_going: bool) -> None:
        self._batches = batches
        self._stopping = stopping
        self._keep_going = keep_going
        self._waiting = deque(batches)
        self._outcomes: dict[Ref, Outcome] = {}
        self._ranks: dict[Ref, deque[tuple[Patch, ...]]] = {}
        self._open: dict[Ref, int] = {}
        self._ready: deque[tuple[Patch, Outcome]] = deque()
        self._sending = 0
        self._halted = False
        self._changed = threading.Condition()  # guards everything above

    def outcomes(self) -> list[Outcome]:
        """What became of every batch that was begun, in the order given."""
        return [self._outcomes[batch.ref] for batch in self._batches if batch.ref in self._outcomes]

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
            self._open[outcome.batch.ref] -= 1
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
        batch = self._waiting.popleft()
        outcome = self._outcomes[batch.ref] = Outcome(batch)
        ranks: dict[int, list[Patch]] = {}
        for patch in batch.patches:
            ranks.setdefault(patch.rank, []).append(patch)
        self._ranks[batch.ref] = deque(tuple(patches) for patches in ranks.values())
        self._open[batch.ref] = 0
        self._advance(outcome)
        return True

    def _advance(self, outcome: Outcome) -> bool:
        """Make the tree's next rank ready once the last is finished; true when that was the last."""
        ref = outcome.batch.ref
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


def _names(ref: Ref) -> dict[str, str]:
    return {"kind": ref.kind, "namespace": ref.namespace, "name": ref.name}


def _values(patch: Patch) -> dict[str, object]:
    return {
        "subresource": patch.subresource,
        "changes": [{"field": c.field, "old": c.old, "new": c.new} for c in patch.changes],
    }
