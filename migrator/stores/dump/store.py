"""The store on a file: the output of ``kubectl get`` stands for a cluster that can only be read.

Requests that only a cluster can answer raise :class:`~migrator.errors.NotFound`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, ClassVar, Final, NamedTuple, NoReturn, TypeVar

from migrator import exact_json
from migrator.errors import InputError, NotFound, OutputError, UsageError
from migrator.exact_json import JSONObject
from migrator.planning.model import Change
from migrator.planning.patches import value_at
from migrator.resources import DEFAULT_NAMESPACE, HOLDERS, Resource, steps
from migrator.selectors import matches_labels
from migrator.store import DryRun
from migrator.stores.dump import reader
from migrator.stores.dump.reader import STDIO

T = TypeVar("T")

_HELD: Final = {(resource.group, resource.kind): resource for resource in HOLDERS}
_GROUPS: Final = frozenset(resource.group for resource in HOLDERS if resource.group)


class _Entry(NamedTuple):
    """One object of a file, packed because that takes a tenth of the memory.

    One of a kind that is not looked at has no ``resource`` and no name, and is kept to be written again.
    """

    packed: bytes
    file: str
    resource: Resource | None = None
    namespace: str = ""
    name: str = ""

    @classmethod
    def of(cls, value: JSONObject, file: str) -> _Entry:
        """The object, packed; raises ``InputError`` for one of Grove, or a pod, without a name."""
        try:
            packed = zlib.compress(exact_json.dumps(value).encode(), 1)
        except RecursionError as error:
            raise InputError(f"{file}: nested too deeply") from error
        resource = _resource_of(value)
        if resource is None:
            return cls(packed, file)
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
        return f"{self.resource.kind if self.resource else ''} {self.namespace}/{self.name}"


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
                entry = _Entry.of(value, reader.title(path))
                entries.append(entry)
                if entry.resource is None:
                    continue
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

    def write(self, path: str, changes: Iterable[Change]) -> None:
        """Write every object of the one file, with the new values of ``changes``, as ``kubectl get -o json`` does.

        ``-`` is stdout. Raises ``OutputError``, and leaves an existing file as it is then.
        """
        (source,) = self.paths
        planned: dict[str, list[Change]] = {}
        for change in changes:
            planned.setdefault(str(change.ref), []).append(change)
        _write_list(path, self._migrated(planned), source)

    def _migrated(self, planned: Mapping[str, Sequence[Change]]) -> Iterator[JSONObject]:
        for entry in self.entries:
            value = entry.value
            for change in planned.get(str(entry), ()):
                holder, _, _ = change.field.rpartition("/")
                value_at(value, holder)[steps(change.field)[-1]] = change.new
            yield value

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
        return tuple(resource for resource in found if resource is not None and resource.group == group)

    def short_names(self, _group: str) -> Mapping[str, str]:
        """See :meth:`migrator.store.Store.short_names`."""
        return {}

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:  # noqa: ANN401 - any other request
        """A dump is never changed in place: :meth:`write` makes another one."""
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


def _write_list(path: str, objects: Iterable[JSONObject], source: str) -> None:
    """Write a List to a file, or to stdout for ``-``; raises ``OutputError``.

    Its permissions are those of the ``source``. If that is no file, they are those of the file that is replaced, or the
    usual ones of a new file.
    """
    try:
        if path == STDIO:
            sys.stdout.buffer.writelines(_lines(objects))
            sys.stdout.buffer.flush()
        else:
            _replace(Path(os.path.realpath(path)), objects, Path(source))
    except OSError as error:
        raise OutputError(f"cannot write to {'stdout' if path == STDIO else path}: {error.strerror}") from error


def _lines(objects: Iterable[JSONObject]) -> Iterator[bytes]:
    yield b'{\n    "apiVersion": "v1",\n    "items": ['
    separator = ""
    for item in objects:
        text = exact_json.as_go(exact_json.dumps(item, sort_keys=True, indent=4)).replace("\n", "\n        ")
        yield f"{separator}\n        {text}".encode()
        separator = ","
    end = "\n    " if separator else ""
    yield f'{end}],\n    "kind": "List",\n    "metadata": {{\n        "resourceVersion": ""\n    }}\n}}\n'.encode()


def _replace(path: Path, objects: Iterable[JSONObject], source: Path) -> None:
    """Write a new file beside it, then rename: a reader sees the old file or the new one, never a part."""
    if path.exists() and not path.is_file():
        with path.open("wb") as device:  # a pipe or a terminal cannot be replaced
            device.writelines(_lines(objects))
        return
    mode = next((stat.S_IMODE(one.stat().st_mode) for one in (source, path) if one.is_file()), None)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        private = partial(os.open, mode=0o666 if mode is None else 0o600)  # nobody else opens it early
        file: IO[bytes]
        with open(beside, "xb", opener=private) as file:  # a path's own open has no opener
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.writelines(_lines(objects))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
