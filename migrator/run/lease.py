"""One Lease object: reading it, and writing it by compare-and-swap.

The API server enforces nothing but the swap; expiry is for the contenders to judge (:mod:`migrator.run.fence`).
Layout and release follow client-go (``tools/leaderelection/resourcelock/leaselock.go``,
``tools/leaderelection/leaderelection.go:release``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from migrator.exact_json import JSONObject
from migrator.resources import LEASES, Op
from migrator.store import Store

_RELEASED_SECONDS: Final = 1


def micro_time(moment: datetime) -> str:
    """Kubernetes' MicroTime: UTC with exactly six fraction digits, or the API server answers 400."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def utc_now() -> datetime:
    """The wall clock, for records only: no decision compares it with another machine's."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A Lease as the API server returned it."""

    resource_version: str
    spec: Mapping[str, Any]

    @classmethod
    def of(cls, raw: JSONObject) -> LeaseRecord:
        """Trim a raw Lease."""
        return cls(str(raw["metadata"].get("resourceVersion", "")), dict(raw.get("spec") or {}))

    @property
    def holder(self) -> str:
        """``spec.holderIdentity``; empty when released or never held."""
        return str(self.spec.get("holderIdentity") or "")

    @property
    def transitions(self) -> int:
        """``spec.leaseTransitions``."""
        value = self.spec.get("leaseTransitions")
        return value if isinstance(value, int) else 0

    @property
    def term(self) -> tuple[str, object, int]:
        """What stays the same from an acquisition to its end: holder, acquireTime and transitions."""
        return self.holder, self.spec.get("acquireTime"), self.transitions

    def seconds(self, default: float) -> float:
        """``spec.leaseDurationSeconds`` of its holder; ``default`` where it is absent or not positive."""
        value = self.spec.get("leaseDurationSeconds")
        return float(value) if isinstance(value, int) and value > 0 else default


class LeaseObject:
    """A Lease by namespace and name, behind a store.

    Every write raises what :meth:`Store.patch` raises, :class:`~migrator.errors.TestFailed` above all: then
    somebody else has written since ``record`` was read.
    """

    def __init__(self, store: Store, namespace: str, name: str) -> None:
        self._store = store
        self._namespace = namespace
        self._name = name
        self._last_renewal = datetime.min.replace(tzinfo=UTC)

    def __str__(self) -> str:
        return f"Lease {self._namespace}/{self._name}"

    def get(self) -> LeaseRecord:
        """Read it; raises :class:`~migrator.errors.NotFound` where it does not exist."""
        return LeaseRecord.of(self._store.get(LEASES, self._namespace, self._name))

    def wanted(self, identity: str, duration: float, now: datetime, *, after: LeaseRecord | None) -> dict[str, Any]:
        """The spec of a new term for ``identity``, following on ``after``."""
        moment = micro_time(self._moving(now))
        return {
            **(after.spec if after else {}),
            "holderIdentity": identity,
            "leaseDurationSeconds": math.ceil(duration),
            "acquireTime": moment,
            "renewTime": moment,
            "leaseTransitions": after.transitions + 1 if after else 0,
        }

    def create(self, spec: Mapping[str, Any]) -> LeaseRecord:
        """Create it; raises :class:`~migrator.errors.AlreadyExists` if somebody was faster."""
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": dict(spec),
        }
        return LeaseRecord.of(self._store.create(LEASES, self._namespace, body))

    def take(self, record: LeaseRecord, spec: Mapping[str, Any]) -> LeaseRecord:
        """Swap in a new term."""
        return self._swap(record, (Op("add", "/spec", dict(spec)),))

    def renew(self, record: LeaseRecord, now: datetime) -> LeaseRecord:
        """Move ``renewTime``."""
        return self._swap(record, (Op("add", "/spec/renewTime", micro_time(self._moving(now))),))

    def release(self, record: LeaseRecord, now: datetime) -> LeaseRecord:
        """Let go of it as client-go does: no holder, one second, transitions kept."""
        moment = micro_time(self._moving(now))
        spec = {
            **record.spec,
            "holderIdentity": "",
            "leaseDurationSeconds": _RELEASED_SECONDS,
            "acquireTime": moment,
            "renewTime": moment,
        }
        return self._swap(record, (Op("add", "/spec", spec),))

    def _swap(self, record: LeaseRecord, change: tuple[Op, ...]) -> LeaseRecord:
        tests = [Op("test", "/metadata/resourceVersion", record.resource_version)]
        if record.spec:
            tests.append(Op("test", "/spec/holderIdentity", record.spec.get("holderIdentity")))
        return LeaseRecord.of(self._store.patch(LEASES, self._namespace, self._name, (*tests, *change)))

    def _moving(self, now: datetime) -> datetime:
        """A time later than every one before: contenders see that we live by seeing the text change."""
        self._last_renewal = max(now, self._last_renewal + timedelta(microseconds=1))
        return self._last_renewal
