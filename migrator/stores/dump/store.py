"""The store on a file: the output of ``kubectl get`` stands for a cluster.

Patches apply as on a cluster. Requests that only a cluster can answer raise :class:`~migrator.errors.NotFound`.
"""

from __future__ import annotations

import copy
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

from migrator import exact_json
from migrator.errors import ApiError, InputError, MigratorError, NotFound, OutputError, TestFailed, UsageError
from migrator.exact_json import JSONObject
from migrator.grove.hash_fields import hashes_in
from migrator.resources import DEFAULT_NAMESPACE, HOLDERS, POD_CLIQUES, PODS, Op, Resource, steps
from migrator.selectors import matches_labels
from migrator.store import DryRun, Look, Write, in_turn
from migrator.stores.dump import writer
from migrator.stores.dump.reader import STDIO, DumpFile

K = TypeVar("K")
T = TypeVar("T")
Path: TypeAlias = tuple[str | int, ...]

_HELD: Final = {(resource.group, resource.kind): resource for resource in HOLDERS}
_GROUPS: Final = frozenset(resource.group for resource in HOLDERS if resource.group)


class _Entry:
    """One object: its needed parts in few bytes, and its changed strings."""

    __slots__ = ("_packed", "changes")

    def __init__(self, value: JSONObject) -> None:
        self._packed = exact_json.dumps(value).encode()
        self.changes: dict[Path, str] = {}

    @property
    def current(self) -> JSONObject:
        """The object with its changes, which must not be changed."""
        return _replaced(exact_json.loads(self._packed), self.changes)


def _replaced(value: JSONObject, changes: Mapping[Path, str]) -> JSONObject:
    """The object with other strings; the given one stays as it is."""
    for (*way, last), new in changes.items():
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
            for value in file.objects():
                found[str(value["kind"])] += 1
                resource = _resource_of(value)
                if resource is None:
                    continue
                namespace, name = key = _key(file.name, value)
                held = entries.setdefault(resource, {})
                if key in held:
                    where = _twice(files[: files.index(file) + 1], key, resource)
                    what = f"{resource.kind} {namespace}/{name}"
                    raise InputError(f"{file.name}: {what} {where}; dump every kind once, with one command")
                entry = held[key] = _Entry(_needed(value))
                uid = value["metadata"].get("uid")
                if uid and isinstance(uid, str) and (other := owners.setdefault(uid, entry)) is not entry:
                    of = f"{other.current['kind']} {'/'.join(_key(file.name, other.current))}"
                    message = f"{resource.kind} {namespace}/{name} has the uid {uid} of {of}; no two objects share one"
                    raise InputError(f"{file.name}: {message}: dump again")
        return cls(files, entries, found, dry_run)

    def in_dry_run(self, mode: DryRun) -> DumpStore:
        """The same objects, with writes in ``mode``."""
        return replace(self, dry_run=mode)

    def within(self, left: Callable[[], float]) -> DumpStore:  # noqa: ARG002 - the seam's
        """The same store, because nobody else writes a file."""
        return self

    def write(self, path: str) -> None:
        """Write every object of the file, with the replaced values, as ``kubectl get -o json`` prints them.

        ``-`` is stdout. Raises ``OutputError``, and leaves an existing file as it is then.
        """
        if len(self.files) != 1:
            raise OutputError("a dump of several files cannot be written: give one file with -f")
        (file,) = self.files
        self._check_unchanged(file)  # before anything is printed
        writer.write(path, self._written(file), file.mode)

    def _written(self, file: DumpFile) -> Iterator[JSONObject]:
        for value in file.objects():
            resource = _resource_of(value)
            entry = self.entries[resource][_key(file.name, value)] if resource is not None else None
            yield _replaced(value, entry.changes) if entry is not None else value
        self._check_unchanged(file)

    @staticmethod
    def _check_unchanged(file: DumpFile) -> None:
        if file.changed():
            raise OutputError(f"{file.name}: it was changed while it was read; nothing is written, so run again")

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
            entry.changes |= changes
        return _replaced(before, changes)

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
    """Every object of a file, Lists opened, with numbers as they are spelt; ``-`` is stdin.

    Raises ``InputError`` at the first unreadable place.
    """
    return DumpFile.read(path).documents()


def replaced_strings(document: JSONObject, ops: Sequence[Op], *, subresource: str = "") -> dict[Path, str]:
    """The strings that a patch puts into an object, by their paths.

    As on the API server (``evanphx/json-patch``, ``v4/patch.go``), ``test`` with null holds for an absent key, and
    changes of ``status`` by the main resource, and others by ``status``, are dropped without an error; a ``test`` sees
    the whole object. Raises ``TestFailed`` for an operation that cannot be applied, and ``OutputError`` for one that a
    dump cannot take: a plan has only ``test``, and ``replace`` of one string by another.
    """
    found: dict[Path, str] = {}
    for op in ops:
        path, before = _lookup(document, op)
        if op.op == "test":
            if not same(found.get(path, before), op.value):
                raise _failed(op, "has another value")
        elif op.op != "replace" or not isinstance(before, str) or not isinstance(op.value, str):
            raise OutputError(f"only strings can be replaced in a dump, and {op.path} is changed otherwise")
        elif (path[0] == "status") == (subresource == "status"):
            found[path] = op.value
    return found


def same(one: Any, other: Any) -> bool:  # noqa: ANN401 - any JSON values
    """Whether two JSON values are equal in type and spelling: ``1``, ``1.0``, ``"1"`` and ``true`` all differ."""
    return exact_json.dumps(one, sort_keys=True) == exact_json.dumps(other, sort_keys=True)


def _lookup(document: JSONObject, op: Op) -> tuple[Path, Any]:
    """The path of an operation and the value there, ``None`` for an absent key."""
    value: Any = document
    path: Path = ()
    keys = steps(op.path)
    for number, step in enumerate(keys, start=1):
        if isinstance(value, dict) and (step in value or number == len(keys)):
            value, path = value.get(step), (*path, step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value, path = value[int(step)], (*path, int(step))
        else:
            raise _failed(op, "does not exist")
    return path, value


def _failed(op: Op, what: str) -> TestFailed:
    message = f"a test of the patch does not hold: {op.path} {what}"
    return TestFailed(message, status=HTTPStatus.UNPROCESSABLE_ENTITY, reason="Invalid")


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


def _twice(files: Sequence[DumpFile], key: tuple[str, str], resource: Resource) -> str:
    """Where an object is that the last of the files has, too."""
    *others, last = files
    found = (
        file.name
        for file in others
        if any(_resource_of(value) == resource and _key(file.name, value) == key for value in file.objects())
    )
    first = next(found, last.name)
    return "is in it twice" if first == last.name else f"is in {first} too"


def _labels(value: JSONObject) -> dict[str, str]:
    labels = value["metadata"].get("labels")
    return labels if isinstance(labels, dict) else {}


def _missing(message: str) -> ApiError:
    return NotFound(message, status=HTTPStatus.NOT_FOUND, reason="NotFound")
