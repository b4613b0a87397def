"""A real cluster: raw JSON over the official client's connections and authentication.

Typed models are never used: they would lose fields that the client does not know, and the spelling of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, TypeVar
from urllib.parse import quote

from migrator import cluster, errors, exact_json
from migrator.exact_json import JSONObject
from migrator.kinds import LEASES, PODS, Op, Resource
from migrator.kube.kubeconfig import find
from migrator.kube.transport import JSON, LONGEST_OF_LEASE, LONGEST_PAGE, Request, Timing, Transport

T = TypeVar("T")

#: How many times a list is started before it is given up, because its snapshot expired or moved.
MAX_LIST_STARTS: Final = 5

_METADATA: Final = f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io,{JSON}"
_METADATA_LIST: Final = f"{JSON};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,{JSON}"

_METHODS: Final = {"get": "GET", "create": "POST", "patch": "PATCH"}

_PATCH: Final = "application/json-patch+json"

#: Nothing reads the answer to a patch of these, and a PodCliqueSet can be large.
_BRIEF_GROUPS: Final = frozenset({"grove.io", "scheduler.grove.io"})


def connect(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    deadline: cluster.Deadline | None = None,
    timing: Timing | None = None,
    waiting: Callable[[str], object] = lambda _plugin: None,
) -> KubeCluster:
    """The cluster that kubectl would talk to with the same flags.

    Nothing is sent yet. ``waiting`` gets the name of a credential plugin that takes long. Raises
    :class:`~migrator.errors.UsageError` where there is no usable configuration.
    """
    chosen, read = find(kubeconfig, context, waiting)
    return KubeCluster(Transport(read, deadline, timing or Timing()), chosen)


@dataclass(frozen=True)
class KubeCluster:
    """A cluster, behind one transport; ``context`` is the kubeconfig's, ``None`` in a pod."""

    _transport: Transport
    context: str | None = None
    dry_run: bool = False
    _left: Callable[[], float] | None = None
    is_cluster: ClassVar = True

    @property
    def name(self) -> str:
        """The address of the API server."""
        return self._transport.server

    def in_dry_run(self) -> KubeCluster:
        """See :meth:`migrator.cluster.Cluster.in_dry_run`; over the same connections."""
        return replace(self, dry_run=True)

    def within(self, left: Callable[[], float]) -> KubeCluster:
        """See :meth:`migrator.cluster.Cluster.within`."""
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
    ) -> tuple[T, ...]:
        """See :meth:`migrator.cluster.Cluster.list`.

        Without ``resourceVersion``, so that every list is consistent: 0 would be a cache of unknown age, and would
        ignore the limit.
        """
        query = {"limit": cluster.PAGE_SIZE, "labelSelector": label_selector, "fieldSelector": field_selector}
        request = Request(
            _path(resource, namespace or ""),
            f"list {resource.qualified_name}",
            {key: value for key, value in query.items() if value},
            accept=_METADATA_LIST if metadata_only else JSON,
            longest=LONGEST_PAGE,
        )
        for _ in range(MAX_LIST_STARTS):
            items: list[T] = []
            try:
                for item in self._items(request):
                    item["apiVersion"], item["kind"] = resource.api_version, resource.kind
                    items.append(project(item))
            except errors.Expired:
                continue
            except KeyError as error:
                raise errors.ClusterError(
                    f"{request.what}: an object lacks what every API server writes; is a proxy in the way?"
                ) from error
            return tuple(items)
        raise errors.Unreachable(
            f"{request.what}: the list expired {MAX_LIST_STARTS} times before its last page; the API server keeps "
            "its history for too short a time, or answers too slowly"
        )

    def kinds(self, group: str) -> tuple[Resource, ...]:
        """See :meth:`migrator.cluster.Cluster.kinds`: what ``/apis/GROUP`` and its versions show, a kind once."""
        found: dict[str, Resource] = {}
        for resource, _ in self._discovered(group):
            found.setdefault(resource.kind, resource)
        return tuple(found.values())

    def short_names(self, group: str) -> dict[str, str]:
        """See :meth:`migrator.cluster.Cluster.short_names`."""
        return {name: resource.plural for resource, names in self._discovered(group) for name in names}

    def get(self, resource: Resource, namespace: str, name: str) -> JSONObject:
        """See :meth:`migrator.cluster.Cluster.get`."""
        return self._object(self._request("get", resource, namespace, name))

    def create(self, resource: Resource, namespace: str, body: JSONObject) -> JSONObject:
        """See :meth:`migrator.cluster.Cluster.create`."""
        name = body.get("metadata", {}).get("name", "")
        return self._object(self._request("create", resource, namespace, name, body=exact_json.dumps(body)))

    def patch(
        self, resource: Resource, namespace: str, name: str, ops: Sequence[Op], *, subresource: str = ""
    ) -> JSONObject:
        """See :meth:`migrator.cluster.Cluster.patch`."""
        body = f"[{','.join([op.text for op in ops])}]"
        request = self._request("patch", resource, namespace, name, subresource, body=body)
        brief = resource == PODS or resource.group in _BRIEF_GROUPS
        return self._object(request._replace(content_type=_PATCH, accept=_METADATA if brief else JSON))

    def _discovered(self, group: str) -> Iterator[tuple[Resource, Sequence[str]]]:
        """Each kind of an API group that can be listed, and its short names."""
        path = f"/apis/{group}"
        try:
            known = self._read(path)
        except errors.NotFound:
            return
        try:
            for version in known.get("versions") or ():
                listed = self._read(f"/apis/{version['groupVersion']}")
                for entry in listed.get("resources") or ():
                    name, spaced = entry["name"], bool(entry.get("namespaced"))
                    if "list" in (entry.get("verbs") or ()) and "/" not in name:
                        resource = Resource(group, version["version"], name, entry["kind"], namespaced=spaced)
                        yield resource, entry.get("shortNames") or ()
        except (AttributeError, KeyError, TypeError) as error:
            raise errors.ClusterError(
                f"discover {path}: the answer is not a list of kinds; is a proxy in the way?"
            ) from error

    def _items(self, first: Request) -> Iterator[JSONObject]:
        """The items of every page; raises ``Expired`` if the server has no rest of this list.

        The token that a 410 offers leads to a newer list and is not used.
        """
        versions = set[object]()
        request = first
        while True:
            page = self._object(request)
            items = page.get("items")
            if items is None and "items" in page:  # Go may write an empty slice as null
                items = []
            metadata = page.get("metadata") or {}
            if not (isinstance(metadata, dict) and isinstance(items, list) and all(map(_is_object, items))):
                raise errors.ClusterError(
                    f"{request.what}: the answer is not a list of objects; is a proxy in the way?"
                )
            versions.add(metadata.get("resourceVersion"))
            if len(versions) > 1:
                raise errors.Expired(f"{request.what}: a page is of another list")
            yield from items
            if not metadata.get("continue"):
                return
            request = first._replace(query={**first.query, "continue": metadata["continue"]})

    def _request(
        self, verb: str, resource: Resource, namespace: str, name: str, subresource: str = "", *, body: str = ""
    ) -> Request:
        query = {}
        if verb in {"create", "patch"}:
            query = {"fieldManager": cluster.FIELD_MANAGER, "fieldValidation": "Strict"}
            query |= {"dryRun": "All"} if self.dry_run else {}
        parts = [] if verb == "create" else [part for part in (name, subresource) if part]
        kind, place = f"{verb} {resource.kind} {subresource}".strip(), f"{namespace}/{name}" if namespace else name
        request = Request(
            "/".join([_path(resource, namespace), *(quote(part, safe="") for part in parts)]),
            f"{kind} {place}",
            query,
            _METHODS[verb],
            _as_go_spells(body),
            left=self._left,
            dry_run=self.dry_run,
        )
        return request._replace(longest=LONGEST_OF_LEASE) if resource == LEASES else request

    def _read(self, path: str) -> JSONObject:
        return self._object(Request(path, f"discover {path}"))

    def _object(self, request: Request) -> JSONObject:
        body = self._transport.send(request)
        try:
            value = exact_json.loads(body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            kind = errors.ClusterError if request.repeatable else errors.LostReply
            raise kind(f"{request.what}: the answer is not a JSON object; is a proxy in the way?")
        return value


def _is_object(item: object) -> bool:
    """Whether an item of a list is an object, as far as every reader relies on it."""
    return isinstance(item, dict) and isinstance(item.get("metadata"), dict)


def _path(resource: Resource, namespace: str) -> str:
    """Where the objects of a kind are, in all namespaces if none is given."""
    parts = ["apis", resource.group, resource.version] if resource.group else ["api", resource.version]
    if namespace:
        parts += ["namespaces", namespace]
    return "/" + "/".join(quote(part, safe="") for part in (*parts, resource.plural))


def _as_go_spells(text: str) -> bytes:
    """JSON in the spelling of Go's ``encoding/json``, which escapes characters that JSON need not.

    The API server compares strings of a ``test`` as JSON text, not as values (``gopkg.in/evanphx/json-patch.v4``,
    ``patch.go:lazyNode.equal``), and its own side has these characters escaped: without it no template with ``&&``
    in a command would ever equal itself.
    """
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "surrogateescape")
