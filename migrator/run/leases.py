"""Who may write: the holder of our own Lease, while the operator's Lease is parked.

A Lease is free if it names no holder, if it is parked, or if we have seen it unchanged for its
``leaseDurationSeconds``, by our own clock: times that other machines wrote are never compared. Ours lasts 60 seconds
and is renewed every 5. Our hold ends for good 40 seconds after the *sending* of the last confirmed renewal, and every
write must end before that: none is under way once others may take the Lease. Its annotation is the record of the run,
so whoever takes the Lease has the record with it.

The operator's Lease is *parked* once the operator is gone: it gets a holder that does not exist, and keeps every
operator out for an hour (client-go, ``tools/leaderelection/leaderelection.go:tryAcquireOrRenew``), also if the run is
killed. A run that leaves nothing half-way gives it back.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from migrator import errors
from migrator.cluster import LONGEST_WRITE, Cluster
from migrator.exact_json import JSONObject, integer
from migrator.grove.objects import kubernetes_time
from migrator.kinds import LEASES, Op

if TYPE_CHECKING:
    from migrator.run.context import Context

#: Our own Lease, and the operator's (``operator/api/config/v1alpha1/defaults.go``).
OWN_LEASE: Final = "grove-migrator"
OPERATOR_LEASE: Final = "grove-operator-leader-election"
RECORD: Final = "grove-migrator/run"  # the annotation

DURATION: Final = 60.0
HOLD: Final = 40.0
RENEW_EVERY: Final = 5.0
RETRY_EVERY: Final = 2.0

#: For how many seconds nothing is written after the expiry of a Lease whose holder had not released it: a request of
#: that holder may still be under way.
QUIET: Final = 15.0

PARKED: Final = "grove-migrator: half migrated, run again"
_PARKED_SECONDS: Final = 3600
_PARK_AGAIN: Final = 600.0  # so often in a run

#: What it means that it is parked; and what is next, if every stored hash is as asked.
WAITS: Final = "The operator's Lease is parked, so an operator that starts waits for up to an hour from its own start"
LOCKED_OUT: Final = f"{WAITS}. {errors.AGAIN}"
_RENEWED_WITHIN: Final = 3.0  # an operator renews its own every 2 s (client-go's RetryPeriod)
_DEFAULT_SECONDS: Final = 15.0  # client-go's, for a Lease without a duration
_ATTEMPTS: Final = 3
#: After these a Lease is read again: another writer was faster, or nobody knows.
_NOT_TAKEN: Final = (errors.AlreadyExists, errors.TestFailed, errors.NotFound, errors.LostReply)


def monotonic() -> float:
    """Seconds that also pass while the machine is suspended: CLOCK_BOOTTIME, or CLOCK_MONOTONIC_RAW of macOS.

    ``time.monotonic`` stands still meanwhile (CPython issue 86273).
    """
    clock = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC_RAW", None))
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def micro_time(moment: datetime) -> str:
    """Kubernetes' MicroTime: UTC with exactly six fraction digits, or the API server answers 400."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as the API server returned it; all of it is empty if there is none."""

    version: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""
    written: datetime | None = None  # when it was last written, by the API server's clock

    @classmethod
    def of(cls, raw: JSONObject) -> Lease:
        """The Lease in an answer, of which any part may be absent."""
        metadata = raw.get("metadata") or {}
        written = (kubernetes_time(one.get("time")) for one in metadata.get("managedFields") or ())
        return cls(
            str(metadata.get("resourceVersion", "")),
            dict(raw.get("spec") or {}),
            dict(metadata.get("annotations") or {}),
            str(metadata.get("namespace", "")),
            max((moment for moment in written if moment is not None), default=None),
        )

    @property
    def exists(self) -> bool:
        """Whether there is one."""
        return bool(self.version)

    @property
    def holder(self) -> str:
        """``spec.holderIdentity``; empty when released or never held."""
        return str(self.spec.get("holderIdentity") or "")

    @property
    def term(self) -> tuple[Op, ...]:
        """Tests of what stays the same from an acquisition to its end."""
        return tuple(Op("test", f"/spec/{name}", self.spec.get(name)) for name in ("holderIdentity", "acquireTime"))

    @property
    def seconds(self) -> float:
        """``spec.leaseDurationSeconds`` of its holder."""
        return float(max(integer(self.spec.get("leaseDurationSeconds")), 0) or _DEFAULT_SECONDS)


def read(cluster: Cluster, namespace: str, name: str) -> Lease:
    """A Lease as it is now."""
    try:
        return Lease.of(cluster.get(LEASES, namespace, name))
    except errors.NotFound:
        return Lease()


def everywhere(cluster: Cluster, name: str) -> dict[str, Lease]:
    """The Leases of this name in all namespaces, by namespace."""
    return {one.namespace: one for one in cluster.list(LEASES, Lease.of, field_selector=f"metadata.name={name}")}


def renewed_elsewhere(cluster: Cluster, home: str, context: Context) -> list[str]:
    """The other namespaces in which an operator renews its Lease; if one has such a Lease, this waits for a renewal."""
    before = everywhere(cluster, OPERATOR_LEASE)
    before.pop(home, None)
    if not before:
        return []
    context.rest(_RENEWED_WITHIN)
    now = everywhere(cluster, OPERATOR_LEASE)
    return [one for one, was in before.items() if one in now and now[one].spec != was.spec]


def try_to_write(cluster: Cluster, namespace: str, name: str) -> None:
    """Dry-run the writes that a run makes to this Lease, with exactly the rights that they need.

    A Lease that is created is patched later, so the right to patch is asked for also where there is none.
    """
    asked = cluster.in_dry_run()
    read(cluster, namespace, name)
    try:
        asked.patch(LEASES, namespace, name, (Op("test", "/metadata/name", name),))
    except errors.NotFound:
        with suppress(errors.AlreadyExists):  # another run has just made it
            asked.create(LEASES, namespace, _body(namespace, name, {}))


def _body(namespace: str, name: str, spec: Mapping[str, Any]) -> JSONObject:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": dict(spec)}


class Leases:
    """Our own Lease, held or waited for, and the operator's; the context's ``repeat`` renews ours meanwhile."""

    def __init__(self, cluster: Cluster, namespace: str, context: Context) -> None:
        self._store = cluster
        self.namespace = namespace  # of both Leases; empty until it is known
        self._context = context
        self._clock = context.clock
        self._log = context.log
        self._held: Lease | None = None
        self._record = ""  # what it holds, whatever others do to the annotation
        self._parked_at = -math.inf  # when this run parked the operator's, or renewed that
        self._asked: tuple[Lease, float] | None = None  # a term that we asked for without an answer so far
        self._sent = self._due = 0.0  # of the last confirmed renewal; when the next one is to be
        self._quiet_until = dict[str, float]()  # by Lease: writes of its last holder may be late
        self._why_lost = self._why_late = ""
        self._seen: dict[str, tuple[Lease, float]] = {}  # others' Leases, and since when they are unchanged
        self._end_renewals: Callable[[], None] = lambda: None
        self._lock = threading.RLock()  # the renewals' thread and ours write one object

    # --- what is held -----------------------------------------------------------------------------------------------

    @property
    def taken(self) -> bool:
        """Whether this run has taken its Lease and not released it; it may be lost, or not usable yet."""
        return self._held is not None

    @property
    def contended(self) -> bool:
        """Whether this run has seen another one hold our own Lease, and has not taken it since; asks no server."""
        return OWN_LEASE in self._seen

    @property
    def keeps_operators_out(self) -> bool:
        """Whether this run has parked the operator's Lease and not given it back; asks no server."""
        return self._parked_at > -math.inf

    @property
    def held(self) -> bool:
        """Whether our own Lease is ours now, and may be used; asks no server."""
        return self.taken and not self._lost() and self._clock() >= self._quiet_until.get(OWN_LEASE, 0.0)

    def seconds_left(self) -> float:
        """Seconds for which it is certainly ours; raises :class:`~migrator.errors.LeaseLost` if there is none."""
        why = self._lost() if self.taken else f"Lease {self.namespace}/{OWN_LEASE} was never taken"
        if why:
            raise errors.LeaseLost(f"{why}: nothing more may be written")
        return self._sent + HOLD - self._clock()

    def _lost(self) -> str:
        if not self._why_lost and self._clock() - self._sent >= HOLD:
            late = self._clock() - self._sent
            why = f" ({self._why_late})" if self._why_late else ""
            self._why_lost = f"the Lease was last renewed {late:.1f} s ago{why}, and may be somebody else's"
        return self._why_lost

    @property
    def server_time(self) -> datetime:
        """When our own Lease was last written, by the API server's clock where it tells."""
        return (self._held.written if self._held else None) or self._context.now()

    def record_in(self, namespace: str) -> str:
        """The text of the record there; empty without one. While the Lease is ours nobody else writes it."""
        if self._held is not None:
            return self._record
        return read(self._store, namespace, OWN_LEASE).annotations.get(RECORD, "")

    def save(self, text: str) -> None:
        """Replace the record; raises :class:`~migrator.errors.LeaseLost` if the Lease is not ours any more."""
        self.seconds_left()
        before = self._held.annotations if self._held else {}
        annotations = {key: value for key, value in before.items() if key != RECORD} | ({RECORD: text} if text else {})
        if annotations != before:
            self._write(Op("add", "/metadata/annotations", annotations))
        self._record = text

    # --- taking, renewing, releasing --------------------------------------------------------------------------------

    def obtain(self) -> str:
        """Take our own Lease if it is free; returns what is in the way, empty once it may be used."""
        if self.taken:
            return self._late_writes()
        for _ in range(_ATTEMPTS):
            began, found = self._clock(), read(self._store, self.namespace, OWN_LEASE)
            if self._asked is not None and self._asked[0].term == found.term:
                self._hold(found, self._asked[1])  # the reply to our acquisition was lost
                return self._late_writes()
            if why := self._obstacle(OWN_LEASE, found, began):
                return why
            sent, spec = self._clock(), self._spec(found, self._context.identity, int(DURATION))
            self._asked = Lease(spec=spec), sent
            try:
                self._hold(self._replace(OWN_LEASE, found, spec), sent)
                return self._late_writes()
            except _NOT_TAKEN as error:
                failed = error
        raise errors.ClusterError(f"Lease {self.namespace}/{OWN_LEASE} is free, and could not be taken: {failed}")

    def park(self) -> str:
        """Take the operator's Lease from operators, if it is free; returns what is in the way, empty once it is.

        One that is parked is renewed, in a long run again: each operator waits for its duration since the last change.
        """
        for _ in range(_ATTEMPTS):
            began, found = self._clock(), read(self._store, self.namespace, OPERATOR_LEASE)
            if found.holder == PARKED and self._clock() < self._parked_at + _PARK_AGAIN:
                return self._late_writes()
            if why := self._obstacle(OPERATOR_LEASE, found, began):
                return why
            self.seconds_left()  # after the reading: whoever writes that Lease after us changes what was read
            try:
                self._replace(OPERATOR_LEASE, found, self._spec(found, PARKED, _PARKED_SECONDS))
                self._parked_at = began
                self._wait_for_late_writes(OPERATOR_LEASE)
                return self._late_writes()
            except _NOT_TAKEN as error:
                failed = error
        raise errors.ClusterError(f"Lease {self.namespace}/{OPERATOR_LEASE} is free, and could not be taken: {failed}")

    def unpark(self) -> None:
        """Give the operator's Lease back; raises :class:`~migrator.errors.HalfWay` if that fails.

        Raises :class:`~migrator.errors.LeaseLost` if our own is not ours any more: another run may have parked it.
        """
        why = ""
        for _ in range(_ATTEMPTS):
            try:
                found = read(self._store, self.namespace, OPERATOR_LEASE)
                self.seconds_left()  # after the reading: whoever writes that Lease after us changes what was read
                if found.holder == PARKED:
                    self._replace(OPERATOR_LEASE, found, self._spec(found, "", 1))
            except errors.LeaseLost:
                raise
            except (errors.MigratorError, KeyboardInterrupt) as error:
                why = str(error).removesuffix(".") or "interrupted"
                self._log.warning("lease_release_failed", lease=OPERATOR_LEASE, error=why)
            else:
                self._parked_at = -math.inf
                return
        raise errors.HalfWay(f"Lease {self.namespace}/{OPERATOR_LEASE} could not be released: {why}. {LOCKED_OUT}")

    def release(self) -> None:
        """Release our own Lease; that it cannot be is ignored: the next run waits a minute."""
        self._end_renewals()
        mine, self._held = self._held, None
        if mine is not None and not self._why_lost:
            with suppress(Exception, KeyboardInterrupt):
                self._store.patch(
                    LEASES, self.namespace, OWN_LEASE, (*mine.term, Op("add", "/spec", self._spec(mine, "", 1)))
                )

    def renew_if_due(self) -> None:
        """Renew what was not renewed for five seconds; never raises, and is tried again."""
        if not self.taken or self._lost() or self._clock() < self._due:
            return
        sent = self._clock()
        self._due = sent + RETRY_EVERY
        try:
            self._write(Op("add", "/spec/renewTime", micro_time(self._context.now())), attempts=1)
            self._sent, self._due, self._why_late = sent, sent + RENEW_EVERY, ""
        except Exception as error:  # noqa: BLE001 - the next one may succeed, and who writes asks what is left
            self._why_late = errors.said(error)
            self._log.warning("lease_renewal_failed", lease=OWN_LEASE, error=self._why_late)

    def _write(self, change: Op, *, attempts: int = _ATTEMPTS) -> None:
        """Change our own Lease, as long as it is ours."""
        for attempt in range(1, attempts + 1):
            try:
                with self._lock:
                    ops = (*(self._held or Lease()).term, change)
                    self._held = Lease.of(self._store.patch(LEASES, self.namespace, OWN_LEASE, ops))
                    return
            except (errors.TestFailed, errors.NotFound) as error:
                self._why_lost = f"Lease {self.namespace}/{OWN_LEASE} was taken over by another holder, or deleted"
                self._log.error("lease_lost", lease=OWN_LEASE)
                raise errors.LeaseLost(f"{self._why_lost}: nothing more may be written") from error
            except errors.LostReply:
                if attempt == attempts:
                    raise
                self._context.rest(LONGEST_WRITE)  # it may arrive so late, and must not replace the next record

    def _hold(self, lease: Lease, sent: float) -> None:
        self._held, self._sent, self._due = lease, sent, sent + RENEW_EVERY
        self._record = lease.annotations.get(RECORD, "")
        taken_over = self._wait_for_late_writes(OWN_LEASE)
        self._log.info("lease_held", lease=f"{self.namespace}/{OWN_LEASE}", taken_over=taken_over)
        self._end_renewals = self._context.repeat(self.renew_if_due, RETRY_EVERY / 2)

    def _late_writes(self) -> str:
        """What is in the way although a Lease is ours: writes of a holder that had not released it."""
        self.seconds_left()
        is_quiet = self._clock() >= max(self._quiet_until.values(), default=0.0)
        return "" if is_quiet else f"waiting {QUIET:.0f} s for late writes of a Lease's last holder"

    def _wait_for_late_writes(self, name: str) -> bool:
        """Begin the quiet period after a Lease whose holder had not released it; false if there was none."""
        if (seen := self._seen.pop(name, None)) is None:
            return False
        lease, since = seen
        self._quiet_until[name] = max(self._quiet_until.get(name, 0.0), since + lease.seconds + QUIET)
        return True

    def _obstacle(self, name: str, found: Lease, began: float) -> str:
        """Who holds a Lease; empty if it is free. The holder of a deleted one goes on until its next renewal fails."""
        seen = self._seen.get(name)
        if found.exists and found.holder in {"", PARKED}:
            if not found.holder:  # released, so none of its writes is late
                self._seen.pop(name, None)
            return ""
        if not found.exists and seen is None:
            return ""
        if seen is None or (found.exists and seen[0].spec != found.spec):
            seen = self._seen[name] = found, self._clock()
        lease, since = seen
        has_expired = began >= since + lease.seconds
        return "" if has_expired else f"Lease {name} is held by {lease.holder}"

    def _replace(self, name: str, found: Lease, spec: Mapping[str, Any]) -> Lease:
        """Write a Lease as it was found; a faster writer lets this fail."""
        if found.exists:
            ops = Op("test", "/metadata/resourceVersion", found.version), Op("add", "/spec", spec)
            return Lease.of(self._store.patch(LEASES, self.namespace, name, ops))
        return Lease.of(self._store.create(LEASES, self.namespace, _body(self.namespace, name, spec)))

    def _spec(self, before: Lease, holder: str, seconds: int) -> dict[str, Any]:
        """A new term; what else the Lease holds stays."""
        moment = micro_time(self._context.now())
        times = {"leaseDurationSeconds": seconds, "acquireTime": moment, "renewTime": moment}
        return {**before.spec, "holderIdentity": holder, **times}
