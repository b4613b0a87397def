"""Who may write: one holder of one Lease, judged by its own monotonic clock.

The operator's own Lease is held wherever it uses one, so that a new operator that starts early waits for us,
and two migrators exclude each other in the same way. The rules:

* A foreign Lease is free if it names no holder, or if it has not moved for its ``leaseDurationSeconds`` on our
  clock, counted from when we first saw it so. Times written by other machines are never compared.
* It is taken, renewed and released by compare-and-swap only.
* Our hold ends, for good, once two thirds of the duration have passed since the *sending* of the last renewal
  that was confirmed. A process that was paused finds that it has lost the Lease when it wakes up.
* Whoever takes over from a holder that did not release waits the duration, and then as long as one request of
  the dead holder may still be under way, before it writes.

What no Lease on the client's side can close: a process may be paused between :meth:`Fence.check` and the
sending of one request, for longer than all of the above. Each worker can lose that race once, so at most as
many stale writes arrive as there are workers. Each is a compare-and-swap on the hash that it replaces, so it
can only turn a source value into the target's, or back; the successor's final snapshot finds it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Final

import structlog

from migrator.errors import (
    AlreadyExists,
    ClusterError,
    LeaseLost,
    LostRace,
    LostReply,
    MigratorError,
    NotFound,
    TestFailed,
)
from migrator.run.lease import LeaseObject, LeaseRecord, utc_now
from migrator.store import Store

_RENEW_EVERY: Final = 1 / 3  # of the duration
_RETRY_EVERY: Final = 1 / 15
_HOLD_FOR: Final = 2 / 3
_RELEASE_ATTEMPTS: Final = 3
_LONGEST_POLL: Final = 1.0

_SILENT: Final = structlog.wrap_logger(
    structlog.ReturnLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
)


def monotonic() -> float:
    """Seconds that also pass while the machine is suspended, where the system offers such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class _Renewal(Enum):
    DONE = auto()
    READ_AGAIN = auto()  # the record moved, but the term is still ours
    LATER = auto()
    LOST = auto()


@dataclass(frozen=True, slots=True)
class _Sighting:
    """A foreign holder that has not moved since ``since`` (our clock)."""

    record: LeaseRecord
    since: float


class Fence:
    """Holds one Lease; a daemon thread renews it at a third of ``duration``.

    ``duration`` and ``request_timeout`` are in seconds; the latter is the longest time for which one write,
    with all its retries, may still be sent after :meth:`check` allowed it. ``identity`` must be unique to this
    process. ``clock`` should be :func:`monotonic`; ``now`` is written into the Lease and never compared. With
    ``threaded=False`` nothing runs in the background and the owner calls :meth:`renew_if_due`.
    """

    def __init__(
        self,
        store: Store,
        *,
        namespace: str,
        name: str,
        duration: float,
        identity: str,
        request_timeout: float,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], datetime] = utc_now,
        log: structlog.typing.FilteringBoundLogger = _SILENT,
        threaded: bool = True,
    ) -> None:
        self._lease = LeaseObject(store, namespace, name)
        self._duration = duration
        self._identity = identity
        self._request_timeout = request_timeout
        self._clock = clock
        self._sleep = sleep
        self._now = now
        self._log = log
        self._threaded = threaded
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._state = threading.Lock()  # the fields below
        self._record: LeaseRecord | None = None
        self._sent = 0.0
        self._lost = f"{self._lease} was never acquired"
        self._asked: LeaseRecord | None = None  # a term whose reply was lost

    def __str__(self) -> str:
        return str(self._lease)

    @property
    def held(self) -> bool:
        """Whether :meth:`check` would pass now."""
        try:
            self.check()
        except LeaseLost:
            return False
        return True

    def acquire(self, deadline: float) -> None:
        """Take the Lease, waiting for a living or dead holder until ``deadline``, a time of ``clock``.

        Returns when writing is safe. Raises :class:`~migrator.errors.LostRace` on the deadline, naming the
        holder, and whatever the store raises when the Lease cannot be read or created.
        """
        if self.held:
            return
        quiet = self._contend(deadline)
        self._start()
        try:
            self._keep_quiet(quiet)
            self.check()
        except BaseException:
            self.release()  # whatever interrupts the wait, nobody renews what nobody uses
            raise

    def check(self) -> None:
        """Raise :class:`~migrator.errors.LeaseLost` unless the Lease is certainly ours; local and cheap.

        Once lost it stays lost, until :meth:`acquire` is called again.
        """
        with self._state:
            if not self._lost and self._clock() - self._sent >= self._duration * _HOLD_FOR:
                self._lost = (
                    f"{self._lease} was last renewed {self._clock() - self._sent:.1f} s ago, and may be "
                    "somebody else's by now"
                )
            if self._lost:
                raise LeaseLost(f"{self._lost}: nothing more may be written; run again")

    def renew_if_due(self) -> None:
        """Renew if a third of the duration has passed since the last renewal; never raises what a store does.

        A failure is tried again at the next call, until :meth:`check` gives up.
        """
        with self._state:
            due = not self._lost and self._clock() - self._sent >= self._duration * _RENEW_EVERY
        if due:
            self._renew()

    def release(self) -> None:
        """Let go, so that the next holder need not wait. A Lease that was lost is left alone.

        Failures are logged: all that they cost is the next holder's wait.
        """
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self._duration)
            self._thread = None
        with self._state:
            record, held = self._record, not self._lost
            self._lost = self._lost or f"{self._lease} was released"
        if not held or record is None:
            return
        for _ in range(_RELEASE_ATTEMPTS):
            try:
                self._lease.release(record, self._now())
            except (ClusterError, LostReply) as error:
                self._log.warning("lease_release_failed", lease=str(self), error=str(error))
                moved = self._reread(record)
                if moved is None:
                    return
                record = moved
            else:
                return

    def _contend(self, deadline: float) -> float:
        """Take the Lease; returns for how many seconds nothing may be written yet."""
        sighting: _Sighting | None = None
        quiet = 0.0
        while True:
            asked = self._clock()
            record = self._read()
            if record is not None and not self._free(record):
                if sighting is None or sighting.record != record:
                    sighting = _Sighting(record, self._clock())
                if asked - sighting.since < record.seconds(self._duration):
                    self._wait_for(record, sighting, deadline)
                    continue
            quiet = max(quiet, self._quiet_after(sighting, record))
            if self._take(record):
                return quiet
            if self._clock() >= deadline:
                raise LostRace(f"{self._lease} could not be taken in time: others are faster; run again")
            self._sleep(self._duration * _RETRY_EVERY)

    def _quiet_after(self, sighting: _Sighting | None, record: LeaseRecord | None) -> float:
        """How long a holder that we saw, and that did not release, may still be writing."""
        if sighting is None or (record is not None and not record.holder):
            return 0.0
        if record is None:  # deleted while it was held: its holder finds out at its own next renewal
            return self._request_timeout + sighting.record.seconds(self._duration)
        return self._request_timeout

    def _read(self) -> LeaseRecord | None:
        try:
            return self._lease.get()
        except NotFound:
            return None

    def _free(self, record: LeaseRecord) -> bool:
        """Whether it may be taken at once: nobody's, or a term that this very process wrote."""
        if not record.holder:
            return True
        if self._asked is not None and self._asked.term == record.term:
            return True
        return self._record is not None and self._record.term == record.term

    def _take(self, record: LeaseRecord | None) -> bool:
        sent = self._clock()
        spec = self._lease.wanted(self._identity, self._duration, self._now(), after=record)
        self._asked = LeaseRecord("", spec)
        try:
            taken = self._lease.create(spec) if record is None else self._lease.take(record, spec)
        except (AlreadyExists, TestFailed, NotFound, LostReply):
            return False  # read it again, and judge what is there
        with self._state:
            self._record, self._sent, self._lost = taken, sent, ""
        self._asked = None
        return True

    def _wait_for(self, record: LeaseRecord, sighting: _Sighting, deadline: float) -> None:
        now = self._clock()
        left = sighting.since + record.seconds(self._duration) - now
        if now >= deadline:
            raise LostRace(
                f"{self._lease} is held by {record.holder} (renewed {record.spec.get('renewTime')}, unchanged for "
                f"{now - sighting.since:.0f} s by our clock): another migration or an operator is running; stop it "
                "or wait for its end, then run again"
            )
        self._sleep(max(0.0, min(_LONGEST_POLL, self._duration * _RETRY_EVERY, left, deadline - now)))

    def _keep_quiet(self, seconds: float) -> None:
        if seconds > 0:
            self._log.info("lease_taken_over", lease=str(self), quiet_seconds=seconds)
        end = self._clock() + seconds
        while (left := end - self._clock()) > 0:
            self.check()
            self._sleep(min(left, self._duration * _RENEW_EVERY))
            if not self._threaded:
                self.renew_if_due()

    def _start(self) -> None:
        if not self._threaded:
            return
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, args=(self._stop,), name="lease-renewal", daemon=True)
        self._thread.start()

    def _keep(self, stop: threading.Event) -> None:
        pause = self._duration * _RENEW_EVERY
        while not stop.wait(pause):
            outcome = self._renew()
            if outcome is _Renewal.LOST:
                return
            pause = self._duration * (_RENEW_EVERY if outcome is _Renewal.DONE else _RETRY_EVERY)

    def _renew(self) -> _Renewal:
        outcome = self._swap()
        return self._swap() if outcome is _Renewal.READ_AGAIN else outcome

    def _swap(self) -> _Renewal:
        with self._state:
            record, sent = self._record, self._clock()
            if not self._lost and sent - self._sent >= self._duration * _HOLD_FOR:
                self._lost = f"{self._lease} could not be renewed for {sent - self._sent:.1f} s"
            if self._lost or record is None:
                return _Renewal.LOST
        try:
            renewed = self._lease.renew(record, self._now())
        except TestFailed:
            return self._resolve(record)
        except NotFound:
            return self._lose(f"{self._lease} was deleted")
        except MigratorError as error:
            self._log.warning("lease_renewal_failed", lease=str(self), error=str(error))
            return _Renewal.LATER
        with self._state:
            self._record, self._sent = renewed, sent
        return _Renewal.DONE

    def _resolve(self, record: LeaseRecord) -> _Renewal:
        """Find out why a swap failed: a renewal of ours whose reply was lost, or another holder."""
        try:
            found = self._still_ours(record)
        except MigratorError as error:
            self._log.warning("lease_read_failed", lease=str(self), error=str(error))
            return _Renewal.LATER
        if found is None:
            return self._lose(f"{self._lease} was taken over by another holder")
        with self._state:
            self._record = found
        return _Renewal.READ_AGAIN

    def _still_ours(self, record: LeaseRecord) -> LeaseRecord | None:
        found = self._read()
        return found if found is not None and found.term == record.term else None

    def _reread(self, record: LeaseRecord) -> LeaseRecord | None:
        """The Lease as it stands if it is still ours, as it was if that cannot be read, ``None`` if it is not."""
        try:
            return self._still_ours(record)
        except (ClusterError, LostReply):
            return record

    def _lose(self, why: str) -> _Renewal:
        with self._state:
            news, self._lost = not self._lost, self._lost or why
        if news:
            self._log.error("lease_lost", lease=str(self), reason=why)
        return _Renewal.LOST
