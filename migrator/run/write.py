"""Writing patches, set by set, bottom-up.

A patch tests the object's uid and the old value of each field, then replaces it; the server applies the tests again to
the fresh object, so other changes of busy pods do not conflict. A conflict or a lost reply ends its set only, until all
sets are read again; any other error ends the sending. Several sets may be under way at once; within a set one rank is
finished before the next begins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from typing import Final

from migrator import errors, kinds
from migrator.cluster import Cluster
from migrator.planning.patches import RESOURCES, Batch, Patch, patch_count
from migrator.run.context import Context

#: How many patches of a rank are made at a time: a set may have hundreds of thousands.
_MADE: Final = 2000


class SetConflict(errors.LostRace, code="conflict"):
    """Another client changed a value or the template of the set."""


@dataclass(slots=True)
class Outcome:
    """What became of one set; ``written`` is how many patches the server may have applied."""

    batch: Batch
    written: int = 0
    error: errors.MigratorError | None = None
    complete: bool = False


class Executor:
    """Sends patches, as many at a time as the context allows; no set is begun once the context is over.

    ``check`` is called before every patch and raises when we may not write any more; no other patch passes it
    meanwhile. ``unconfirmed``: a reply was lost, or the sending was broken off, so a write may still be under way.
    ``outcomes`` are those of the sets that were begun so far.
    """

    def __init__(self, cluster: Cluster, context: Context, *, check: Callable[[], object]) -> None:
        self._store = cluster
        self._check = check
        self._is_over = context.is_over
        self._concurrency = context.concurrency
        self._log = context.log
        self._progress = context.progress
        self._dry = {"dry_run": True} if cluster.dry_run else {}
        self._lock = threading.Condition()
        self._due = 0  # patches that are made and have not ended
        self._total = self._sent = 0
        self._halted = False
        self.outcomes: list[Outcome] = []
        self.unconfirmed = False

    def run(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Carry out batches; returns an outcome for each that was begun.

        A :class:`SetConflict` or a lost reply stops its own set only. After any other error nothing more is sent. An
        error that is not ours is a bug: it is raised once what is under way has ended.
        """
        self._total = sum(patch_count(batch.changes) for batch in batches)
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
            if self._halted or self._is_over():
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
        ref = batch.pcs.ref
        self._log.info("tree_written", namespace=ref.namespace, name=ref.name, writes=outcome.written, **self._dry)

    def _halt(self) -> None:
        """Send nothing more."""
        with self._lock:
            self._halted = True
            self._lock.notify_all()

    def _send(self, outcome: Outcome, patch: Patch) -> bool:
        """Write one patch; false if it, or another one before it, has ended in an error."""
        try:
            with self._lock:
                if self._halted or outcome.error is not None:
                    return False
                self._check()
            return self._patch(outcome, patch)
        except errors.MigratorError as error:
            outcome.error = outcome.error or error
            if not isinstance(error, SetConflict | errors.LostReply):
                self._halt()
            return False
        except BaseException:
            self._halt()
            raise
        finally:
            with self._lock:
                self._due -= 1
                self._lock.notify_all()

    def _patch(self, outcome: Outcome, patch: Patch) -> bool:
        """Send a patch once."""
        ref, pcs = patch.ref, outcome.batch.pcs if patch.ref.kind == kinds.POD_CLIQUE_SETS.kind else None
        names = {"kind": ref.kind, "namespace": ref.namespace, "name": ref.name}
        where = (RESOURCES[ref.kind], ref.namespace, ref.name, patch.ops(pcs))
        try:
            self._store.patch(*where, subresource=patch.subresource)
        except errors.NotFound:
            self._log.warning("object_deleted", **names)
            return True
        except (errors.TestFailed, errors.Conflict) as error:
            raise SetConflict(f"{ref}: {patch.changes[0].field} was changed by another client") from error
        except errors.LostReply:
            with self._lock:
                self.unconfirmed, outcome.written = True, outcome.written + 1
            raise
        with self._lock:
            outcome.written += 1
            self._sent += 1
            sent = self._sent
        self._progress("patching", sent, self._total)
        values = [{"field": c.field, "old": c.old, "new": c.new} for c in patch.changes]
        self._log.info("patched", **names, subresource=patch.subresource, changes=values, **self._dry)
        return True
