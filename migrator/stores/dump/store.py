"""The store on a file: the output of ``kubectl get`` stands for a cluster.

Patches apply as on a cluster. Requests that only a cluster can answer raise :class:`~migrator.errors.NotFound`.
"""

from __future__ import annotations

import copy
import marshal
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeVar

from migrator.errors import ApiError, InputError, MigratorError, NotFound, OutputError, UsageError
from migrator.exact_json import JSONObject
from migrator.grove.sweep import hashes_in
from migrator.resources import DEFAULT_NAMESPACE, HOLDERS, POD_CLIQUES, PODS, Op, Resource
from migrator.selectors import matches_labels
from migrator.store import DryRun, Look, Write, in_turn
from migrator.stores.dump.file import STDIO, DumpFile
from migrator.stores.dump.patching import replaced_strings
from migrator.stores.json_stream import Path

K = TypeVar("K")
T = TypeVar("T")

_HELD: Final = {(resource.group, resource.kind): resource for resource in HOLDERS}
_GROUPS: Final = frozenset(resource.group for resource in HOLDERS if resource.group)
_NOT_FOUND: Final = 404


class _Entry:
    """One object: its needed parts in few bytes, its place in the file, and its changed strings."""

    __slots__ = ("_packed", "changes", "document", "path")

    def __init__(self, value: JSONObject, document: int, path: Path) -> None:
        try:
            self._packed: bytes | JSONObject = marshal.dumps(value)
        except ValueError:  # a number that keeps its spelling
            self._packed = value
        self.document = document
        self.path = path
        self.changes: tuple[tuple[Path, str], ...] = ()

    @property
    def current(self) -> JSONObject:
        """The object with its changes, which must not be changed."""
        packed = self._packed
        value: JSONObject = marshal.loads(packed) if isinstance(packed, bytes) else packed  # noqa: S302 - our own bytes
        return _replaced(value, self.changes)


def _replaced(value: JSONObject, changes: Iterable[tuple[Path, str]]) -> JSONObject:
    """The object with other strings; the given one stays as it is."""
    for (*way, last), new in changes:
        holder: Any = copy.copy(value)
        value = holder
        for step in way:
            holder[step] = copy.copy(holder[step])
            holder = holder[step]
        holder[last] = new
    return value


def _needed(value: JSONObject) -> JSONObject:
    """An object without unused parts: without a pod's containers, and without all of a PodClique's but its hashes."""
    metadata = value["metadata"]
    if "managedFields" in metadata:
        value = {**value, "metadata": {key: part for key, part in metadata.items() if key != "managedFields"}}
    if value["kind"] == PODS.kind:
        briefly: JSONObject = {"spec": {}} if "spec" in value else {}
        status = value.get("status")
        if isinstance(status, dict):
            briefly["status"] = {"phase": status.get("phase")}
        return {**value, **briefly}
    spec = value.get("spec")
    if value["kind"] == POD_CLIQUES.kind and isinstance(spec, dict) and "podSpec" in spec:
        return {**value, "spec": {**spec, "podSpec": hashes_in(spec["podSpec"])}}
    return value


@dataclass(frozen=True, slots=True)
class DumpStore:
    """Objects of Grove and pods, from one file or from several; ``found`` counts all objects by kind."""

    files: Sequence[DumpFile]
    entries: dict[Resource, dict[tuple[str, str], _Entry]]
    found: Mapping[str, int]
    dry_run: DryRun
    is_cluster: ClassVar = False

    @property
    def name(self) -> str:
        """The names of the files."""
        return ", ".join(file.name for file in self.files)

    @classmethod
    def read(cls, *paths: str, dry_run: DryRun = DryRun.NONE) -> DumpStore:
        """Read one dump, ``-`` from stdin; raises ``InputError`` with file and place if it is not one, or not whole."""
        if paths.count(STDIO) > 1:
            raise UsageError("stdin can be read once: give -f - once")
        files = [DumpFile.read(path) for path in paths]
        entries: dict[Resource, dict[tuple[str, str], _Entry]] = {resource: {} for resource in HOLDERS}
        found: Counter[str] = Counter()
        owners: dict[str, _Entry] = {}  # by uid, and gone before the plan needs the memory
        for file in files:
            for placed in file.objects(whole=True):
                found[str(placed.value["kind"])] += 1
                resource = _resource_of(placed.value)
                if resource is None:
                    continue
                namespace, name = key = _key(file.name, placed.value)
                held = entries.setdefault(resource, {})
                if key in held:
                    what = f"{resource.kind} {namespace}/{name}"
                    raise InputError(f"{file.name}: {what} is in it twice; dump every kind once, with one command")
                entry = held[key] = _Entry(_needed(placed.value), placed.document, placed.path)
                uid = placed.value["metadata"].get("uid")
                if uid and isinstance(uid, str) and (other := owners.setdefault(uid, entry)) is not entry:
                    of = f"{other.current['kind']} {'/'.join(_key(file.name, other.current))}"
                    message = f"{resource.kind} {namespace}/{name} has the uid {uid} of {of}; no two objects share one"
                    raise InputError(f"{file.name}: {message}: dump again")
            if not file.first:
                raise InputError(f"{file.name}: is empty: dump again, and see what kubectl printed on stderr")
        return cls(files, entries, found, dry_run)

    def in_dry_run(self, mode: DryRun) -> DumpStore:
        """The same objects, with writes in ``mode``."""
        return replace(self, dry_run=mode)

    def within(self, left: Callable[[], float]) -> DumpStore:  # noqa: ARG002 - the seam's
        """The same store, because nobody else writes a file."""
        return self

    def write(self, path: str) -> None:
        """Write the file as it was read, except for the replaced values; ``-`` is stdout.

        Raises ``OutputError``, and leaves an existing file as it is then.
        """
        if len(self.files) != 1:
            raise OutputError("a dump of several files cannot be written: give one file with -f")
        changes: dict[tuple[int, Path], list[tuple[Path, str]]] = {}
        for entry in (entry for held in self.entries.values() for entry in held.values() if entry.changes):
            holder, inner = entry.path[:2], entry.path[2:]  # an item of a List, which may be a List
            news = changes.setdefault((entry.document, holder), [])
            news += (((*inner, *path), new) for path, new in entry.changes)
        self.files[0].write(path, changes)

    def list(
        self,
        resource: Resource,
        project: Callable[[JSONObject], T],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,  # noqa: ARG002 - what it asks for is in the object
        metadata_only: bool = False,  # noqa: ARG002 - a file is in memory already
        look: Look | None = None,
    ) -> tuple[T, ...]:
        """See :meth:`migrator.store.Store.list`; a kind without objects in the dump is an empty list."""
        found = (entry.current for (home, _), entry in self._held(resource).items() if namespace in {None, home})
        items: list[T] = []
        for raw in found:
            if matches_labels(label_selector, _labels(raw)):
                items.append(project(raw))
                if look is not None:
                    look(raw)
        return tuple(items)

    def kinds(self, group: str) -> tuple[Resource, ...]:
        """See :meth:`migrator.store.Store.kinds`."""
        return tuple(resource for resource, held in self.entries.items() if resource.group == group and held)

    def get(self, resource: Resource, namespace: str, name: str, *, subresource: str = "") -> JSONObject:
        """See :meth:`migrator.store.Store.get`. What is returned must not be changed."""
        if subresource not in {"", "status"}:
            raise _missing(f"{resource.kind} {namespace}/{name} has no {subresource} in a dump")
        return self._entry(resource, namespace, name).current

    def create(self, resource: Resource, namespace: str, body: JSONObject) -> JSONObject:  # noqa: ARG002 - the seam's
        """A dump never gains objects: raises :class:`~migrator.errors.NotFound`, except in a dry run."""
        if self.dry_run is DryRun.NONE:
            raise _missing(f"{self.name}: {resource.plural} cannot be created or deleted in a dump")
        return body

    def patch(
        self, resource: Resource, namespace: str, name: str, ops: Sequence[Op], *, subresource: str = ""
    ) -> JSONObject:
        """See :meth:`migrator.store.Store.patch`."""
        if self.dry_run is DryRun.CLIENT:
            return {}
        entry = self._entry(resource, namespace, name)
        before = entry.current
        changes = replaced_strings(before, ops, subresource=subresource)
        if self.dry_run is DryRun.NONE:
            entry.changes = tuple((dict(entry.changes) | changes).items())
        return _replaced(before, changes.items())

    def patches(
        self,
        take: Callable[[], tuple[K, Write] | None],
        *,
        concurrency: int,  # noqa: ARG002 - the seam's
    ) -> Generator[tuple[K, MigratorError | None], None, None]:
        """See :meth:`migrator.store.Store.patches`: one after the other."""
        return in_turn(self, take)

    def delete(self, resource: Resource, namespace: str, name: str, uid: str) -> None:  # noqa: ARG002 - the seam's
        """A dump never loses objects: raises :class:`~migrator.errors.NotFound`, except in a dry run."""
        self.create(resource, namespace, {})  # which is refused for the same reason

    def _entry(self, resource: Resource, namespace: str, name: str) -> _Entry:
        entry = self._held(resource).get((namespace, name))
        if entry is None:
            raise _missing(f"{self.name}: there is no {resource.kind} {namespace}/{name}")
        return entry

    def _held(self, resource: Resource) -> dict[tuple[str, str], _Entry]:
        held = self.entries.get(resource)
        if held is None:
            raise _missing(f"{self.name}: a dump has no {resource.plural}")
        return held


def read_documents(path: str) -> Iterator[JSONObject]:
    """Every object of a file, Lists opened; ``-`` is stdin. Raises ``InputError`` at the first unreadable place."""
    return (placed.value for placed in DumpFile.read(path).objects())


def _resource_of(value: JSONObject) -> Resource | None:
    group, slash, version = str(value["apiVersion"]).rpartition("/")
    kind = str(value["kind"])
    if group in _GROUPS and (group, kind) not in _HELD:  # read for its strings only
        return Resource(group, version, f"{kind.lower()}s", kind)
    return _HELD.get((group if slash else "", kind))


def _key(file: str, value: JSONObject) -> tuple[str, str]:
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str) or not name:
        raise InputError(f"{file}: a {value['kind']} has no metadata.name")
    return sys.intern(str(metadata.get("namespace") or DEFAULT_NAMESPACE)), name


def _labels(value: JSONObject) -> dict[str, str]:
    labels = value["metadata"].get("labels")
    return labels if isinstance(labels, dict) else {}


def _missing(message: str) -> ApiError:
    return NotFound(message, status=_NOT_FOUND, reason="NotFound")
