"""Writing patches, set by set, bottom-up.

A patch tests the object's uid and the old value of each field, then replaces it; the server applies the tests again to
the fresh object, so other changes of busy pods do not conflict. After a failed test or a lost reply it is read again.
Several sets may be under way at once; within a set one rank is finished before the next begins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from typing import Final

import structlog

from migrator import resources
from migrator.errors import Conflict, LostRace, LostReply, MigratorError, NotFound, TestFailed
from migrator.grove.objects import PodCliqueSet
from migrator.planning.patches import RESOURCES, Batch, Patch, value_at
from migrator.store import DryRun, Store

#: How often one object is read again and retried before its set is given up.
MAX_ATTEMPTS: Final = 5

#: How many patches of a rank are made at a time: a set may have hundreds of thousands.
_MADE: Final = 2000


class SetConflict(LostRace):
    """Another client changed a value or the template of the set, or keeps changing an object of it."""

    code = "conflict"


@dataclass(slots=True)
class Outcome:
    """What became of one set; ``written`` is how many patches the server may have applied."""

    batch: Batch
    written: int = 0
    error: MigratorError | None = None
    complete: bool = False


class Executor:
    """Sends the patches of one run, ``concurrency`` at a time at most.

    ``check`` is called before every patch and raises when we may not write any more; no other patch passes it
    meanwhile. ``stopping`` is called before a set is begun. ``unconfirmed``: a reply was lost, or the sending was
    broken off, so a write may still be under way. ``outcomes`` are those of the sets that were begun so far.
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
        self._dry = {} if store.dry_run is DryRun.NONE else {"dry_run": store.dry_run.value}
        self._lock = threading.Condition()
        self._due = 0  # patches that are made and have not ended
        self._halted = False
        self.outcomes: list[Outcome] = []
        self.unconfirmed = False

    def run(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Carry out batches; returns an outcome for each that was begun.

        A :class:`SetConflict` stops its own set only. After any other error nothing more is sent. An error that is not
        ours is a bug: it is raised once what is under way has ended.
        """
        try:
            with ThreadPoolExecutor(self._concurrency) as senders, ThreadPoolExecutor(self._concurrency) as writers:
                try:
                    list(writers.map(partial(self._write, senders), batches))
                finally:
                    self._halt()
        except BaseException:
            self.unconfirmed = True
            raise
        return self.outcomes

    def _write(self, senders: ThreadPoolExecutor, batch: Batch) -> None:
        """Write one set, rank by rank; it is begun only while fewer patches are due than may be under way.

        So a crash or a signal finds as few sets as possible half-written.
        """
        with self._lock:
            self._lock.wait_for(lambda: self._halted or self._due < self._concurrency)
            if self._halted or self._stopping():
                return
            outcome = Outcome(batch)
            self.outcomes.append(outcome)
        try:
            for _, rank in groupby(batch.patches, key=lambda patch: patch.rank):
                while patches := list(islice(rank, _MADE)):
                    with self._lock:
                        self._due += len(patches)
                    if not all([*senders.map(partial(self._send, outcome), patches)]):
                        return
        except BaseException:
            self._halt()
            raise
        outcome.complete = True
        ref = batch.ref
        self._log.info("tree_written", namespace=ref.namespace, name=ref.name, writes=outcome.written, **self._dry)

    def _halt(self) -> None:
        """Send nothing more."""
        with self._lock:
            self._halted = True
            self._lock.notify_all()

    def _send(self, outcome: Outcome, patch: Patch) -> bool:
        """Write one patch; false if it, or another one before it, has ended in an error."""
        try:
            return self._repeat(outcome, patch)
        except MigratorError as error:
            outcome.error = outcome.error or error
            if not isinstance(error, SetConflict):
                self._halt()
            return False
        except BaseException:
            self._halt()
            raise
        finally:
            with self._lock:
                self._due -= 1
                self._lock.notify_all()

    def _repeat(self, outcome: Outcome, patch: Patch) -> bool:
        """Send a patch until it has taken effect, or its object is gone; raises what stops its set."""
        pcs = outcome.batch.pcs if patch.ref.kind == resources.POD_CLIQUE_SETS.kind else None
        names = {"kind": patch.ref.kind, "namespace": patch.ref.namespace, "name": patch.ref.name}
        applied = False  # or may have been
        try:
            for attempt in range(1, MAX_ATTEMPTS + 1):
                with self._lock:
                    if self._halted or outcome.error is not None:
                        return False
                    self._check()
                try:
                    self._patch(patch, pcs)
                except NotFound:
                    self._log.warning("object_deleted", **names)
                    return True
                except (LostReply, TestFailed, Conflict) as error:
                    applied = applied or isinstance(error, LostReply)
                    self.unconfirmed = self.unconfirmed or applied
                    self._log.info("retrying_after_conflict", **names, cause=error.code)
                else:
                    applied = True
                    values = [{"field": c.field, "old": c.old, "new": c.new} for c in patch.changes]
                    more = {"subresource": patch.subresource, "changes": values, "attempt": attempt}
                    self._log.info("patched", **names, **more, **self._dry)
                    return True
                left = self._reread(patch, pcs)
                if left is None:
                    return True
                if not left.changes:
                    applied = True
                    return True
                patch = left
        finally:
            with self._lock:
                outcome.written += applied
        raise SetConflict(
            f"{patch.ref}: {patch.changes[0].field} could not be replaced in {MAX_ATTEMPTS} attempts although its "
            "value is the expected one; another client keeps changing it"
        )

    def _patch(self, patch: Patch, pcs: PodCliqueSet | None) -> None:
        """Send a patch once."""
        ref = patch.ref
        self._store.patch(RESOURCES[ref.kind], ref.namespace, ref.name, patch.ops(pcs), subresource=patch.subresource)

    def _reread(self, patch: Patch, pcs: PodCliqueSet | None) -> Patch | None:
        """What is left of a patch by the object as it is now; ``None`` if that is gone. Raises ``SetConflict``."""
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
