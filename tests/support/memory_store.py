"""A cluster in memory: a :class:`migrator.cluster.Cluster` that answers as the API server was seen to answer.

It keeps what the migrator's safety rests on: compare-and-swap on values, resource versions, generations that move
with the spec alone, status and scale as subresources of their own, dry runs that validate and do not store, and
validation errors that are not failed tests. ``tests/cluster/store`` compares it with a real API server.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from collections.abc import Sequence as ReadOnly  # ``list`` is a method of a store
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from typing import Any, Final, TypeVar

from migrator import kinds
from migrator.cluster import FIELD_MANAGER
from migrator.errors import AlreadyExists, Conflict, LeaseLost, LostReply, NotFound, Rejected
from migrator.exact_json import JSONObject
from migrator.kinds import Op, Resource
from tests.support.memory_objects import RESOURCES, Objects, copied, epoch, timestamp
from tests.support.server_patch import apply_ops, patched, validate

T = TypeVar("T")

_BRIEF_GROUPS: Final = frozenset({"grove.io", "scheduler.grove.io"})
_USER: Final = "system:serviceaccount:grove-system:grove-migrator"
#: What releases from alpha.9 to alpha.12 serve.
SHORT_NAMES: Final = {
    "pcs": "podcliquesets",
    "pclq": "podcliques",
    "pcsg": "podcliquescalinggroups",
    "ct": "clustertopologybindings",
}
#: A part of a selector between commas, but for those in parentheses.
_TERM: Final = re.compile(r"(?:[^,(]|\([^)]*\))+")
_OWN_METADATA: Final = ("uid", "name", "namespace", "creationTimestamp")


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it was sent; ``number`` counts writes other than dry runs from 1 and is 0 for all others."""

    verb: str  # "list" | "get" | "create" | "patch"
    resource: Resource
    namespace: str
    name: str
    subresource: str = ""
    ops: tuple[Op, ...] = ()
    body: Mapping[str, Any] = field(default_factory=dict)
    dry_run: bool = False
    number: int = 0

    @property
    def target(self) -> str:
        """``pods/web-0``, ``deployments/grove-operator/scale``."""
        return "/".join(filter(None, (self.resource.plural, self.name, self.subresource)))

    @property
    def reads(self) -> bool:
        """Whether it asks, and could not change anything."""
        return self.verb in {"list", "get"} or self.resource == kinds.SELF_SUBJECT_REVIEWS

    @property
    def writes(self) -> bool:
        """Whether it changes something, and is not a dry run."""
        return not self.reads and not self.dry_run


Hook = Callable[[Request], None]


class MemoryCluster(Objects):
    """The cluster, as the product sees it.

    ``without`` names resources that are not installed. ``before`` and ``after`` are called for every request and may
    raise: before, it never arrived; after, it was applied and its answer got lost. ``requests`` are all that were
    sent, oldest first. ``served`` are Grove's kinds by short name.
    """

    name, context = "https://lab.test", "lab"
    is_cluster = True

    def __init__(
        self,
        *objects: JSONObject,
        without: Collection[Resource] = (),
        now: Callable[[], datetime] = epoch,
    ) -> None:
        super().__init__(*objects, now=now)
        self.dry_run = False
        self.before: list[Hook] = []
        self.after: list[Hook] = []
        self.requests: list[Request] = []
        self.served = dict(SHORT_NAMES)
        self._numbers = count(1)
        self._left: Callable[[], float] = lambda: 1.0
        self._without = frozenset(without)

    def writes(self, *resources: Resource) -> list[Request]:
        """Every write that was sent, dry runs aside, oldest first; of these resources only if any are named."""
        return [r for r in self.requests if r.number and (not resources or r.resource in resources)]

    def names(self, resource: Resource) -> list[str]:
        return [body["metadata"]["name"] for body in self.everything(resource)]

    def meanwhile(
        self, action: Callable[[], object], *, times: int = 1, applied: bool = False, **matching: object
    ) -> None:
        """Let somebody act just before the next requests with these properties arrive, or after they were applied."""
        left = count(times, -1)

        def hook(request: Request) -> None:
            if all(getattr(request, name) == value for name, value in matching.items()) and next(left) > 0:
                action()

        (self.after if applied else self.before).append(hook)

    def fail(self, error: BaseException, *, times: int = 1, applied: bool = False, **matching: object) -> None:
        """Answer the next requests with these properties with an error."""

        def answer() -> None:
            raise error

        self.meanwhile(answer, times=times, applied=applied, **matching)

    def lose_reply(self, *, verb: str, times: int = 1) -> None:
        """Apply the next requests of this verb, and let their answers get lost."""
        self.fail(LostReply("no reply"), times=times, applied=True, verb=verb)

    # --- the seam -----------------------------------------------------------------------------------------------------

    def in_dry_run(self) -> MemoryCluster:
        other = copy.copy(self)
        other.dry_run = True
        return other

    def within(self, left: Callable[[], float]) -> MemoryCluster:
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
    ) -> tuple[T, ...]:
        with self._sent(Request("list", resource, namespace or "", "")):
            with self._state.lock:
                found = [
                    copied(_brief(body) if metadata_only else body)
                    for key, body in sorted(self._state.objects.items(), key=lambda item: item[0][1:])
                    if key[0] == resource
                    and namespace in {None, body["metadata"].get("namespace")}
                    and _matches(label_selector, body["metadata"].get("labels") or {})
                    and _matches(field_selector, _fields(body))
                ]
            return tuple(map(project, found))

    def kinds(self, group: str) -> tuple[Resource, ...]:
        return tuple(r for r in RESOURCES if r.group == group and r not in self._without)

    def short_names(self, group: str) -> Mapping[str, str]:
        return self.served if group == "grove.io" else {}

    def get(self, resource: Resource, namespace: str, name: str) -> JSONObject:
        with self._sent(Request("get", resource, namespace, name)), self._state.lock:
            return copied(self._find(resource, namespace, name))

    def create(self, resource: Resource, namespace: str, body: JSONObject) -> JSONObject:
        wanted = copied(body)
        metadata = wanted.setdefault("metadata", {})
        name = metadata.get("name", "")
        with self._sent(Request("create", resource, namespace, name, body=copied(body), dry_run=self.dry_run)) as sent:
            if resource == kinds.SELF_SUBJECT_REVIEWS:
                return {**wanted, "status": {"userInfo": {"username": _USER}}}
            with self._state.lock:
                if (resource, namespace, name) in self._state.objects:
                    raise AlreadyExists(f"{sent.target} already exists")
                metadata["namespace"] = namespace
                if not resource.namespaced:
                    del metadata["namespace"]
                validate(resource, wanted)
                stored = wanted if self.dry_run else self._written(resource, None, wanted)
        return copied(stored)

    def patch(
        self, resource: Resource, namespace: str, name: str, ops: ReadOnly[Op], *, subresource: str = ""
    ) -> JSONObject:
        request = Request("patch", resource, namespace, name, subresource, tuple(ops), dry_run=self.dry_run)
        with self._sent(request), self._state.lock:
            old = self._find(resource, namespace, name)
            if subresource == "scale":
                view = apply_ops(_scale(old), ops)
                new = {**old, "spec": {**old["spec"], "replicas": view["spec"].get("replicas", 0)}}
            elif subresource == "status" and resource == kinds.PODS:
                new = apply_ops(old, ops)  # pods/status takes labels too
            else:
                new = patched(old, ops, subresource=subresource)
            _keep_identity(request, old, new)
            validate(resource, new)
            if not self.dry_run:
                new = self._written(resource, old, copied(new))
            answer = _scale(new) if subresource == "scale" else copied(new)
        return _brief(answer) if resource == kinds.PODS or resource.group in _BRIEF_GROUPS else answer

    @contextmanager
    def _sent(self, request: Request) -> Iterator[Request]:
        """Log a request and let the hooks see it, before and after it is applied; raises what they raise."""
        if not request.reads and self._left() <= 0:
            raise LeaseLost("the hold has ended")
        with self._state.lock:
            if request.writes:
                request = replace(request, number=next(self._numbers))
            self.requests.append(request)
        for hook in tuple(self.before):
            hook(request)
        if request.resource in self._without:
            raise NotFound(f"the server has no {request.resource.qualified_name}")
        yield request
        for hook in tuple(self.after):
            hook(request)

    def _written(self, resource: Resource, old: JSONObject | None, new: JSONObject) -> JSONObject:
        """Store what the product wrote. Of Leases it asks when that was, which a cluster notes if it has a clock."""
        stored = self._store(resource, old, new)
        if resource == kinds.LEASES and stored is not old and self._now is not epoch:
            stored["metadata"]["managedFields"] = [{"manager": FIELD_MANAGER, "time": timestamp(self._now())}]
        return stored

    def _find(self, resource: Resource, namespace: str, name: str) -> JSONObject:
        body = self._state.objects.get((resource, namespace, name))
        if body is None:
            raise NotFound(f'{resource.qualified_name} "{name}" not found')
        return body


def _fields(body: JSONObject) -> dict[str, str]:
    return {"metadata.name": body["metadata"]["name"]}


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
            raise Rejected(f"{request.target}: metadata.{key}: field is immutable")
    if old["metadata"]["resourceVersion"] != new["metadata"].get("resourceVersion"):
        raise Conflict(f"{request.target}: the object has been modified")


def _matches(selector: str | None, values: Mapping[str, str]) -> bool:
    """Whether labels or fields match a selector as the API server reads it."""
    return all(_holds(term, values) for term in _TERM.findall(selector or ""))


def _holds(term: str, values: Mapping[str, str]) -> bool:
    """One term: ``key``, ``!key``, ``key=value``, ``key!=value``, ``key in (a,b)`` or ``key notin (a,b)``."""
    key, operator, value = (part.strip() for part in re.split(r"(!?=| in | notin |$)", term, maxsplit=1))
    if not operator:
        return key in values if not key.startswith("!") else key[1:] not in values
    return (values.get(key) in value.strip("()").split(",")) is (operator in {"=", "in"})
