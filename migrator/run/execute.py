"""Sending patches, tree by tree, bottom-up.

A patch tests the object's uid and the old value of each field, then replaces it; the server re-applies the tests
on the fresh object, so busy pods do not conflict. What a failed test or a lost reply means is found out by
reading, never by guessing. Several trees may be under way at once; within a tree one rank is finished before the
next begins, and the PodCliqueSet's own status comes last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from migrator import resources
from migrator.errors import Conflict, LostReply, MigratorError, NotFound, TestFailed
from migrator.grove.model import PodCliqueSet, Ref
from migrator.planning.patches import RESOURCES, Batch, Patch, value_at
from migrator.store import Store, Write

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


@dataclass(frozen=True, slots=True)
class _Sending:
    """A patch under way: what is left of it to write, and how often it was sent, this time included."""

    patch: Patch
    outcome: Outcome
    todo: Patch
    attempt: int = 1

    @property
    def pcs(self) -> PodCliqueSet | None:
        """The set whose spec must not have moved, if the patch commits one."""
        return self.outcome.batch.pcs if self.patch.ref.kind == resources.POD_CLIQUE_SETS.kind else None


class Executor:
    """Sends patches, ``concurrency`` at a time at most.

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
        concurrency: int,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._store = store
        self._check = check
        self._stopping = stopping
        self._concurrency = concurrency
        self._log = log
        self.doubtful = False

    def run(self, batches: Sequence[Batch], *, keep_going: bool = False) -> list[Outcome]:
        """Carry out batches; returns an outcome for each that was begun, in their order.

        The first error stops the begin of further trees and of further ranks, unless it is a
        :class:`TreeConflict` and ``keep_going`` is set: then only that tree stops. An error that is not ours is a bug:
        it is raised at once, and nothing more is sent.
        """
        schedule = _Schedule(batches, stopping=self._stopping, keep_going=keep_going)
        try:
            with closing(self._store.patches(lambda: self._next(schedule), concurrency=self._concurrency)) as answers:
                for sending, error in answers:
                    self._answered(schedule, sending, error)
        except BaseException:
            self.doubtful = self.doubtful or schedule.sending > 0
            raise
        return schedule.outcomes()

    def _next(self, schedule: _Schedule) -> tuple[_Sending, Write] | None:
        """The patch to send now, once it is certain that we still may."""
        while (sending := schedule.take()) is not None:
            patch, error = sending.todo, None
            if sending.outcome.error is None:
                try:
                    self._check()
                except MigratorError as caught:
                    error = caught
                else:
                    resource, ref = RESOURCES[patch.ref.kind], patch.ref
                    return sending, Write(resource, ref.namespace, ref.name, patch.ops(sending.pcs), patch.subresource)
            self._finish(schedule, sending, error)
        return None

    def _answered(self, schedule: _Schedule, sending: _Sending, answer: MigratorError | None) -> None:
        """Send a patch again until it is certain that it took effect, or that it must not."""
        error = None
        try:
            left = self._left(sending, answer)
        except MigratorError as caught:
            error = caught
        else:
            if left is not None:
                schedule.again(replace(sending, todo=left, attempt=sending.attempt + 1))
                return
        self._finish(schedule, sending, error)

    def _left(self, sending: _Sending, answer: MigratorError | None) -> Patch | None:
        """What is still to be written after an answer, if anything; raises what stops the tree."""
        patch, outcome = sending.patch, sending.outcome
        if answer is None:
            outcome.note(patch)
            names, values = _names(patch.ref), _values(sending.todo)
            self._log.info("patched", **names, **values, attempt=sending.attempt, **self._mark())
            return None
        if isinstance(answer, NotFound):
            self._log.warning("object_gone", **_names(patch.ref))
            return None
        if isinstance(answer, LostReply):
            outcome.note(patch)
            self.doubtful = True
        elif not isinstance(answer, TestFailed | Conflict):
            raise answer
        left = self._settle(sending.todo, sending.pcs, answer)
        if left is None:
            return None
        if not left.changes:
            outcome.note(patch)
            return None
        if sending.attempt == MAX_ATTEMPTS:
            raise TreeConflict(
                f"{patch.ref}: {left.changes[0].field} could not be replaced in {MAX_ATTEMPTS} attempts although its "
                "value is the expected one; somebody is writing to it all the time"
            )
        return left

    def _finish(self, schedule: _Schedule, sending: _Sending, error: MigratorError | None) -> None:
        outcome = sending.outcome
        if schedule.finish(outcome, error):
            ref = outcome.batch.ref
            self._log.info(
                "tree_written", namespace=ref.namespace, name=ref.name, writes=len(outcome.written), **self._mark()
            )

    def _mark(self) -> dict[str, str]:
        """What tells a dry run's events from those of a run."""
        return {} if self._store.dry_run == "none" else {"dry_run": self._store.dry_run.value}

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

    A further tree is begun only when nothing else may be sent, so that as few as possible are half-written at any time.
    """

    def __init__(self, batches: Sequence[Batch], *, stopping: Callable[[], bool], keep_going: bool) -> None:
        self._batches = batches
        self._stopping = stopping
        self._keep_going = keep_going
        self._waiting = deque(batches)
        self._outcomes: dict[Ref, Outcome] = {}
        self._ranks: dict[Ref, deque[tuple[Patch, ...]]] = {}
        self._open: dict[Ref, int] = {}
        self._ready: deque[_Sending] = deque()
        self.sending = 0
        self._halted = False

    def outcomes(self) -> list[Outcome]:
        """What became of every batch that was begun, in the order given."""
        return [self._outcomes[batch.ref] for batch in self._batches if batch.ref in self._outcomes]

    def take(self) -> _Sending | None:
        """The next patch; ``None`` when there is none before another has ended."""
        while not self._ready:
            if not self._begin_next():
                return None
        self.sending += 1
        return self._ready.popleft()

    def again(self, sending: _Sending) -> None:
        """Send a patch once more, before any other."""
        self.sending -= 1
        self._ready.appendleft(sending)

    def finish(self, outcome: Outcome, error: MigratorError | None) -> bool:
        """Take note of a patch's end; true when it was the last of its tree."""
        self.sending -= 1
        self._open[outcome.batch.ref] -= 1
        if error is not None:
            outcome.error = outcome.error or error
            if not (self._keep_going and isinstance(error, TreeConflict)):
                self._halted = True
        return self._advance(outcome)

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
        self._ready.extend(_Sending(patch, outcome, patch) for patch in patches)
        return False


def _names(ref: Ref) -> dict[str, str]:
    return {"kind": ref.kind, "namespace": ref.namespace, "name": ref.name}


def _values(patch: Patch) -> dict[str, object]:
    return {
        "subresource": patch.subresource,
        "changes": [{"field": c.field, "old": c.old, "new": c.new} for c in patch.changes],
    }
