"""The store on a file: the output of ``kubectl get`` stands for a cluster that can only be read.

Requests that only a cluster can answer raise :class:`~migrator.errors.NotFound`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, TypeVar

from migrator import exact_json
from migrator.errors import InputError, NotFound, OutputError, UsageError
from migrator.exact_json import JSONObject
from migrator.grove.hash_fields import hashes_in
from migrator.planning.model import Change
from migrator.planning.patches import value_at
from migrator.resources import DEFAULT_NAMESPACE, HOLDERS, POD_CLIQUES, PODS, Resource, steps
from migrator.selectors import matches_labels
from migrator.store import DryRun, Look
from migrator.stores.dump import writer
from migrator.stores.dump.reader import DumpFile

T = TypeVar("T")

_HELD: Final = {(resource.group, resource.kind): resource for resource in HOLDERS}
_GROUPS: Final = frozenset(resource.group for resource in HOLDERS if resource.group)


class _Entry(NamedTuple):
    """The needed parts of one object, as JSON because that takes a fifth of the memory, and the file that it is in."""

    packed: bytes
    file: str

    @property
    def value(self) -> JSONObject:
        """The object."""
        value: JSONObject = exact_json.loads(self.packed)
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
    is_cluster: ClassVar = False
    dry_run: ClassVar = DryRun.CLIENT

    @property
    def name(self) -> str:
        """The names of the files."""
        return ", ".join(file.name for file in self.files)

    @classmethod
    def read(cls, *paths: str) -> DumpStore:
        """Read one dump, ``-`` from stdin; raises ``InputError`` with file and place if it is not one, or not whole."""
        twice = next((path for number, path in enumerate(paths) if path in paths[:number]), None)
        if twice is not None:
            raise UsageError(f"-f {twice} is given twice: give it once")
        files = [DumpFile.read(path) for path in paths]
        entries: dict[Resource, dict[tuple[str, str], _Entry]] = {resource: {} for resource in HOLDERS}
        found: Counter[str] = Counter()
        owners: dict[str, str] = {}  # by uid, and gone before the plan needs the memory
        for file in files:
            for value in file.objects():
                found[str(value["kind"])] += 1
                resource = _resource_of(value)
                if resource is None:
                    continue
                namespace, name = key = _key(file.name, value)
                what = f"{resource.kind} {namespace}/{name}"
                held = entries.setdefault(resource, {})
                if key in held:
                    where = "is in it twice" if held[key].file == file.name else f"is in {held[key].file} too"
                    raise InputError(f"{file.name}: {what} {where}; dump every kind once, with one command")
                held[key] = _Entry(exact_json.dumps(_needed(value)).encode(), file.name)
                uid = value["metadata"].get("uid")
                if uid and isinstance(uid, str) and (other := owners.setdefault(uid, what)) != what:
                    message = f"{what} has the uid {uid} of {other}; no two objects share one"
                    raise InputError(f"{file.name}: {message}: dump again")
        return cls(files, entries, found)

    def in_dry_run(self, mode: DryRun) -> DumpStore:  # noqa: ARG002 - the seam's
        """The same store, because a dump is never written to."""
        return self

    def within(self, left: Callable[[], float]) -> DumpStore:  # noqa: ARG002 - the seam's
        """The same store."""
        return self

    def write(self, path: str, changes: Iterable[Change]) -> None:
        """Write every object of the one file, with the new values of ``changes``, as ``kubectl get -o json`` does.

        ``-`` is stdout. Raises ``OutputError``, and leaves an existing file as it is then.
        """
        (file,) = self.files
        planned: dict[tuple[str, str, str], list[Change]] = {}
        for change in changes:
            planned.setdefault((change.ref.kind, change.ref.namespace, change.ref.name), []).append(change)
        writer.write(path, _migrated(file, planned), file.mode)

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
        items: list[T] = []
        for (home, _), entry in self._held(resource).items():
            raw = entry.value
            if namespace in {None, home} and matches_labels(label_selector, _labels(raw)):
                try:
                    items.append(project(raw))
                except InputError as error:
                    raise InputError(f"{entry.file}: {error}") from error
                if look is not None:
                    look(raw)
        return tuple(items)

    def kinds(self, group: str) -> tuple[Resource, ...]:
        """See :meth:`migrator.store.Store.kinds`."""
        return tuple(resource for resource, held in self.entries.items() if resource.group == group and held)

    def get(self, resource: Resource, namespace: str, name: str, *, subresource: str = "") -> JSONObject:
        """See :meth:`migrator.store.Store.get`."""
        entry = self._held(resource).get((namespace, name))
        if entry is None or subresource not in {"", "status"}:
            raise NotFound(f"{self.name}: there is no {resource.kind} {namespace}/{name} {subresource}".rstrip())
        return entry.value

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:  # noqa: ANN401 - any request that writes
        """A dump is never changed in place: :meth:`write` makes another one."""
        raise NotFound(f"{self.name}: a dump cannot be written to")

    create = patch = patches = delete = _refuse

    def _held(self, resource: Resource) -> dict[tuple[str, str], _Entry]:
        held = self.entries.get(resource)
        if held is None:
            raise NotFound(f"{self.name}: a dump has no {resource.plural}")
        return held


def read_documents(path: str) -> Iterator[JSONObject]:
    """Every object of a file, Lists opened, with numbers as they are spelt; ``-`` is stdin.

    Raises ``InputError`` at the first unreadable place.
    """
    return DumpFile.read(path).documents()


def _migrated(file: DumpFile, planned: dict[tuple[str, str, str], list[Change]]) -> Iterator[JSONObject]:
    """The objects of a file with their new values.

    The file is read again, so each old value is looked for: raises ``OutputError`` where one is not there any more.
    """
    changed = OutputError(f"{file.name}: it was changed while it was read; nothing is written, so run again")
    for value in file.objects():
        resource = _resource_of(value)
        for change in planned.pop((resource.kind, *_key(file.name, value)), ()) if resource is not None else ():
            if value_at(value, change.field) != change.old:
                raise changed
            holder, _, _ = change.field.rpartition("/")
            value_at(value, holder)[steps(change.field)[-1]] = change.new
        yield value
    if planned:
        raise changed


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
