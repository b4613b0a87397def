"""The objects of a cluster in memory, and what others than the product do to them."""

from __future__ import annotations

import json
import marshal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final, TypeVar, cast

from migrator import kinds
from migrator.exact_json import JSONObject
from migrator.kinds import Resource

T = TypeVar("T")

CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
RESOURCES: Final = (*(one for one in vars(kinds).values() if isinstance(one, Resource)), CONFIG_MAPS)
_BY_KIND: Final = {(resource.api_version, resource.kind): resource for resource in RESOURCES}
_WITHOUT_GENERATION: Final = frozenset({CONFIG_MAPS, kinds.LEASES})


def epoch() -> datetime:
    """The time in a cluster that has no clock."""
    return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass(slots=True)
class State:
    """What all views of one cluster share."""

    objects: dict[tuple[Resource, str, str], JSONObject] = field(default_factory=dict)
    version: int = 0
    uids: Iterator[int] = field(default_factory=lambda: count(1))
    lock: threading.RLock = field(default_factory=threading.RLock)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal in type and spelling: ``1``, ``1.0``, ``"1"`` and ``true`` all differ."""
    return json.dumps(one, sort_keys=True, default=repr) == json.dumps(other, sort_keys=True, default=repr)


class Objects:
    """Objects, given as JSON with ``apiVersion`` and ``kind``, whose versions and generations move as on a server."""

    def __init__(self, *objects: JSONObject, now: Callable[[], datetime] = epoch) -> None:
        self._now = now
        self._state = State()
        for body in objects:
            self.put(body)

    @property
    def version(self) -> str:
        """The newest resource version: as long as it stays, nothing has changed."""
        return str(self._state.version)

    def put(self, body: JSONObject) -> JSONObject:
        """Store an object as others would, new or changed, status included; returns it as it is stored."""
        resource = _BY_KIND[body["apiVersion"], body["kind"]]
        metadata = body["metadata"]
        namespace = metadata.get("namespace", "default") if resource.namespaced else ""
        with self._state.lock:
            old = self._state.objects.get((resource, namespace, metadata["name"]))
            stored = copied(body)
            if resource.namespaced:
                stored["metadata"]["namespace"] = namespace
            return copied(self._store(resource, old, stored))

    def edit(self, resource: Resource, namespace: str, name: str, change: Callable[[JSONObject], object]) -> JSONObject:
        """Change an object as others would: ``change`` is given a copy to work on."""
        with self._state.lock:
            body = self.read(resource, namespace, name)
            change(body)
            return self.put(body)

    def terminate(self, resource: Resource, namespace: str, name: str) -> JSONObject:
        """Begin to delete an object that a finalizer or a grace period keeps for now."""
        stamp = timestamp(self._now())
        return self.edit(resource, namespace, name, lambda body: body["metadata"].update(deletionTimestamp=stamp))

    def drop(self, resource: Resource, namespace: str, name: str, *, cascade: bool = True) -> None:
        """Delete an object as others would, and with ``cascade`` all that it owns; absent is fine."""
        with self._state.lock:
            gone = self._state.objects.pop((resource, namespace, name), None)
            self._state.version += 1
            if gone is None or not cascade:
                return
            uid = gone["metadata"]["uid"]
            for key, body in tuple(self._state.objects.items()):
                if any(owner.get("uid") == uid for owner in body["metadata"].get("ownerReferences") or ()):
                    self.drop(*key)

    def read(self, resource: Resource, namespace: str, name: str) -> JSONObject:
        """An object as it is stored, to keep; raises ``KeyError``."""
        with self._state.lock:
            return copied(self._state.objects[resource, namespace, name])

    def everything(self, *wanted: Resource) -> list[JSONObject]:
        """Every object as it is stored, of these resources only if any are named, in the order of a list."""
        with self._state.lock:
            keys = [key for key in self._state.objects if not wanted or key[0] in wanted]
            keys.sort(key=lambda key: (RESOURCES.index(key[0]), key[1], key[2]))
            return [copied(self._state.objects[key]) for key in keys]

    def _store(self, resource: Resource, old: JSONObject | None, new: JSONObject) -> JSONObject:
        """Store ``new``, which is ours to change, as the API server would: a no-op moves nothing."""
        metadata = new["metadata"]
        if old is None:
            metadata.setdefault("uid", f"00000000-0000-4000-8000-{next(self._state.uids):012d}")
            metadata.setdefault("creationTimestamp", timestamp(self._now()))
            if resource not in _WITHOUT_GENERATION:
                metadata.setdefault("generation", 1)
        else:
            if same(old, new):
                return old
            for key in ("uid", "creationTimestamp", "generation"):
                if key in old["metadata"]:
                    metadata.setdefault(key, old["metadata"][key])
            unmoved = metadata.get("generation") == old["metadata"].get("generation")
            if unmoved and "generation" in metadata and not same(_desired(old), _desired(new)):
                metadata["generation"] += 1
        self._state.version += 1
        metadata["resourceVersion"] = str(self._state.version)
        self._state.objects[resource, metadata.get("namespace", ""), metadata["name"]] = new
        return new


def copied(value: T) -> T:
    """A copy of a JSON value, in a fraction of the time that ``copy.deepcopy`` takes for what may be anything."""
    with suppress(ValueError):  # raised for a number that keeps its spelling; version 2 shares nothing
        return cast(T, marshal.loads(marshal.dumps(value, 2)))  # noqa: S302 - our own
    if isinstance(value, dict):
        return cast(T, {key: copied(item) for key, item in value.items()})
    if isinstance(value, list):
        return cast(T, [copied(item) for item in value])
    return value


def timestamp(moment: datetime) -> str:
    """A time as Kubernetes writes it (``metav1.Time``)."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _desired(body: JSONObject) -> JSONObject:
    """What counts for the generation: all but metadata and status."""
    return {key: value for key, value in body.items() if key not in {"metadata", "status"}}
