"""The store on a file: the output of ``kubectl get`` stands for a cluster that can only be read.

Requests that only a cluster can answer raise :class:`~migrator.errors.NotFound`.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, TypeVar

from migrator import exact_json
from migrator.errors import InputError, NotFound, UsageError
from migrator.exact_json import JSONObject
from migrator.resources import DEFAULT_NAMESPACE, HOLDERS, Resource
from migrator.selectors import matches_labels
from migrator.store import DryRun
from migrator.stores.dump import reader

T = TypeVar("T")

_HELD: Final = {(resource.group, resource.kind): resource for resource in HOLDERS}
_GROUPS: Final = frozenset(resource.group for resource in HOLDERS if resource.group)


class _Entry(NamedTuple):
    """One object of a file, packed because that takes a tenth of the memory."""

    packed: bytes
    file: str
    resource: Resource
    namespace: str
    name: str

    @classmethod
    def of(cls, resource: Resource, value: JSONObject, file: str) -> _Entry:
        """The object, packed; raises ``InputError`` for one without a name."""
        try:
            packed = zlib.compress(exact_json.dumps(value).encode(), 1)
        except RecursionError as error:
            raise InputError(f"{file}: nested too deeply") from error
        metadata = value.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(metadata, dict) or not isinstance(name, str) or not name:
            raise InputError(f"{file}: a {value['kind']} has no metadata.name")
        return cls(packed, file, resource, sys.intern(str(metadata.get("namespace") or DEFAULT_NAMESPACE)), name)

    @property
    def value(self) -> JSONObject:
        """The object."""
        value: JSONObject = exact_json.loads(zlib.decompress(self.packed))
        return value

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class DumpStore:
    """The objects of one file or of several."""

    paths: Sequence[str]
    entries: Sequence[_Entry]
    is_cluster: ClassVar = False
    context: ClassVar = None
    dry_run: ClassVar = DryRun.CLIENT

    @property
    def name(self) -> str:
        """The names of the files."""
        return ", ".join(map(reader.title, self.paths))

    @classmethod
    def read(cls, *paths: str) -> DumpStore:
        """Read one dump, ``-`` from stdin; raises ``InputError`` with file and place if it is not one, or not whole."""
        twice = next((path for number, path in enumerate(paths) if path in paths[:number]), None)
        if twice is not None:
            raise UsageError(f"-f {twice} is given twice: give it once")
        entries: list[_Entry] = []
        files: dict[tuple[Resource, str, str], str] = {}  # by object
        owners: dict[str, str] = {}  # by uid
        for path in paths:
            for value in reader.objects(path):
                resource = _resource_of(value)
                if resource is None:
                    continue
                entry = _Entry.of(resource, value, reader.title(path))
                entries.append(entry)
                key = entry.resource, entry.namespace, entry.name
                if key in files:
                    where = "is in it twice" if files[key] == entry.file else f"is in {files[key]} too"
                    raise InputError(f"{entry.file}: {entry} {where}; dump every kind once, with one command")
                files[key] = entry.file
                uid = value["metadata"].get("uid")
                if uid and isinstance(uid, str) and (other := owners.setdefault(uid, str(entry))) != str(entry):
                    message = f"{entry} has the uid {uid} of {other}; no two objects share one"
                    raise InputError(f"{entry.file}: {message}: dump again")
        return cls(paths, entries)

    def in_dry_run(self, mode: DryRun) -> DumpStore:  # noqa: ARG002 - the seam's
        """The same store, because a dump is never written to."""
        return self

    def within(self, left: Callable[[], float]) -> DumpStore:  # noqa: ARG002 - the seam's
        """The same store."""
        return self

    def list(
        self,
        resource: Resource,
        project: Callable[[JSONObject], T],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,  # noqa: ARG002 - what it asks for is in the object
        metadata_only: bool = False,  # noqa: ARG002 - a file is in memory already
    ) -> tuple[T, ...]:
        """See :meth:`migrator.store.Store.list`; a kind of Grove without objects in the dump is an empty list."""
        if resource not in HOLDERS and resource.group not in _GROUPS:
            raise NotFound(f"{self.name}: a dump has no {resource.plural}")
        items: list[T] = []
        for entry in self.entries:
            if entry.resource != resource or namespace not in {None, entry.namespace}:
                continue
            raw = entry.value
            if matches_labels(label_selector, _labels(raw)):
                try:
                    items.append(project(raw))
                except InputError as error:
                    raise InputError(f"{entry.file}: {error}") from error
        return tuple(items)

    def kinds(self, group: str) -> tuple[Resource, ...]:
        """See :meth:`migrator.store.Store.kinds`."""
        found = dict.fromkeys(entry.resource for entry in self.entries)
        return tuple(resource for resource in found if resource.group == group)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:  # noqa: ANN401 - any other request
        """A dump is never changed."""
        raise NotFound(f"{self.name}: a dump cannot be written to, nor asked for one object")

    get = create = patch = delete = _refuse


def _resource_of(value: JSONObject) -> Resource | None:
    group, slash, version = str(value["apiVersion"]).rpartition("/")
    kind = str(value["kind"])
    if group in _GROUPS and (group, kind) not in _HELD:  # read for its strings only
        return Resource(group, version, f"{kind.lower()}s", kind)
    return _HELD.get((group if slash else "", kind))


def _labels(value: JSONObject) -> dict[str, str]:
    labels = value["metadata"].get("labels")
    return labels if isinstance(labels, dict) else {}
