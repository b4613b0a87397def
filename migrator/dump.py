"""A file of Kubernetes objects as a cluster: what ``kubectl get -o yaml`` or ``-o json`` prints. It can only be read.

The file is a List, several documents, or JSON Lines. JSON is never parsed as YAML.
"""

from __future__ import annotations

import io
import pickle
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Final, NamedTuple, NoReturn, TypeAlias, TypeVar

from migrator import errors, kubectl_json
from migrator.exact_json import JSONNumber, JSONObject
from migrator.kinds import DEFAULT_NAMESPACE, HOLDERS, POD_CLIQUE_SETS, Resource, pointer

T = TypeVar("T")

STDIO: Final = "-"
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")  # what PowerShell's > writes
_GZIP: Final = b"\x1f\x8b"

_BY_KIND: Final = {(resource.group, resource.kind): resource for resource in HOLDERS}
_GROUPS: Final = frozenset(resource.group for resource in HOLDERS if resource.group)

#: A document, or an item of a List, and its place: ``document 1, item 2``.
_Placed: TypeAlias = tuple[Any, str]


def title(path: str) -> str:
    """What messages call a file: its path, or stdin for ``-``."""
    return "stdin" if path == STDIO else path


def objects(path: str, *, lenient: bool = False) -> Iterator[JSONObject]:
    """Every object of a file, with Lists opened; raises :class:`~migrator.errors.InputError` at a bad place.

    In JSON a number keeps its spelling. A List with a further page is bad, as the objects that it lacks would count as
    absent. So are a set with a number that a dump can spell in another way, and an object without a name, unless it is
    ``lenient``.
    """
    try:
        with _opened(path) as file:
            for value, place in _documents(file):
                for item, at in _items(value, place):
                    _demand_usable(item, at, lenient=lenient)
                    yield item
    except OSError as error:
        raise errors.InputError(f"{title(path)}: cannot be read: {error.strerror or error}") from error
    except RecursionError as error:
        raise errors.InputError(f"{title(path)}: nested too deeply") from error
    except ValueError as error:
        raise errors.InputError(f"{title(path)}: {error}") from error


def _opened(path: str) -> IO[bytes]:
    """The file; what can be read only once is read into memory."""
    if path == STDIO:
        return io.BytesIO(sys.stdin.buffer.read())
    file = Path(path).open("rb")  # noqa: SIM115 - the caller closes it
    return file if file.seekable() else io.BytesIO(file.read())


def _documents(file: IO[bytes]) -> Iterator[_Placed]:
    head = file.read(1 << 16)
    file.seek(0)
    if head.startswith(_GZIP):
        raise ValueError("is gzip: unpack it, or pipe `gunzip -c FILE` into `-f -`")
    encoding = "utf-16" if head.startswith(_UTF_16) else "utf-8-sig"
    begin = head.decode(encoding, "replace").lstrip()
    if not begin:
        raise ValueError("is empty: dump again, and see what kubectl printed on stderr")
    # YAML that begins like JSON is not accepted, as it could mean something else.
    if begin[0] not in "{[":
        from migrator import kubectl_yaml  # noqa: PLC0415 - a dump of JSON does not need it

        yield from ((value, place) for value, place in kubectl_yaml.documents(file) if value is not None)
        return
    # Go replaces what is not UTF-8, and so does hashing.
    undecodable = "replace" if encoding == "utf-16" else "surrogateescape"
    with io.TextIOWrapper(file, encoding, undecodable, newline="") as text:
        yield from kubectl_json.documents(text)


def _items(value: Any, place: str) -> Iterator[_Placed]:  # noqa: ANN401 - any JSON value
    """The objects that a document or item holds; raises ``ValueError`` with the place of what is none."""
    names = [value.get("apiVersion"), value.get("kind")] if isinstance(value, dict) else [None]
    if not all(name and isinstance(name, str) for name in names):
        raise ValueError(f"{place} is not an object with apiVersion and kind: {errors.DUMP_AGAIN}")
    if "items" not in value:
        yield value, place
        return
    items = value["items"] if value["items"] is not None else []
    if value.keys() - {"apiVersion", "kind", "metadata", "items"} or not isinstance(items, list):
        raise ValueError(f"{place} is not a List as kubectl prints it: {errors.DUMP_AGAIN}")
    metadata = value.get("metadata")
    if isinstance(metadata, dict) and metadata.get("continue"):
        raise ValueError(
            f"{place} is one page of a longer list (metadata.continue is set): dump again without a limit, which is "
            "what `kubectl get` does by default"
        )
    kind = value["kind"].removesuffix("List")
    own = {"apiVersion": value["apiVersion"], "kind": kind} if kind else {}  # the API leaves it out in a typed List
    for number, item in enumerate(items, 1):
        typed = {**own, **item} if isinstance(item, dict) else item
        yield from _items(typed, f"{place}, item {number}")


def _demand_usable(value: JSONObject, place: str, *, lenient: bool) -> None:
    """Raise ``ValueError`` for an object whose hashes cannot be trusted."""
    group, _, version = value["apiVersion"].rpartition("/")
    known = _BY_KIND.get((group, value["kind"]))
    metadata = value["metadata"] if isinstance(value.get("metadata"), dict) else {}
    name = metadata.get("name")
    what = f"{place}: {value['kind']} {metadata.get('namespace') or DEFAULT_NAMESPACE}/{name}"
    if known is not None and version != known.version:
        raise ValueError(
            f"{what} is {value['apiVersion']}, and only {known.version} is known. Dump it with `kubectl get "
            f"{known.plural}.{known.version}.{known.group} -A -o yaml`, or use a newer grove-migrator."
        )
    if not lenient and _resource_of(value) is not None and not (isinstance(name, str) and name):
        raise ValueError(f"{place}: a {value['kind']} has no metadata.name")
    for odd in _odd_numbers(value.get("spec"), "spec") if known == POD_CLIQUE_SETS and not lenient else ():
        raise ValueError(
            f"{what}: {odd} is a number that is not a plain integer, and a dump can lose how it is spelt. Plan on the "
            "cluster itself, without -f."
        )


def _odd_numbers(value: Any, *path: object) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    """Where the numbers are whose spelling is hashed."""
    if isinstance(value, JSONNumber | float):
        yield pointer(*path)
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        yield from _odd_numbers(inner, *path, key)


class _Entry(NamedTuple):
    """One object of a file, packed because that takes a tenth of the memory."""

    packed: bytes
    file: str
    resource: Resource
    namespace: str
    name: str

    @classmethod
    def of(cls, resource: Resource, value: JSONObject, file: str) -> _Entry:
        """The object, which has a name, packed."""
        metadata, name = value["metadata"], value["metadata"]["name"]
        namespace = sys.intern(str(metadata.get("namespace") or DEFAULT_NAMESPACE))
        try:
            packed = zlib.compress(pickle.dumps(value), 1)
        except RecursionError as error:
            raise errors.InputError(f"{file}: {resource.kind} {namespace}/{name} is nested too deeply") from error
        return cls(packed, file, resource, namespace, name)

    @property
    def value(self) -> JSONObject:
        """The object."""
        value: JSONObject = pickle.loads(zlib.decompress(self.packed))  # noqa: S301 - packed by ourselves
        return value


@dataclass(frozen=True, slots=True)
class Dump:
    """The objects of one file or of several: a cluster that can only be read.

    Requests that only a cluster can answer raise :class:`~migrator.errors.NotFound`.
    """

    paths: Sequence[str]
    entries: Sequence[_Entry]
    is_cluster: ClassVar = False
    context: ClassVar = None
    dry_run: ClassVar = True  # nothing is ever written to it

    @property
    def name(self) -> str:
        """The names of the files."""
        return ", ".join(map(title, self.paths))

    @classmethod
    def read(cls, *paths: str) -> Dump:
        """Read one dump, ``-`` from stdin; raises ``InputError`` with file and place if it is not one, or not whole."""
        entries: dict[tuple[Resource, str, str], _Entry] = {}
        for file, value in ((title(path), value) for path in paths for value in objects(path)):
            resource = _resource_of(value)
            if resource is None:
                continue
            entry = _Entry.of(resource, value, file)
            first = entries.setdefault((resource, entry.namespace, entry.name), entry)
            if first is not entry:
                where = "is in it twice" if first.file == file else f"is in {first.file} too"
                what = f"{resource.kind} {entry.namespace}/{entry.name}"
                raise errors.InputError(f"{file}: {what} {where}; dump every kind once, with one command")
        return cls(paths, tuple(entries.values()))

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
        """See :meth:`migrator.cluster.Cluster.list`; of a label the name is enough.

        A kind of Grove without objects in the dump is an empty list.
        """
        if resource not in HOLDERS and resource.group not in _GROUPS:
            raise errors.NotFound(f"{self.name}: a dump has no {resource.plural}")
        items: list[T] = []
        for entry in self.entries:
            if entry.resource != resource or namespace not in {None, entry.namespace}:
                continue
            raw = entry.value
            labels = raw["metadata"].get("labels")
            if label_selector is not None and not (isinstance(labels, dict) and label_selector in labels):
                continue
            try:
                items.append(project(raw))
            except errors.InputError as error:
                raise errors.InputError(f"{entry.file}: {error}") from error
        return tuple(items)

    def kinds(self, group: str) -> tuple[Resource, ...]:
        """See :meth:`migrator.cluster.Cluster.kinds`."""
        found = dict.fromkeys(entry.resource for entry in self.entries)
        return tuple(resource for resource in found if resource.group == group)

    def short_names(self, _group: str) -> Mapping[str, str]:
        """See :meth:`migrator.cluster.Cluster.short_names`."""
        return {}

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:  # noqa: ANN401 - any other request
        """What only a run asks for."""
        raise errors.NotFound(f"{self.name}: a dump cannot be written to, nor asked for one object")

    get = create = patch = in_dry_run = within = _refuse


def _resource_of(value: JSONObject) -> Resource | None:
    """The kind of an object; ``None`` if nothing asks for it.

    Grove's kinds that hold no hashes are asked for too, because a hash at an unknown place refuses its set.
    """
    group, _, version = value["apiVersion"].rpartition("/")
    kind = value["kind"]
    other = Resource(group, version, f"{kind.lower()}s", kind) if group in _GROUPS else None
    return _BY_KIND.get((group, kind), other)
