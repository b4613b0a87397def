"""A cluster just large enough for what the fence side writes, and a clock that only moves when told to."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonpatch

from migrator.errors import AlreadyExists, LostReply, MigratorError, NotFound, TestFailed
from migrator.jsonvalue import JSONObject
from migrator.store import DryRun, Listing, Op, Resource

Request = tuple[str, str, str, str]  # verb, plural (with subresource), namespace, name
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Clock:
    """Monotonic seconds and wall time that move together, by sleeping or by hand."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.slept: list[float] = []
        self.on_sleep: list[Callable[[float], None]] = []

    def __call__(self) -> float:
        """Monotonic seconds."""
        return self.seconds

    def now(self) -> datetime:
        """Wall time."""
        return START + timedelta(seconds=self.seconds)

    def sleep(self, seconds: float) -> None:
        """Move on, and remember it."""
        self.slept.append(seconds)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move on; observers see it."""
        self.seconds += seconds
        for observer in list(self.on_sleep):
            observer(seconds)


class SmallCluster:
    """A :class:`migrator.store.Store` in memory, with the API server's answers as measured.

    ``faults`` are consulted, in order, before and after each write: an error raised before is a request that never
    arrived, one raised after is a lost reply.
    """

    is_cluster = True

    def __init__(self, *objects: tuple[Resource, JSONObject]) -> None:
        self.dry_run = DryRun.NONE
        self.requests: list[Request] = []
        self.before: list[Callable[[Request], MigratorError | None]] = []
        self.after: list[Callable[[Request], MigratorError | None]] = []
        self._objects: dict[tuple[str, str, str], JSONObject] = {}
        self._version = 0
        self._lock = threading.RLock()
        for resource, body in objects:
            self.put(resource, body)

    # --- for the tests ------------------------------------------------------------------------------------------

    def put(self, resource: Resource, body: JSONObject) -> JSONObject:
        """Store an object as somebody else would have written it."""
        with self._lock:
            self._version += 1
            metadata = body["metadata"]
            stored: JSONObject = copy.deepcopy(body)
            stored["metadata"].setdefault("uid", f"uid-{self._version}")
            stored["metadata"]["resourceVersion"] = str(self._version)
            self._objects[resource.plural, metadata.get("namespace", ""), metadata["name"]] = stored
            return stored

    def edit(self, resource: Resource, namespace: str, name: str, change: Callable[[JSONObject], None]) -> None:
        """Change an object as somebody else would."""
        with self._lock:
            body = copy.deepcopy(self._objects[resource.plural, namespace, name])
            change(body)
            self.put(resource, body)

    def drop(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete an object as somebody else would."""
        self._objects.pop((resource.plural, namespace, name), None)

    def read(self, resource: Resource, namespace: str, name: str) -> JSONObject:
        """An object as it stands, without a request."""
        return copy.deepcopy(self._objects[resource.plural, namespace, name])

    def names(self, resource: Resource) -> list[str]:
        """The names of all objects of a kind."""
        return sorted(name for plural, _, name in self._objects if plural == resource.plural)

    def lose_reply(self, *, verb: str, times: int = 1) -> None:
        """Apply the next requests of this verb, and let their answers get lost."""
        self.after.append(_faults(verb, times, lambda: LostReply("no reply")))

    def fail(self, error: Callable[[], MigratorError], *, verb: str, times: int = 1) -> None:
        """Answer the next requests of this verb with an error, and apply nothing."""
        self.before.append(_faults(verb, times, error))

    # --- the store ----------------------------------------------------------------------------------------------

    def list(
        self,
        resource: Resource,
        project: Callable[[JSONObject], Any],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        metadata_only: bool = False,
    ) -> Listing[Any]:
        """List, with equality terms only."""
        request = ("list", resource.plural, namespace or "", "")
        self._consult(self.before, request)
        wanted = dict(term.split("=", 1) for term in label_selector.split(",")) if label_selector else {}
        with self._lock:
            found = [
                copy.deepcopy(body)
                for (plural, where, _), body in sorted(self._objects.items())
                if plural == resource.plural
                and namespace in {None, where}
                and wanted.items() <= (body["metadata"].get("labels") or {}).items()
            ]
            if metadata_only:
                found = [{"metadata": body["metadata"]} for body in found]
            return Listing(tuple(project(body) for body in found), str(self._version))

    def get(self, resource: Resource, namespace: str, name: str, *, subresource: str = "") -> JSONObject:
        """Read one object."""
        self._consult(self.before, ("get", _path(resource, subresource), namespace, name))
        return self._find(resource, namespace, name)

    def create(self, resource: Resource, namespace: str, body: JSONObject) -> JSONObject:
        """Create one object."""
        metadata = body.get("metadata") or {}
        name = metadata.get("name") or f"{metadata.get('generateName', '')}{len(self._objects)}"
        request = ("create", resource.plural, namespace, name)
        self._consult(self.before, request)
        with self._lock:
            if (resource.plural, namespace, name) in self._objects:
                raise AlreadyExists(f"{name} exists", status=409, reason="AlreadyExists")
            stored = self.put(resource, {**body, "metadata": {**metadata, "namespace": namespace, "name": name}})
        self._consult(self.after, request)
        return copy.deepcopy(stored)

    def patch(
        self, resource: Resource, namespace: str, name: str, ops: Sequence[Op], *, subresource: str = ""
    ) -> JSONObject:
        """Apply a JSON Patch, all of it or none."""
        request = ("patch", _path(resource, subresource), namespace, name)
        self._consult(self.before, request)
        with self._lock:
            body = self._find(resource, namespace, name)
            view = _scale_of(body) if subresource == "scale" else body
            patched = _apply(view, ops)
            if self.dry_run is not DryRun.NONE:
                return patched
            if subresource == "scale":
                body["spec"]["replicas"] = patched["spec"].get("replicas", 0)
                body["metadata"]["generation"] = body["metadata"].get("generation", 1) + 1
                patched = body
            stored = self.put(resource, patched)
        self._consult(self.after, request)
        return copy.deepcopy(stored)

    def delete(self, resource: Resource, namespace: str, name: str, uid: str) -> None:
        """Delete one object if it still has this uid."""
        request = ("delete", resource.plural, namespace, name)
        self._consult(self.before, request)
        with self._lock:
            found = self._objects.get((resource.plural, namespace, name))
            if found is not None and found["metadata"]["uid"] == uid:
                self.drop(resource, namespace, name)
        self._consult(self.after, request)

    def _find(self, resource: Resource, namespace: str, name: str) -> JSONObject:
        with self._lock:
            try:
                return self.read(resource, namespace, name)
            except KeyError:
                raise NotFound(f"{resource.plural} {namespace}/{name} not found", status=404) from None

    def _consult(self, faults: Sequence[Callable[[Request], MigratorError | None]], request: Request) -> None:
        if faults is self.before:
            self.requests.append(request)
        for fault in list(faults):
            error = fault(request)
            if error is not None:
                raise error

    def writes(self, resource: Resource | None = None) -> list[Request]:
        """Every write that was sent, oldest first."""
        return [
            request
            for request in self.requests
            if request[0] in {"create", "patch", "delete"}
            and (resource is None or request[1].split("/")[0] == resource.plural)
        ]


def _path(resource: Resource, subresource: str) -> str:
    return f"{resource.plural}/{subresource}" if subresource else resource.plural


def _scale_of(body: JSONObject) -> JSONObject:
    replicas = body["spec"].get("replicas", 1)
    return {"metadata": body["metadata"], "spec": {"replicas": replicas} if replicas else {}}


def _apply(body: JSONObject, ops: Sequence[Op]) -> JSONObject:
    """Apply a patch; ``test`` of null asserts absence, as the API server has it."""
    remaining = []
    for op in ops:
        there = jsonpatch.JsonPointer(op.path).resolve(body, None) is not None
        if op.op == "test" and op.value is None:
            if there:
                raise TestFailed("the server rejected our request", status=422)
            continue
        # replace creates an absent key of a present parent (measured)
        remaining.append({**op.as_json(), "op": "add"} if op.op == "replace" and not there else op.as_json())
    try:
        patched: JSONObject = jsonpatch.apply_patch(body, remaining)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
        raise TestFailed("the server rejected our request", status=422) from None
    return patched


def _faults(verb: str, times: int, error: Callable[[], MigratorError]) -> Callable[[Request], MigratorError | None]:
    left = [times]

    def fault(request: Request) -> MigratorError | None:
        if request[0] != verb or left[0] == 0:
            return None
        left[0] -= 1
        return error()

    return fault
