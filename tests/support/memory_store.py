"""A cluster in memory: a :class:`migrator.store.Store` that answers as the API server was seen to answer.

It keeps what the migrator's safety rests on: compare-and-swap on values, resource versions, generations that move
with the spec alone, status and scale as subresources of their own, dry runs that validate and do not store, and
validation errors that are not failed tests. ``tests/cluster/test_store.py`` compares it with a real API server.
"""

from __future__ import annotations

import copy
import marshal
import threading
from collections.abc import Callable, Collection, Generator, Mapping
from collections.abc import Sequence as ReadOnly  # ``list`` is a method of a store
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final, TypeVar, cast

from migrator import resources
from migrator.errors import AlreadyExists, Conflict, LeaseLost, MigratorError, NotFound, Rejected
from migrator.exact_json import JSONObject
from migrator.resources import Op, Resource
from migrator.selectors import matches_labels
from migrator.store import DryRun, Listing, Look, Write, in_turn
from migrator.stores.dump.patching import same
from tests.support.api_validation import validate
from tests.support.server_patch import apply_ops, patched

K = TypeVar("K")
T = TypeVar("T")

SELF_SUBJECT_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CUSTOM_RESOURCE_DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
RESOURCES: Final = (
    *(resource for resource in vars(resources).values() if isinstance(resource, Resource)),
    *(SELF_SUBJECT_REVIEWS, NAMESPACES, CUSTOM_RESOURCE_DEFINITIONS),
)
_BY_KIND: Final = {(resource.api_version, resource.kind): resource for resource in RESOURCES}
_WITHOUT_GENERATION: Final = frozenset({resources.CONFIG_MAPS, resources.LEASES, resources.EVENTS, NAMESPACES})
_BRIEF_GROUPS: Final = frozenset({"grove.io", "scheduler.grove.io"})
_OWN_METADATA: Final = ("uid", "name", "namespace", "creationTimestamp")
_START: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it was sent; ``number`` counts writes other than dry runs from 1 and is 0 for all others."""

    verb: str  # "list" | "get" | "create" | "patch" | "delete"
    resource: Resource
    namespace: str
    name: str
    subresource: str = ""
    ops: tuple[Op, ...] = ()
    body: Mapping[str, Any] = field(default_factory=dict)
    dry_run: DryRun = DryRun.NONE
    number: int = 0

    @property
    def target(self) -> str:
        """``pods/web-0``, ``deployments/grove-operator/scale``."""
        return "/".join(filter(None, (self.resource.plural, self.name, self.subresource)))


Hook = Callable[[Request], None]


@dataclass(slots=True)
class _State:
    """What all views of one cluster share."""

    objects: dict[tuple[Resource, str, str], JSONObject] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    before: list[Hook] = field(default_factory=list)
    after: list[Hook] = field(default_factory=list)
    version: int = 0
    writes: int = 0
    uids: count[int] = field(default_factory=lambda: count(1))
    lock: threading.RLock = field(default_factory=threading.RLock)


class MemoryStore:
    """The cluster. Objects are given, and put, as JSON with ``apiVersion`` and ``kind``.

    ``without`` names resources that are not installed. ``before`` and ``after`` are called for every request and may
    raise: before, it never arrived; after, it was applied and its answer got lost. ``user`` is who we are.
    """

    is_cluster = True
    request_timeout = 0.5

    def __init__(
        self,
        *objects: JSONObject,
        without: Collection[Resource] = (),
        user: str = "system:serviceaccount:grove-system:grove-migrator",
        now: Callable[[], datetime] = lambda: _START,
    ) -> None:
        self.dry_run = DryRun.NONE
        self._left: Callable[[], float] = lambda: 1.0
        self.user = user
        self._without = frozenset(without)
        self._now = now
        self._state = _State()
        for body in objects:
            self.put(body)

    # --- for tests: what others do, and what can be seen without a request -----------------------------------------

    @property
    def before(self) -> list[Hook]:
        """Called before a request is applied; raise to let it never arrive."""
        return self._state.before

    @property
    def after(self) -> list[Hook]:
        """Called after a request was applied; raise to let its answer get lost."""
        return self._state.after

    @property
    def requests(self) -> list[Request]:
        """Every request that was sent, oldest first."""
        return self._state.requests

    @property
    def version(self) -> str:
        """The newest resource version: as long as it stays, nothing has changed."""
        return str(self._state.version)

    def writes(self, *resources: Resource) -> list[Request]:
        """Every write that was sent, dry runs aside, oldest first; of these resources only if any are named."""
        return [r for r in self.requests if r.number and (not resources or r.resource in resources)]

    def inject(
        self,
        error: Callable[[], BaseException],
        *,
        when: Callable[[Request], bool],
        times: int = 1,
        applied: bool = False,
    ) -> None:
        """Raise ``error()`` for the next requests that match; with ``applied`` they take effect all the same."""
        left = count(times, -1)

        def hook(request: Request) -> None:
            if when(request) and next(left) > 0:
                raise error()

        (self.after if applied else self.before).append(hook)

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
        stamp = _time(self._now())
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

    def everything(self, *resources: Resource) -> list[JSONObject]:
        """Every object as it is stored, of these resources only if any are named, in the order of a list."""
        with self._state.lock:
            wanted = [key for key in self._state.objects if not resources or key[0] in resources]
            keys = sorted(wanted, key=lambda key: (RESOURCES.index(key[0]), key[1], key[2]))
            return [copied(self._state.objects[key]) for key in keys]

    # --- the seam -----------------------------------------------------------------------------------------------------

    def in_dry_run(self, mode: DryRun) -> MemoryStore:
        """The same cluster, whose writes are of ``mode``."""
        other = copy.copy(self)
        other.dry_run = mode
        return other

    def within(self, left: Callable[[], float]) -> MemoryStore:
        """See :meth:`migrator.store.Store.within`."""
        other = copy.copy(self)
        other._left = left
        return other

    def list(
        self,
        resource: Resource,
        project: Callable[[JSONObject], T],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
        look: Look | None = None,
    ) -> Listing[T]:
        """See :meth:`migrator.store.Store.list`."""
        request = Request("list", resource, namespace or "", "")
        self._arrive(request)
        with self._state.lock:
            found = [
                copied(_brief(body) if metadata_only else body)
                for key, body in sorted(self._state.objects.items(), key=lambda item: item[0][1:])
                if key[0] == resource
                and namespace in {None, body["metadata"].get("namespace")}
                and matches_labels(label_selector, body["metadata"].get("labels") or {})
                and matches_labels(field_selector, {"status.phase": (body.get("status") or {}).get("phase", "")})
            ]
            version = str(self._state.version)
        listing = Listing(tuple(map(project, found)), version)
        if look is not None:
            look(found, None)
        self._answer(request)
        return listing

    def kinds(self, group: str) -> tuple[Resource, ...]:
        """See :meth:`migrator.store.Store.kinds`."""
        return tuple(r for r in RESOURCES if r.group == group and r not in self._without)

    def get(self, resource: Resource, namespace: str, name: str, *, subresource: str = "") -> JSONObject:
        """See :meth:`migrator.store.Store.get`."""
        request = Request("get", resource, namespace, name, subresource)
        self._arrive(request)
        with self._state.lock:
            body = self._find(resource, namespace, name)
            found = _scale(body) if subresource == "scale" else copied(body)
        self._answer(request)
        return found

    def create(self, resource: Resource, namespace: str, body: JSONObject) -> JSONObject:
        """See :meth:`migrator.store.Store.create`."""
        if self.dry_run is DryRun.CLIENT:
            return body
        wanted = copied(body)
        metadata = wanted.setdefault("metadata", {})
        if "name" not in metadata and "generateName" in metadata:
            metadata["name"] = f"{metadata['generateName']}{len(self.requests):05d}"
        name = metadata.get("name", "")
        request = Request("create", resource, namespace, name, body=copied(body), dry_run=self.dry_run)
        request = self._arrive(request)
        if resource == SELF_SUBJECT_REVIEWS:
            return {**wanted, "status": {"userInfo": {"username": self.user}}}
        with self._state.lock:
            if (resource, namespace, name) in self._state.objects:
                raise AlreadyExists(f"{request.target} already exists", status=409, reason="AlreadyExists")
            metadata["namespace"] = namespace
            if not resource.namespaced:
                del metadata["namespace"]
            validate(resource, wanted)
            stored = wanted if self.dry_run is DryRun.SERVER else self._store(resource, None, wanted)
        self._answer(request)
        return copied(stored)

    def patch(
        self, resource: Resource, namespace: str, name: str, ops: ReadOnly[Op], *, subresource: str = ""
    ) -> JSONObject:
        """See :meth:`migrator.store.Store.patch`."""
        if self.dry_run is DryRun.CLIENT:
            return {}
        request = Request("patch", resource, namespace, name, subresource, tuple(ops), dry_run=self.dry_run)
        request = self._arrive(request)
        with self._state.lock:
            old = self._find(resource, namespace, name)
            if subresource == "scale":
                view = apply_ops(_scale(old), ops)
                new = {**old, "spec": {**old["spec"], "replicas": view["spec"].get("replicas", 0)}}
            elif subresource == "status" and resource == resources.PODS:
                new = apply_ops(old, ops)  # pods/status takes labels too
            else:
                new = patched(old, ops, subresource=subresource)
            _keep_identity(request, old, new)
            validate(resource, new)
            if self.dry_run is DryRun.NONE:
                new = self._store(resource, old, copied(new))
            answer = _scale(new) if subresource == "scale" else copied(new)
        self._answer(request)
        return _brief(answer) if resource == resources.PODS or resource.group in _BRIEF_GROUPS else answer

    def patches(
        self, take: Callable[[], tuple[K, Write] | None], *, concurrency: int
    ) -> Generator[tuple[K, MigratorError | None], None, None]:
        """See :meth:`migrator.store.Store.patches`: one after the other."""
        del concurrency
        return in_turn(self, take)

    def delete(self, resource: Resource, namespace: str, name: str, uid: str) -> None:
        """See :meth:`migrator.store.Store.delete`."""
        if self.dry_run is DryRun.CLIENT:
            return
        request = self._arrive(Request("delete", resource, namespace, name, dry_run=self.dry_run))
        with self._state.lock:
            found = self._state.objects.get((resource, namespace, name))
            if found is not None and found["metadata"]["uid"] == uid and self.dry_run is DryRun.NONE:
                self.drop(resource, namespace, name)
        self._answer(request)

    def _arrive(self, request: Request) -> Request:
        """Log a request and let the hooks see it; raises what they raise."""
        if request.verb not in {"list", "get"} and self._left() <= 0:
            raise LeaseLost("the hold has ended")
        with self._state.lock:
            if request.verb not in {"list", "get"} and request.dry_run is DryRun.NONE:
                self._state.writes += 1
                request = replace(request, number=self._state.writes)
            self._state.requests.append(request)
        for hook in tuple(self._state.before):
            hook(request)
        if request.resource in self._without:
            raise NotFound(f"the server has no {request.resource.qualified_name}", status=404, reason="NotFound")
        return request

    def _answer(self, request: Request) -> None:
        for hook in tuple(self._state.after):
            hook(request)

    def _find(self, resource: Resource, namespace: str, name: str) -> JSONObject:
        body = self._state.objects.get((resource, namespace, name))
        if body is None:
            raise NotFound(f'{resource.qualified_name} "{name}" not found', status=404, reason="NotFound")
        return body

    def _store(self, resource: Resource, old: JSONObject | None, new: JSONObject) -> JSONObject:
        """Store ``new``, which is ours to change, as the API server would: a no-op moves nothing."""
        metadata = new["metadata"]
        if old is None:
            metadata.setdefault("uid", f"00000000-0000-4000-8000-{next(self._state.uids):012d}")
            metadata.setdefault("creationTimestamp", _time(self._now()))
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


def _desired(body: JSONObject) -> JSONObject:
    """What counts for the generation: all but metadata and status."""
    return {key: value for key, value in body.items() if key not in {"metadata", "status"}}


def _brief(body: JSONObject) -> JSONObject:
    """What is left of an object when only its metadata was asked for; the migrator's stores fill in the kind."""
    return {key: body[key] for key in ("apiVersion", "kind", "metadata")}


def _scale(body: JSONObject) -> JSONObject:
    """The scale subresource, in which zero is an absent field (Kubernetes: ``autoscaling/v1`` ``ScaleSpec``)."""
    replicas = body["spec"].get("replicas", 1)
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {key: body["metadata"][key] for key in kept},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": (body.get("status") or {}).get("replicas", 0)},
    }


def _keep_identity(request: Request, old: JSONObject, new: JSONObject) -> None:
    """Refuse what no patch may change. Raises ``Rejected``, or ``Conflict`` for a stale resource version."""
    for key in _OWN_METADATA:
        if old["metadata"].get(key) != new["metadata"].get(key):
            raise Rejected(f"{request.target}: metadata.{key}: field is immutable", status=422, reason="Invalid")
    if old["metadata"]["resourceVersion"] != new["metadata"].get("resourceVersion"):
        raise Conflict(f"{request.target}: the object has been modified", status=409, reason="Conflict")


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
