"""A cluster in memory: the API server's answers as measured, a log of every request, and faults on demand."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from migrator.errors import AlreadyExists, LostReply, NotFound
from migrator.jsonvalue import JSONObject
from migrator.patching import apply_ops, patched, same
from migrator.selection import matches_labels
from migrator.store import DryRun, Listing, Op, Resource

T = TypeVar("T")

CREATED = "2026-01-01T00:00:00Z"
USER = "system:serviceaccount:grove-system:grove-migrator"

WRITES = frozenset({"create", "patch", "delete"})
_WITH_GENERATION = frozenset({"grove.io", "scheduler.grove.io", "apps"})

_Key = tuple[str, str, str]  # qualified plural, namespace, name


@dataclass(frozen=True, slots=True)
class Request:
    """One request that reached the server (a client-side dry run sends none)."""

    verb: str
    resource: Resource
    namespace: str
    name: str
    subresource: str = ""
    ops: tuple[Op, ...] = ()
    dry_run: DryRun = DryRun.NONE

    @property
    def writes(self) -> bool:
        """Whether it changes anything."""
        return self.verb in WRITES and self.dry_run is DryRun.NONE


Hook = Callable[[Request], None]
Matcher = Callable[[Request], bool]


@dataclass
class _State:
    """What all views of one cluster share."""

    objects: dict[_Key, JSONObject] = field(default_factory=dict)
    uninstalled: set[Resource] = field(default_factory=set)
    requests: list[Request] = field(default_factory=list)
    before: list[Hook] = field(default_factory=list)
    after: list[Hook] = field(default_factory=list)
    version: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)


class MemoryStore:
    """A :class:`migrator.store.Store`; every object goes in and out as a copy.

    A hook in ``before`` that raises stands for a request that never arrived or was refused; one in ``after`` for an
    answer that got lost. Hooks may change the cluster: they are whoever else is there.
    """

    is_cluster = True
    request_timeout = 15.0
    user = USER

    def __init__(
        self,
        objects: Iterable[tuple[Resource, JSONObject]] = (),
        *,
        uninstalled: Iterable[Resource] = (),
        dry_run: DryRun = DryRun.NONE,
    ) -> None:
        self.dry_run = dry_run
        self._state = _State(uninstalled=set(uninstalled))
        for resource, body in objects:
            self.put(resource, body)

    def in_dry_run(self, mode: DryRun) -> MemoryStore:
        """The same cluster, with writes in ``mode``."""
        other = MemoryStore(dry_run=mode)
        other._state, other.user = self._state, self.user
        return other

    # --- for tests ----------------------------------------------------------------------------------------------

    @property
    def requests(self) -> list[Request]:
        """Every request so far, oldest first."""
        return self._state.requests

    @property
    def before(self) -> list[Hook]:
        """Called before a request takes effect."""
        return self._state.before

    @property
    def after(self) -> list[Hook]:
        """Called after a request took effect, before it is answered."""
        return self._state.after

    def writes(self) -> list[Request]:
        """Every request that could change something, oldest first."""
        return [request for request in self.requests if request.writes]

    def fail(self, error: Callable[[], Exception], *, when: Matcher = lambda _: True, times: int = 1) -> None:
        """Answer the next matching requests with an error; they take no effect."""
        self.before.append(_raising(error, when, times))

    def lose_reply(self, *, when: Matcher = lambda request: request.writes, times: int = 1) -> None:
        """Let the next matching requests take effect, and their answers get lost."""
        self.after.append(_raising(lambda: LostReply("no answer came"), when, times))

    def put(self, resource: Resource, body: JSONObject) -> JSONObject:
        """Create or replace an object as somebody else would, status included; returns it."""
        state, stored = self._state, copy.deepcopy(body)
        with state.lock:
            metadata = stored.setdefault("metadata", {})
            stored["apiVersion"], stored["kind"] = resource.api_version, resource.kind
            if resource.namespaced:
                metadata.setdefault("namespace", "default")
            key = _key(resource, metadata.get("namespace", ""), metadata["name"])
            old = state.objects.get(key)
            state.version += 1
            metadata["uid"] = old["metadata"]["uid"] if old else metadata.get("uid") or f"uid-{state.version}"
            metadata["resourceVersion"] = str(state.version)
            metadata.setdefault("creationTimestamp", CREATED)
            if resource.group in _WITH_GENERATION or resource.plural == "pods":
                generation = old["metadata"]["generation"] if old else metadata.get("generation", 1)
                moved = old is not None and not same(old.get("spec"), stored.get("spec"))
                metadata["generation"] = generation + moved
            state.objects[key] = stored
            return copy.deepcopy(stored)

    def edit(self, resource: Resource, namespace: str, name: str, change: Callable[[JSONObject], None]) -> JSONObject:
        """Change an object as somebody else would."""
        with self._state.lock:
            body = self.read(resource, namespace, name)
            change(body)
            return self.put(resource, body)

    def remove(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete an object as somebody else would."""
        with self._state.lock:
            del self._state.objects[_key(resource, namespace, name)]
            self._state.version += 1

    def read(self, resource: Resource, namespace: str, name: str) -> JSONObject:
        """An object as it stands, without a request."""
        return copy.deepcopy(self._state.objects[_key(resource, namespace, name)])

    def all(self, resource: Resource) -> list[JSONObject]:
        """Every object of a kind as it stands, without a request."""
        with self._state.lock:
            return [copy.deepcopy(body) for key, body in sorted(self._state.objects.items()) if key[0] == _of(resource)]

    # --- Store --------------------------------------------------------------------------------------------------

    def list(
        self,
        resource: Resource,
        project: Callable[[JSONObject], T],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        metadata_only: bool = False,
    ) -> Listing[T]:
        """See :meth:`migrator.store.Store.list`."""
        request = self._arrives("list", resource, namespace or "", "")
        with self._state.lock:
            version = str(self._state.version)
            found = [
                body
                for body in self.all(resource)
                if namespace in {None, body["metadata"].get("namespace", "")}
                and matches_labels(label_selector, body["metadata"].get("labels") or {})
            ]
        if metadata_only:
            found = [{key: body[key] for key in ("apiVersion", "kind", "metadata")} for body in found]
        self._answers(request)
        return Listing(tuple(project(body) for body in found), version)

    def get(self, resource: Resource, namespace: str, name: str, *, subresource: str = "") -> JSONObject:
        """See :meth:`migrator.store.Store.get`."""
        request = self._arrives("get", resource, namespace, name, subresource=subresource)
        with self._state.lock:
            body = self._find(resource, namespace, name)
            found = _scale_of(body) if subresource == "scale" else copy.deepcopy(body)
        self._answers(request)
        return found

    def create(self, resource: Resource, namespace: str, body: JSONObject) -> JSONObject:
        """See :meth:`migrator.store.Store.create`."""
        if self.dry_run is DryRun.CLIENT:
            return body
        metadata = dict(body.get("metadata") or {})
        name = str(metadata.get("name") or f"{metadata.get('generateName', '')}{self._state.version:05}")
        request = self._arrives("create", resource, namespace, name)
        if resource.plural == "selfsubjectreviews":
            self._answers(request)
            return {**body, "status": {"userInfo": {"username": self.user}}}
        metadata |= {"name": name} | ({"namespace": namespace} if resource.namespaced else {})
        with self._state.lock:
            if _key(resource, namespace, name) in self._state.objects:
                raise AlreadyExists(f"{resource.plural} {name!r} already exists", status=409, reason="AlreadyExists")
            created: JSONObject = {**body, "metadata": metadata}
            if self.dry_run is DryRun.NONE:
                created = self.put(resource, created)
        self._answers(request)
        return created

    def patch(
        self, resource: Resource, namespace: str, name: str, ops: Sequence[Op], *, subresource: str = ""
    ) -> JSONObject:
        """See :meth:`migrator.store.Store.patch`."""
        if self.dry_run is DryRun.CLIENT:
            return {}
        request = self._arrives("patch", resource, namespace, name, subresource=subresource, ops=tuple(ops))
        with self._state.lock:
            body = self._find(resource, namespace, name)
            if subresource == "scale":
                replicas = apply_ops(_scale_of(body), ops)["spec"].get("replicas", 0)
                changed = {**body, "spec": {**body["spec"], "replicas": replicas}}
            else:
                changed = patched(body, ops, subresource=subresource)
            if self.dry_run is DryRun.NONE and not same(changed, body):
                changed = self.put(resource, changed)
        self._answers(request)
        return _scale_of(changed) if subresource == "scale" else copy.deepcopy(changed)

    def delete(self, resource: Resource, namespace: str, name: str, uid: str) -> None:
        """See :meth:`migrator.store.Store.delete`."""
        if self.dry_run is DryRun.CLIENT:
            return
        request = self._arrives("delete", resource, namespace, name)
        with self._state.lock:
            found = self._state.objects.get(_key(resource, namespace, name))
            if found is not None and found["metadata"]["uid"] == uid and self.dry_run is DryRun.NONE:
                self.remove(resource, namespace, name)
        self._answers(request)

    def _arrives(
        self,
        verb: str,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        subresource: str = "",
        ops: tuple[Op, ...] = (),
    ) -> Request:
        mode = self.dry_run if verb in WRITES else DryRun.NONE
        request = Request(verb, resource, namespace, name, subresource, ops, mode)
        self._state.requests.append(request)
        for hook in tuple(self.before):
            hook(request)
        if resource in self._state.uninstalled:
            raise NotFound("the server could not find the requested resource", status=404, reason="NotFound")
        return request

    def _answers(self, request: Request) -> None:
        for hook in tuple(self.after):
            hook(request)

    def _find(self, resource: Resource, namespace: str, name: str) -> JSONObject:
        body = self._state.objects.get(_key(resource, namespace, name))
        if body is None:
            raise NotFound(f"{resource.plural} {name!r} not found", status=404, reason="NotFound")
        return body


def _of(resource: Resource) -> str:
    return resource.qualified_name


def _key(resource: Resource, namespace: str, name: str) -> _Key:
    return _of(resource), namespace if resource.namespaced else "", name


def _scale_of(body: JSONObject) -> JSONObject:
    """The Scale of a Deployment: at zero, ``spec.replicas`` is absent."""
    replicas = body["spec"].get("replicas", 1)
    metadata: dict[str, Any] = {
        key: body["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    }
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": replicas},
    }


def _raising(error: Callable[[], Exception], when: Matcher, times: int) -> Hook:
    left, lock = [times], threading.Lock()

    def hook(request: Request) -> None:
        with lock:
            if not left[0] or not when(request):
                return
            left[0] -= 1
        raise error()

    return hook
