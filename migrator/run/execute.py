"""Sending patches, tree by tree, bottom-up.

A patch tests the object's uid and the old value of each field, then replaces it; the server applies the tests again to
the fresh object, so other changes of busy pods do not conflict. After a failed test or a lost reply it is read again.
Several trees may be under way at once; within a tree one rank is finished before the next begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import structlog

from migrator import resources
from migrator.errors import Conflict, LostRace, LostReply, MigratorError, NotFound, TestFailed
from migrator.grove.objects import PodCliqueSet
from migrator.planning.patches import RESOURCES, Batch, Patch, value_at
from migrator.store import Store, Write

#: How often one object is read again and retried before its tree is given up.
MAX_ATTEMPTS: Final = 5


class SetConflict(LostRace):
    """A value of the set is neither old nor new any more: another client changed it."""

    code = "conflict"


@dataclass(slots=True, eq=False)
class Outcome:
    """What became of one tree; ``written`` is how many patches the server may have applied.

    ``ranks`` are those that have not begun, ``rank`` is the unsent part of the current one: a patch is made when it is
    sent. ``under_way`` is how many were sent and have not ended.
    """

    batch: Batch
    ranks: Iterator[tuple[int, Iterator[Patch]]]
    rank: Iterator[Patch]
    written: int = 0
    error: MigratorError | None = None
    complete: bool = False
    under_way: int = 0


@dataclass(slots=True, eq=False)
class _Sending:
    """What is left of a patch to write, how often it was sent, this time included, and whether it counts as written."""

    patch: Patch
    outcome: Outcome
    attempt: int = 1
    noted: bool = False

    @property
    def pcs(self) -> PodCliqueSet | None:
        """The set whose spec must not have changed, if the patch is the set's own."""
        return self.outcome.batch.pcs if self.patch.ref.kind == resources.POD_CLIQUE_SETS.kind else None

    def note(self) -> None:
        """Count the patch: the server may have applied it."""
        self.outcome.written += not self.noted
        self.noted = True


class Executor:
    """Sends patches once, ``concurrency`` at a time at most.

    ``check`` is called before every patch and raises when we may not write any more; nothing is sent while it runs.
    ``stopping`` is called before a tree is begun. ``doubtful``: a reply was lost, so a write may still be under way.
    ``outcomes`` are those of the trees that were begun so far.
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
        self._dry = {} if store.dry_run == "none" else {"dry_run": store.dry_run.value}
        self._waiting: deque[Batch] = deque()
        self._begun: deque[Outcome] = deque()  # those whose current rank is not all sent
        self._again: deque[_Sending] = deque()
        self.outcomes: list[Outcome] = []
        self._under_way = 0
        self._halted = False
        self.doubtful = False

    def run(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Carry out batches; returns an outcome for each that was begun, in their order.

        A :class:`SetConflict` stops its own set only. After any other error no further set or rank is begun. An error
        that is not ours is a bug: it is raised at once, and nothing more is sent.
        """
        self._waiting = deque(batches)
        try:
            with closing(self._store.patches(self._next, concurrency=self._concurrency)) as answers:
                for sending, answer in answers:
                    self._under_way -= 1
                    self._answered(sending, answer)
        except BaseException:
            self.doubtful = self.doubtful or self._under_way > 0
            raise
        return self.outcomes

    # --- what is sent next ------------------------------------------------------------------------------------------

    def _next(self) -> tuple[_Sending, Write] | None:
        """The patch to send now, checked that we still may; ``None`` if there is none, or others must end first."""
        while (sending := self._due()) is not None:
            try:
                self._check()
            except MigratorError as error:
                self._end(sending.outcome, error)
                continue
            self._under_way += 1
            patch, ref = sending.patch, sending.patch.ref
            ops = patch.ops(sending.pcs)
            return sending, Write(RESOURCES[ref.kind], ref.namespace, ref.name, ops, patch.subresource)
        return None

    def _due(self) -> _Sending | None:
        """What comes next: a patch to send again, one of a rank that has begun, or one of a further tree."""
        while not self._again:
            if not self._begun and not self._begin():
                return None
            outcome = self._begun[0]
            if (patch := next(outcome.rank, None)) is not None:
                outcome.under_way += 1
                return _Sending(patch, outcome)
            self._begun.popleft()
            self._advance(outcome)
        return self._again.popleft()

    def _begin(self) -> bool:
        """Begin a further tree; false if there is none, or none may be begun.

        This is done only when nothing else may be sent, so that as few trees as possible are half-written at any time.
        """
        if self._halted or not self._waiting or self._stopping():
            return False
        batch = self._waiting.popleft()
        outcome = Outcome(batch, groupby(batch.patches, key=lambda patch: patch.rank), iter(()))
        self.outcomes.append(outcome)
        self._begun.append(outcome)
        return True

    def _advance(self, outcome: Outcome) -> None:
        """Begin the tree's next rank once the last has ended; without one the tree is complete."""
        if outcome.under_way or outcome in self._begun or outcome.error is not None:
            return
        found = next(outcome.ranks, None)
        if found is None:
            outcome.complete = True
            ref = outcome.batch.ref
            self._log.info("tree_written", namespace=ref.namespace, name=ref.name, writes=outcome.written, **self._dry)
        elif not self._halted:
            outcome.rank = found[1]
            self._begun.append(outcome)

    def _end(self, outcome: Outcome, error: MigratorError | None = None) -> None:
        """Record the end of a patch."""
        outcome.under_way -= 1
        if error is not None:
            outcome.error = outcome.error or error
            self._again = deque(sending for sending in self._again if sending.outcome is not outcome)
            self._begun = deque(one for one in self._begun if one is not outcome)
            self._halted = self._halted or not isinstance(error, SetConflict)
        self._advance(outcome)

    # --- what an answer means ---------------------------------------------------------------------------------------

    def _answered(self, sending: _Sending, answer: MigratorError | None) -> None:
        """Send a patch again, before any other, unless it has taken effect or must not be sent."""
        try:
            left = self._left(sending, answer)
        except MigratorError as error:
            self._end(sending.outcome, error)
            return
        if left is None or sending.outcome.error is not None:
            self._end(sending.outcome)
        else:
            sending.patch, sending.attempt = left, sending.attempt + 1
            self._again.appendleft(sending)

    def _left(self, sending: _Sending, answer: MigratorError | None) -> Patch | None:
        """What is still to be written after an answer, if anything; raises what stops the tree."""
        ref = sending.patch.ref
        names = {"kind": ref.kind, "namespace": ref.namespace, "name": ref.name}
        if answer is None:
            sending.note()
            values = [{"field": c.field, "old": c.old, "new": c.new} for c in sending.patch.changes]
            more = {"subresource": sending.patch.subresource, "changes": values, "attempt": sending.attempt}
            self._log.info("patched", **names, **more, **self._dry)
            return None
        if isinstance(answer, NotFound):
            self._log.warning("object_deleted", **names)
            return None
        if isinstance(answer, LostReply):
            sending.note()
            self.doubtful = True
        elif not isinstance(answer, TestFailed | Conflict):
            raise answer
        self._log.info("retrying_after_conflict", **names, cause=answer.code)
        left = self._settle(sending.patch, sending.pcs)
        if left is not None and not left.changes:
            sending.note()
            return None
        if left is not None and sending.attempt == MAX_ATTEMPTS:
            raise SetConflict(
                f"{left.ref}: {left.changes[0].field} could not be replaced in {MAX_ATTEMPTS} attempts although its "
                "value is the expected one; another client keeps changing it"
            )
        return left

    def _settle(self, patch: Patch, pcs: PodCliqueSet | None) -> Patch | None:
        """Read the object again: what is left of the patch, or ``None`` if the object is gone."""
        try:
            found = self._store.get(RESOURCES[patch.ref.kind], patch.ref.namespace, patch.ref.name)
        except NotFound:
            return None
        if found.get("metadata", {}).get("uid") != patch.ref.uid:
            return None  # another object of the same name: not ours to change
        left = []
        for change in patch.changes:
            value = value_at(found, change.field)
            identity = change.identity is None or value_at(found, change.identity[0]) == change.identity[1]
            if value == change.new and identity:
                continue
            if value != change.old or not identity:
                raise SetConflict(
                    f"{patch.ref}: {change.field} is {value!r} now, neither {change.old} nor {change.new}: "
                    "another client changed it"
                )
            left.append(change)
        if left and pcs is not None and value_at(found, "/spec/template") != pcs.spec.get("template"):
            raise SetConflict(f"{patch.ref}: its spec changed during the run")
        return patch._replace(changes=tuple(left))
