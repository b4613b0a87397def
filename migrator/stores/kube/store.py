"""The store on a cluster: raw JSON over the official client's connections and authentication.

Typed models are never used: they would lose fields that the client does not know, and the spelling of numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Final, TypeVar
from urllib.parse import quote, urlencode

from migrator import exact_json
from migrator.errors import ClusterError, Conflict, LostReply, MigratorError, NotFound, Unreachable
from migrator.exact_json import JSONObject
from migrator.gc_paused import gc_paused
from migrator.resources import LEASES, POD_CLIQUES, PODS, Op, Resource
from migrator.store import FIELD_MANAGER, PAGE_SIZE, Deadline, DryRun, Listing, Look, Write, in_turn
from migrator.stores.kube.kubeconfig import api_client
from migrator.stores.kube.pages import ListMovedError, pages
from migrator.stores.kube.retry import RateLimit
from migrator.stores.kube.stream import Stream
from migrator.stores.kube.transport import JSON, Request, Timing, Transport

K = TypeVar("K")
T = TypeVar("T")

#: The request timeout, in seconds, where the user asks for none: the API server's own (``--request-timeout``).
LONGEST_REQUEST: Final = 60.0

#: What ``encoding/json`` escapes and JSON need not; these characters occur in strings only.
_GO_ESCAPES: Final = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}

#: How many times a list is started before it is given up, because its snapshot expired or moved.
MAX_LIST_STARTS: Final = 5

_METADATA: Final = f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io,{JSON}"
_METADATA_LIST: Final = f"{JSON};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,{JSON}"

#: Kinds whose quantities are not kept. Their parser is faster, and loses the spelling of numbers.
_WITHOUT_QUANTITIES: Final = frozenset({PODS, POD_CLIQUES})
_PLAIN: Final = json.JSONDecoder()

#: The method of each verb, and the type of its body.
_METHODS: Final = {
    "get": ("GET", ""),
    "create": ("POST", JSON),
    "patch": ("PATCH", "application/json-patch+json"),
    "delete": ("DELETE", JSON),
}

#: From this field on, all requests of one kind are alike.
_FIRST_SHARED: Final = Request._fields.index("method")

#: Nothing reads the answer to a patch of these, and a PodCliqueSet can be large.
_BRIEF_GROUPS: Final = frozenset({"grove.io", "scheduler.grove.io"})


def connect(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    request_timeout: float | None = 15.0,
    qps: float | None = None,
    dry_run: DryRun = DryRun.NONE,
    deadline: Deadline | None = None,
    timing: Timing | None = None,
) -> KubeStore:
    """The cluster that kubectl would talk to with the same flags.

    ``request_timeout`` is in seconds, ``None`` for no limit. Nothing is sent yet. Raises
    :class:`~migrator.errors.UsageError` where there is no usable configuration.
    """
    timing = timing or Timing()
    transport = Transport(
        api_client(kubeconfig, context),
        request_timeout=request_timeout or LONGEST_REQUEST,
        limit=RateLimit(qps, clock=timing.clock) if qps else None,
        deadline=deadline,
        timing=timing,
    )
    return KubeStore(transport, dry_run=dry_run)


@dataclass(frozen=True)
class KubeStore:
    """A cluster, behind one transport."""

    _transport: Transport
    dry_run: DryRun = DryRun.NONE
    _left: Callable[[], float] | None = None
    is_cluster: ClassVar = True

    @property
    def name(self) -> str:
        """The address of the API server."""
        return self._transport.server

    def in_dry_run(self, mode: DryRun) -> KubeStore:
        """The same cluster over the same connections, with writes in ``mode``."""
        return replace(self, dry_run=mode)

    def within(self, left: Callable[[], float]) -> KubeStore:
        """See :meth:`migrator.store.Store.within`."""
        return replace(self, _left=left)

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
        prefetch: Listing | None = None,
    ) -> tuple[T, ...]:
        """See :meth:`migrator.store.Store.list`."""
        request = _first_page(Listing(resource, namespace, label_selector, field_selector, metadata_only))
        following = _first_page(prefetch) if prefetch is not None else None
        for _ in range(MAX_LIST_STARTS):
            try:
                with gc_paused():
                    return self._listing(request, resource, project, look, following)
            except ListMovedError:
                continue
        raise Unreachable(
            f"{request.what}: the list expired {MAX_LIST_STARTS} times before its last page; the API server keeps "
            "its history for too short a time, or answers too slowly"
        )

    def kinds(self, group: str) -> tuple[Resource, ...]:
        """See :meth:`migrator.store.Store.kinds`: what ``/apis/GROUP`` and its versions show, a kind once."""
        found: dict[str, Resource] = {}
        try:
            known = self._read(f"/apis/{quote(group, safe='')}")
        except NotFound:
            return ()
        for version in known.get("versions") or ():
            shown = self._read(f"/apis/{version['groupVersion']}")
            for entry in shown.get("resources") or ():
                if "list" in (entry.get("verbs") or ()) and "/" not in entry["name"]:
                    name, kind, spaced = entry["name"], entry["kind"], bool(entry.get("namespaced"))
                    found.setdefault(kind, Resource(group, version["version"], name, kind, namespaced=spaced))
        return tuple(found.values())

    def get(self, resource: Resource, namespace: str, name: str, *, subresource: str = "") -> JSONObject:
        """See :meth:`migrator.store.Store.get`."""
        return self._object(self._request("get", resource, namespace, name, subresource))

    def create(self, resource: Resource, namespace: str, body: JSONObject) -> JSONObject:
        """See :meth:`migrator.store.Store.create`."""
        if self.dry_run is DryRun.CLIENT:
            return body
        metadata = body.get("metadata") or {}
        name = str(metadata.get("name") or metadata.get("generateName") or "")
        return self._object(self._request("create", resource, namespace, name, body=_go(exact_json.dumps(body))))

    def patch(
        self, resource: Resource, namespace: str, name: str, ops: Sequence[Op], *, subresource: str = ""
    ) -> JSONObject:
        """See :meth:`migrator.store.Store.patch`."""
        if self.dry_run is DryRun.CLIENT:
            return {}
        request = self._patch(Write(resource, namespace, name, tuple(ops), subresource))
        return self._object(request, json.loads if request.accept == _METADATA else exact_json.loads)

    def patches(
        self, take: Callable[[], tuple[K, Write] | None], *, concurrency: int
    ) -> Generator[tuple[K, MigratorError | None], None, None]:
        """See :meth:`migrator.store.Store.patches`."""
        if self.dry_run is DryRun.CLIENT:
            yield from in_turn(self, take)
            return

        def requested() -> tuple[K, Request] | None:
            found = take()
            return None if found is None else (found[0], self._patch(found[1]))

        with closing(Stream(self._transport, requested, concurrency=concurrency).run()) as outcomes:
            for key, request, answer in outcomes:
                yield key, _outcome(request, answer)

    def delete(self, resource: Resource, namespace: str, name: str, uid: str) -> None:
        """See :meth:`migrator.store.Store.delete`. An object of that name with another uid is not ours: success."""
        if self.dry_run is DryRun.CLIENT:
            return
        options: JSONObject = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        if self.dry_run is DryRun.SERVER:
            options["dryRun"] = ["All"]  # with a body, the API server ignores the query
        request = self._request("delete", resource, namespace, name, body=_go(exact_json.dumps(options)))
        try:
            self._transport.send(request)
        except (NotFound, Conflict):
            return

    def _listing(
        self,
        first: Request,
        resource: Resource,
        project: Callable[[JSONObject], T],
        look: Look | None,
        following: Request | None,
    ) -> tuple[T, ...]:
        items: list[T] = []

        def take(item: JSONObject, text: str) -> None:
            item["apiVersion"], item["kind"] = resource.api_version, resource.kind
            items.append(project(item))
            if look is not None:
                look(item, text.encode("utf-8", "surrogateescape"))

        decoder = _PLAIN if resource in _WITHOUT_QUANTITIES else exact_json.decoder(repeated=True)
        try:
            pages(first, self._transport.ahead, decoder.raw_decode, take, following)
        except BaseException:
            self._transport.ahead.drop()
            raise
        return tuple(items)

    def _patch(self, write: Write) -> Request:
        resource, namespace, name, ops, subresource = write
        body = _go(f"[{','.join([op.text for op in ops])}]")
        return self._request("patch", resource, namespace, name, subresource, body=body)

    def _request(
        self, verb: str, resource: Resource, namespace: str, name: str, subresource: str = "", *, body: bytes = b""
    ) -> Request:
        path, suffix, what, shared = _shared(verb, resource, namespace, subresource, self.dry_run)
        path = path if verb == "create" else f"{path}/{quote(name, safe='')}{suffix}"
        return Request(path, f"{what}{name}", body, self._left, *shared)

    def _read(self, path: str) -> JSONObject:
        return self._object(Request(path, f"discover {path}", repeatable=True), json.loads)

    def _object(self, request: Request, parse: Callable[[bytes], Any] = exact_json.loads) -> JSONObject:
        body = self._transport.send(request)
        try:
            value = parse(body)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise _unreadable(request)
        return value


@lru_cache(maxsize=1024)
def _shared(
    verb: str, resource: Resource, namespace: str, subresource: str, dry_run: DryRun
) -> tuple[str, str, str, tuple[Any, ...]]:
    """What all requests of one kind share: begin and end of their paths, begin of their names, other fields."""
    kind = f"{verb} {resource.kind} {subresource}".strip()
    method, content_type = _METHODS[verb]
    brief = verb == "patch" and (resource == PODS or resource.group in _BRIEF_GROUPS)  # metadata has plain integers
    dry = {"dryRun": "All"} if dry_run is DryRun.SERVER else {}
    query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", **dry} if verb in {"create", "patch"} else {}
    same = Request(
        "",
        "",
        method=method,
        query=urlencode(query),
        accept=_METADATA if brief else JSON,
        content_type=content_type,
        repeatable=verb == "get" or dry_run is DryRun.SERVER,
        of_lease=resource == LEASES,
    )
    end = f"/{quote(subresource, safe='')}" if subresource else ""
    return _path(resource, namespace), end, f"{kind} {namespace}/" if namespace else f"{kind} ", same[_FIRST_SHARED:]


def _first_page(wanted: Listing) -> Request:
    """The request for the first page of a list.

    Without ``resourceVersion``, so that every list is consistent: 0 would be a cache of unknown age, and would ignore
    the limit.
    """
    query = {"limit": PAGE_SIZE, "labelSelector": wanted.label_selector, "fieldSelector": wanted.field_selector}
    return Request(
        _path(wanted.resource, wanted.namespace or ""),
        f"list {wanted.resource.qualified_name}",
        query=urlencode({key: value for key, value in query.items() if value}),
        accept=_METADATA_LIST if wanted.metadata_only else JSON,
        repeatable=True,
    )


def _path(resource: Resource, namespace: str) -> str:
    """Where the objects of a kind are, in all namespaces if none is given."""
    parts = ["apis", resource.group, resource.version] if resource.group else ["api", resource.version]
    if namespace and resource.namespaced:
        parts += ["namespaces", namespace]
    return "/" + "/".join(quote(part, safe="") for part in (*parts, resource.plural))


def _outcome(request: Request, answer: bytes | MigratorError) -> MigratorError | None:
    """The error of a patch. The object in its answer is not parsed: that would take a fifth of the patch's CPU.

    Nobody needs the object, and the snapshot after the run proves what was written.
    """
    if isinstance(answer, MigratorError):
        return answer
    text = answer.strip()
    return None if text.startswith(b"{") and text.endswith(b"}") else _unreadable(request)


def _unreadable(request: Request) -> MigratorError:
    message = f"{request.what}: the answer is not a JSON object; is a proxy in the way?"
    return ClusterError(message) if request.repeatable else LostReply(message)


def _go(text: str) -> bytes:
    """JSON in the spelling of Go's ``encoding/json``.

    The API server compares strings of a ``test`` as JSON text, not as values (``gopkg.in/evanphx/json-patch.v4``,
    ``patch.go:lazyNode.equal``), and its own side has these characters escaped: without it no template with ``&&``
    in a command would ever equal itself.
    """
    for character, escape in _GO_ESCAPES.items():
        text = text.replace(character, escape)
    return text.encode("utf-8", "surrogateescape")
