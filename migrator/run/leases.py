"""Who may write: the holder of our own Lease and of every Lease that an operator may use.

A Lease is free if it names no holder, if it is parked, or if we have seen it unchanged for its
``leaseDurationSeconds``, by our own clock: times that other machines wrote are never compared. It is taken, renewed,
parked and released by compare-and-swap. Ours lasts 60 seconds, and client-go obeys the duration in the Lease
(``tools/leaderelection/leaderelection.go:tryAcquireOrRenew``). Our hold ends for good 40 seconds after the *sending*
of the last confirmed renewal, and every write must end before that: none is under way once others may take the Lease.

A *parked* Lease belongs to a holder that does not exist. It keeps every operator out for an hour, and any run that
holds our own Lease takes it at once. A run parks the operator's Leases when it takes them, so that they stay parked if
it is killed; a run that leaves nothing half-way releases them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum, auto
from typing import Any, Final

from migrator.errors import AlreadyExists, ClusterError, LeaseLost, LostReply, MigratorError, NotFound, TestFailed
from migrator.exact_json import JSONObject, integer
from migrator.resources import LEASES, Op
from migrator.run.context import Context
from migrator.store import Store

#: Our own Lease has the same name in every cluster; a run without it writes nothing.
OWN_LEASE: Final = "grove-migrator"

DURATION: Final = 60.0
HOLD: Final = 40.0
RENEW_EVERY: Final = 5.0
RETRY_EVERY: Final = 2.0

#: For how long, in seconds, a run writes nothing after the expiry of a Lease that it took and its holder had not
#: released: a request of that holder may still be under way.
QUIET: Final = 15.0

PARKED: Final = "grove-migrator: half migrated, run again"
_PARKED_SECONDS: Final = 3600
_RELEASED_SECONDS: Final = 1
_DEFAULT_SECONDS: Final = 15.0  # client-go's, for a Lease without a duration
_ATTEMPTS: Final = 3


class LeaseState(StrEnum):
    """The state of a Lease."""

    FREE = auto()  # nobody's, expired, or parked
    HELD = auto()
    QUIET = auto()  # ours, but a write of its last holder may still be under way
    OURS = auto()
    LOST = auto()  # it was ours


def monotonic() -> float:
    """Seconds that also pass while the machine is suspended, where the system offers such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def micro_time(moment: datetime) -> str:
    """Kubernetes' MicroTime: UTC with exactly six fraction digits, or the API server answers 400."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A Lease as the API server returned it."""

    resource_version: str
    spec: Mapping[str, Any]

    @property
    def holder(self) -> str:
        """``spec.holderIdentity``; empty when released or never held."""
        return str(self.spec.get("holderIdentity") or "")

    @property
    def term(self) -> tuple[str, object, object]:
        """What stays the same from an acquisition to its end: holder, acquireTime and transitions."""
        return self.holder, self.spec.get("acquireTime"), self.spec.get("leaseTransitions")

    @property
    def seconds(self) -> float:
        """``spec.leaseDurationSeconds`` of its holder."""
        return float(max(integer(self.spec.get("leaseDurationSeconds")), 0) or _DEFAULT_SECONDS)


@dataclass(frozen=True, slots=True)
class LeaseSeen:
    """A Lease as it was seen."""

    name: str
    state: LeaseState
    holder: str = ""

    @property
    def obstacle(self) -> str:
        """Why it cannot be used yet, as a sentence."""
        if self.state is LeaseState.QUIET:
            return f"waiting {QUIET:.0f} s for late writes of a Lease's last holder"
        return f"Lease {self.name} is held by {self.holder}"


@dataclass(frozen=True, slots=True)
class _Sighting:
    """Another holder's Lease, and since when it is unchanged; ``found`` is ``None`` if it is deleted."""

    holder: LeaseRecord
    found: LeaseRecord | None
    since: float


@dataclass(slots=True)
class _Term:
    """A term of ours; ``sent`` is when the last confirmed renewal was sent, ``due`` when the next one is to be."""

    record: LeaseRecord
    sent: float
    due: float
    lost: str = ""


class Leases:
    """The Leases of one namespace that a run holds or waits for; only the owner's thread changes which are held.

    The context's ``clock`` should be :func:`monotonic`, and its ``repeat`` renews them meanwhile.
    """

    def __init__(self, store: Store, namespace: str, context: Context) -> None:
        self._store = store
        self.namespace = namespace
        self._context = context
        self._clock = context.clock
        self._log = context.log
        self._held: dict[str, _Term] = {}
        self._asked: dict[str, _Term] = {}  # terms that we asked for without an answer so far
        self._sightings: dict[str, _Sighting] = {}
        self._last = datetime.min.replace(tzinfo=UTC)
        self._end_renewals: Callable[[], None] | None = None
        self.quiet_until = 0.0

    def look(self, name: str) -> LeaseSeen:
        """Read one Lease, unless it is ours; raises what the store raises."""
        if name not in self._held:
            began, record = self._clock(), self._read(name)
            asked = self._asked.get(name)
            if record is None or asked is None or asked.record.term != record.term:
                return self._judge(name, record, began)
            self._hold(name, record, asked.sent)  # the reply to our acquisition was lost
        state = LeaseState.OURS if self._clock() >= self.quiet_until else LeaseState.QUIET
        if self._lost(self._held[name]):
            state = LeaseState.LOST
        return LeaseSeen(name, state, self._context.identity)

    def holds(self, *names: str) -> bool:
        """Whether all of these are ours now, and may be used; asks no server."""
        usable = all(name in self._held and not self._lost(self._held[name]) for name in names)
        return usable and self._clock() >= self.quiet_until

    def was_taken(self, name: str) -> bool:
        """Whether this run has taken the Lease and not released it; it may be lost, or not usable yet."""
        return name in self._held

    def _judge(self, name: str, record: LeaseRecord | None, began: float) -> LeaseSeen:
        seen = self._sightings.get(name)
        if record is not None and record.holder in {"", PARKED}:
            self._sightings.pop(name, None)
            return LeaseSeen(name, LeaseState.FREE, record.holder)
        if seen is None or seen.found != record:
            holder = record if record is not None or seen is None else seen.holder
            if holder is None:
                return LeaseSeen(name, LeaseState.FREE)
            # The holder of a deleted Lease goes on until its next renewal fails.
            seen = self._sightings[name] = _Sighting(holder, record, self._clock())
        expired = began >= seen.since + seen.holder.seconds
        return LeaseSeen(name, LeaseState.FREE if expired else LeaseState.HELD, seen.holder.holder)

    def obtain(self, *names: str) -> str:
        """Take each of these Leases that is free; returns the first obstacle, empty once this run holds all of them.

        Raises :class:`~migrator.errors.LeaseLost` if this run has lost one, and
        :class:`~migrator.errors.ClusterError` if one stays free.
        """
        obstacle = ""
        for name in names:
            seen, attempts = self.look(name), 0
            while seen.state is LeaseState.FREE:
                if attempts == _ATTEMPTS:
                    raise ClusterError(f"Lease {self.namespace}/{name} is free, and could not be taken")
                self.take(name)
                seen, attempts = self.look(name), attempts + 1
            if seen.state is LeaseState.LOST:
                raise LeaseLost(self._held[name].lost)
            if seen.state is not LeaseState.OURS:
                obstacle = obstacle or seen.obstacle
        return obstacle

    def take(self, name: str) -> None:
        """Take a Lease if it is free, the operator's as a parked one; if another is faster, :meth:`look` shows that."""
        began, before = self._clock(), self._read(name)
        if self._judge(name, before, began).state is not LeaseState.FREE:
            return
        sent, transitions = self._clock(), integer(before.spec.get("leaseTransitions")) + 1 if before else 0
        holder, seconds = (self._context.identity, int(DURATION)) if name == OWN_LEASE else (PARKED, _PARKED_SECONDS)
        spec = self._spec(before, holder, seconds) | {"leaseTransitions": transitions}
        self._asked[name] = _Term(LeaseRecord("", spec), sent, sent)
        try:
            taken = self._create(name, spec) if before is None else self._swap(name, before, Op("add", "/spec", spec))
        except (AlreadyExists, TestFailed, NotFound, LostReply):
            return
        self._hold(name, taken, sent)

    def _hold(self, name: str, record: LeaseRecord, sent: float) -> None:
        waited = self._sightings.pop(name, None)
        del self._asked[name]
        if waited is not None:
            self.quiet_until = max(self.quiet_until, waited.since + waited.holder.seconds + QUIET)
        self._held[name] = _Term(record, sent, sent + RENEW_EVERY)
        self._log.info("lease_held", lease=f"{self.namespace}/{name}", taken_over=waited is not None)
        if self._end_renewals is None:
            self._end_renewals = self._context.repeat(self.renew_if_due, RETRY_EVERY / 2)

    def seconds_left(self) -> float:
        """Seconds for which every Lease that was taken is certainly ours; asks no server.

        Raises :class:`~migrator.errors.LeaseLost` if there is none, or once one is lost, and from then on always.
        """
        if OWN_LEASE not in self._held:
            raise LeaseLost(f"Lease {self.namespace}/{OWN_LEASE} was never taken: nothing more may be written")
        terms = self._held.values()
        if why := next(filter(None, map(self._lost, terms)), ""):
            raise LeaseLost(f"{why}: nothing more may be written")
        return min(term.sent for term in terms) + HOLD - self._clock()

    def _lost(self, term: _Term) -> str:
        if not term.lost and self._clock() - term.sent >= HOLD:
            term.lost = f"the Lease was last renewed {self._clock() - term.sent:.1f} s ago, and may be somebody else's"
        return term.lost

    def renew_if_due(self) -> None:
        """Renew what was not renewed for five seconds; never raises a store's error."""
        for name, term in tuple(self._held.items()):
            if name in self._held and not self._lost(term) and self._clock() >= term.due:
                self._renew(name, term)

    def _renew(self, name: str, term: _Term) -> None:
        sent = self._clock()
        term.due = sent + RETRY_EVERY
        try:
            term.record = self._swap(name, term.record, Op("add", "/spec/renewTime", self._moving()))
            term.sent, term.due = sent, sent + RENEW_EVERY
        except (TestFailed, NotFound):  # a renewal of ours whose reply was lost, or another holder
            self._resolve(name, term)
        except MigratorError as error:
            self._log.warning("lease_renewal_failed", lease=name, error=str(error))

    def _resolve(self, name: str, term: _Term) -> None:
        try:
            found = self._read(name)
        except MigratorError as error:
            self._log.warning("lease_read_failed", lease=name, error=str(error))
            return
        if found is not None and found.term == term.record.term:
            term.record, term.due = found, self._clock()
            return
        if name not in self._held:
            return  # it was released meanwhile
        why = "was deleted" if found is None else "was taken over by another holder"
        term.lost = term.lost or f"Lease {self.namespace}/{name} {why}"
        self._log.error("lease_lost", lease=name, reason=why)

    def release_all(self, *, park: bool) -> None:
        """Release every Lease that is ours, the operator's first; with ``park`` those stay parked.

        Raises :class:`~migrator.errors.ClusterError` for an operator's that cannot be released. That our own cannot be
        is ignored: the next run waits a minute.
        """
        if self._end_renewals is not None:
            self._end_renewals()
            self._end_renewals = None
        operators = sorted(self._held.keys() - {OWN_LEASE})
        if park:
            for name in operators:
                del self._held[name]
                self._log.warning("lease_parked", lease=f"{self.namespace}/{name}", holder=PARKED)
        try:
            self.release(*operators)
        finally:
            with suppress(ClusterError, KeyboardInterrupt):
                self.release(OWN_LEASE)

    def release(self, *names: str) -> None:
        """Release those of these Leases that we took; raises :class:`~migrator.errors.ClusterError` if that fails."""
        taken = [(name, self._held.pop(name)) for name in names if name in self._held]
        kept = [name for name, term in taken if not self._release(name, term.record)]
        if kept:
            raise ClusterError(f"Lease {self.namespace}/{kept[0]} could not be released")

    def _release(self, name: str, record: LeaseRecord) -> bool:
        """Release one Lease by compare-and-swap; false if it may still be ours."""
        for _ in range(_ATTEMPTS):
            try:
                self._swap(name, record, Op("add", "/spec", self._spec(record, "", _RELEASED_SECONDS)))
            except (MigratorError, KeyboardInterrupt) as error:
                self._log.warning("lease_release_failed", lease=name, error=str(error))
            else:
                return True
            with suppress(MigratorError):
                found = self._read(name)
                if found is None or found.term != record.term:
                    return True
                record = found
        return False

    def _read(self, name: str) -> LeaseRecord | None:
        try:
            return _record(self._store.get(LEASES, self.namespace, name))
        except NotFound:
            return None

    def _create(self, name: str, spec: Mapping[str, Any]) -> LeaseRecord:
        metadata = {"name": name, "namespace": self.namespace}
        body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": dict(spec)}
        return _record(self._store.create(LEASES, self.namespace, body))

    def _swap(self, name: str, record: LeaseRecord, change: Op) -> LeaseRecord:
        tests = [Op("test", "/metadata/resourceVersion", record.resource_version)]
        if record.spec:
            tests.append(Op("test", "/spec/holderIdentity", record.spec.get("holderIdentity")))
        return _record(self._store.patch(LEASES, self.namespace, name, (*tests, change)))

    def _spec(self, before: LeaseRecord | None, holder: str, seconds: int) -> dict[str, Any]:
        """A new term; what else the Lease holds stays."""
        moment = self._moving()
        times = {"leaseDurationSeconds": seconds, "acquireTime": moment, "renewTime": moment}
        return {**(before.spec if before else {}), "holderIdentity": holder, **times}

    def _moving(self) -> str:
        """A time later than every one before: contenders see by the change that we are alive."""
        self._last = moment = max(self._context.now(), self._last + timedelta(microseconds=1))
        return micro_time(moment)


def _record(raw: JSONObject) -> LeaseRecord:
    metadata = raw.get("metadata") or {}  # a proxy may answer anything, and a renewal must not end the thread
    return LeaseRecord(str(metadata.get("resourceVersion", "")), dict(raw.get("spec") or {}))
