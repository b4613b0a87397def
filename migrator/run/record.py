"""The record of a migration: its run, and the table of each set.

There is one record, of one pair of schemes. It is open until its run has ended well; then it serves revert and verify.
It is one ConfigMap, ``grove-migrator-run``, replaced as a whole: the run as JSON, with the digest of the tables,
and the tables as gzipped JSON. What cannot be read, or has another format, is refused; only ``verify`` without
``--after-upgrade`` counts it as absent.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import shlex
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum, auto
from functools import cache, partial
from hashlib import blake2b
from typing import Any, Final, TypeVar

from migrator.errors import AlreadyExists, LostRace, LostReply, NotFound, Refused, TestFailed, Unreadable, count
from migrator.grove.hash_fields import stored_hashes
from migrator.grove.objects import Tree
from migrator.planning.model import AlreadyNew, SetPlan, Table
from migrator.planning.options import AUTO
from migrator.planning.planner import template_digest
from migrator.resources import CONFIG_MAPS, Op
from migrator.store import Store


@dataclass(frozen=True, slots=True)
class OperatorBefore:
    """The operator's Deployment as a run stopped it."""

    replicas: int
    image: str
    uid: str


class RecordState(StrEnum):
    """How far a run got."""

    STOPPING = auto()  # nothing was written to a set
    WRITING = auto()
    REVERTING = auto()
    DONE = auto()


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run: its identity, its schemes as requested, its times, its state, and why it ended if it failed.

    ``operator`` is the Deployment that a revert restores, ``stopped`` the one that this run itself stopped (``None`` if
    it was at zero already). ``version`` is that of grove-migrator. ``found_parked``: when this run began,
    the operator's Lease was parked and no record was open, so an earlier run may have written hashes. If there was no
    record at all, this run saves no tables.
    """

    run_id: str
    identity: str
    version: str
    source: str
    target: str
    started: datetime
    finished: datetime | None
    state: str
    revert: bool = False
    operator: OperatorBefore | None = None
    stopped: OperatorBefore | None = None
    error: str | None = None
    found_parked: bool = False

    @property
    def is_early(self) -> bool:
        """Whether no hash can have been written, neither by this run nor by an earlier one whose record is lost."""
        return self.state == RecordState.STOPPING and not self.found_parked

    @property
    def reverts(self) -> bool:
        """Whether it undoes a migration: one that was begun as a revert, or as a migration that is now undone."""
        return self.state == RecordState.REVERTING or (self.revert and self.state == RecordState.STOPPING)

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags with which the same run is begun again."""
        source = () if self.source == AUTO else ("--from", self.source)
        return (*source, "--to", self.target, *(("--revert",) if self.reverts else ()))


def table_of(plan: SetPlan, run: str = "") -> Table:
    """The table of a tree that will be written to; raises ``ValueError`` for a plan without source or hashes."""
    source, target, pcs = plan.source_hashes, plan.target_hashes, plan.tree.pcs
    if plan.source is None or source is None or target is None:
        raise ValueError(f"{pcs.ref} has no source, so its hashes cannot be translated")
    kept = tuple(
        AlreadyNew(item.ref, item.field, item.value)
        for item in stored_hashes(plan.tree)
        if item.value == target.of(item.clique) and item.value != source.of(item.clique)
    )
    return Table(
        namespace=pcs.ref.namespace,
        name=pcs.ref.name,
        uid=pcs.ref.uid,
        generation=pcs.generation,
        source=plan.source,
        target=plan.target,
        source_hashes=source,
        target_hashes=target,
        template_digest=template_digest(pcs),
        kept=kept,
        run=run,
    )


def pods_of(tree: Tree) -> Mapping[str, tuple[str, ...]]:
    """The pods of each PodClique that stays, with which ``verify`` compares: :func:`pod_id` of those that live."""
    return {
        clique.ref.name: tuple(sorted(pod_id(pod.ref.uid) for pod in clique.pods if not pod.terminating))
        for clique in tree.staying
    }


def pod_id(uid: str) -> str:
    """A digest of a pod's uid: 8 bytes, in hexadecimal."""
    return blake2b(uid.encode(), digest_size=8).hexdigest()


T = TypeVar("T")

FORMAT: Final = 6
RUN_NAME: Final = "grove-migrator-run"
LABELS: Final = {
    "app.kubernetes.io/name": "grove-migrator",
    "app.kubernetes.io/component": "record",
    "app.kubernetes.io/managed-by": "grove-migrator",
}

#: How many bytes a record may have: a ConfigMap holds 1 MiB (Kubernetes: ``pkg/apis/core/validation``,
#: ``ValidateConfigMap``, where binary data counts as it is, not as base64).
MOST: Final = 1024 * 1024
_RUN_KEY: Final = "run.json"
_TABLES_KEY: Final = "tables.json.gz"
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was found: the run, and one table for each set."""

    run: RunRecord | None = None
    tables: tuple[Table, ...] = ()

    @property
    def unfinished(self) -> RunRecord | None:
        """The run that did not end: this one, or one that died."""
        return self.run if self.run is not None and self.run.finished is None else None

    def by_set(self) -> dict[str, Table]:
        """The tables by PodCliqueSet uid."""
        return {table.uid: table for table in self.tables}

    def of_open_run(self) -> dict[str, Table]:
        """Those of the run that did not end; all of them while it reverts."""
        run = self.unfinished
        if run is None:
            return {}
        return {t.uid: t for t in self.tables if run.state == RecordState.REVERTING or t.run == run.run_id}


@dataclass(frozen=True, slots=True)
class _RunDocument:
    """The text of the run record; ``tables_digest`` is empty without tables."""

    format: int = FORMAT
    run: RunRecord | None = None
    tables_digest: str = ""


@dataclass(frozen=True, slots=True)
class _TablesDocument:
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True)
class _Stored:
    """The record as it stands in the cluster; ``uid`` is empty where there is none."""

    recorded: Recorded = field(default_factory=Recorded, compare=False)
    text: str = ""
    uid: str = ""
    digest: str = field(default="", compare=False)


class Recorder:
    """Reads and writes the record in one namespace.

    A record that cannot be understood raises :class:`~migrator.errors.Unreadable`. Of two writers the slower one gets
    :class:`~migrator.errors.LostRace`.
    """

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._known: _Stored | None = None  # the record as we last read or wrote it

    def load(self, *, again: bool = True) -> Recorded:
        """Read the record; without ``again``, what was read or written last is enough."""
        if again or self._known is None:
            self._known = self._read_anew()
        return self._known.recorded

    @property
    def is_read(self) -> bool:
        """Whether it is known what the record is."""
        return self._known is not None

    def save(self, recorded: Recorded) -> None:
        """Replace the record that was read; raises :class:`~migrator.errors.Refused` if a ConfigMap cannot hold it."""
        before = self._known
        if before is None:
            raise LostRace(f"ConfigMap {self._namespace}/{RUN_NAME} was not read, so it is not replaced")
        ops, digest = list[Op](), before.digest
        stream, has_new_tables = b"", recorded.tables != before.recorded.tables
        if has_new_tables:
            stream, digest = _packed(recorded.tables)
        text = json.dumps(_RunDocument(FORMAT, recorded.run, digest), default=_plain, indent=2)
        if text == before.text:
            self._known = replace(before, recorded=recorded)
            return
        if len(text) + len(stream) > MOST:
            sets = len(recorded.tables)
            raise Refused(
                f"the record of {count(sets, 'set')} has {len(text) + len(stream):,} bytes, and a ConfigMap "
                f"holds {MOST:,}: this version of grove-migrator cannot migrate so many sets"
            )
        data = {_TABLES_KEY: base64.b64encode(stream).decode()} if stream else {}
        self._known = None  # unknown until the write has returned
        if before.uid:
            ops += [
                Op("test", "/metadata/uid", before.uid),
                Op("test", f"/data/{_RUN_KEY}", before.text),
                Op("replace", f"/data/{_RUN_KEY}", text),
                *([Op("add", "/binaryData", data)] if has_new_tables else []),
            ]
            write = partial(self._store.patch, CONFIG_MAPS, self._namespace, RUN_NAME, ops)
        else:
            metadata = {"name": RUN_NAME, "namespace": self._namespace, "labels": dict(LABELS)}
            body = {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, "metadata": metadata}
            body |= {"data": {_RUN_KEY: text}, "binaryData": data}
            write = partial(self._store.create, CONFIG_MAPS, self._namespace, body)
        try:
            self._known = _Stored(recorded, text, _repeated(write)["metadata"]["uid"], digest)
        except (AlreadyExists, TestFailed, NotFound) as error:
            found = self._read_anew()
            if found.text != text:
                raise (self._lost() if found.uid else self.deleted()) from error
            self._known = found  # a reply was lost

    def delete(self) -> None:
        """Delete the record; raises :class:`~migrator.errors.LostRace` if somebody else has written it since."""
        known, current = self._known, self._read_anew()
        if known is not None and current.uid and current != known:
            raise self._lost()
        self._known = None  # unknown until the delete has returned
        if current.uid:
            _repeated(partial(self._store.delete, CONFIG_MAPS, self._namespace, RUN_NAME, current.uid))
        self._known = _Stored()

    def _read_anew(self) -> _Stored:
        try:
            raw = self._store.get(CONFIG_MAPS, self._namespace, RUN_NAME)
        except NotFound:
            return _Stored()
        with self._readable():
            text, uid = raw["data"][_RUN_KEY], raw["metadata"]["uid"]
            if self._known is not None and (text, uid) == (self._known.text, self._known.uid):
                return self._known
            document = json.loads(text)
            number = document.get("format") if isinstance(document, dict) else None
            if number != FORMAT:
                raise ValueError(
                    f"it has format {number}, and this version of grove-migrator reads format {FORMAT} only"
                )
            found = _from_json(_RunDocument, document)
            tables = _TablesDocument()
            if found.tables_digest:
                stream = base64.b64decode(raw["binaryData"][_TABLES_KEY], validate=True)
                if hashlib.sha256(stream).hexdigest() != found.tables_digest:
                    raise ValueError("its tables are not those that its run names")
                tables = _from_json(_TablesDocument, json.loads(gzip.decompress(stream)))
            return _Stored(Recorded(found.run, tables.tables), text, uid, found.tables_digest)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """What exists and cannot be understood proves a run: nobody knows how far it got."""
        try:
            yield
        except (KeyError, TypeError, ValueError, OSError, EOFError) as error:
            raise Unreadable(
                f"the record in ConfigMap {self._namespace}/{RUN_NAME} cannot be read: {error}. Run the version of "
                "grove-migrator that wrote it or restore the ConfigMap; only if no migration is under way, delete it: "
                f"kubectl -n {shlex.quote(self._namespace)} delete configmap {RUN_NAME}"
            ) from error

    def deleted(self) -> LostRace:
        """The error for a record that somebody has deleted."""
        return LostRace(f"ConfigMap {self._namespace}/{RUN_NAME} was deleted during the run")

    def _lost(self) -> LostRace:
        return LostRace(
            f"ConfigMap {self._namespace}/{RUN_NAME} was written by somebody else: another migration is running; "
            "wait for its end, then run again"
        )


def _packed(tables: tuple[Table, ...]) -> tuple[bytes, str]:
    """The tables as they are stored, and the digest of that; both are empty without any."""
    if not tables:
        return b"", ""
    document = json.dumps(_TablesDocument(tables), default=_plain, separators=(",", ":"))
    stream = gzip.compress(document.encode(), mtime=0)
    return stream, hashlib.sha256(stream).hexdigest()


def _repeated(write: Callable[[], T]) -> T:
    """Send a write until a reply comes, three times at most: compare-and-swap makes a repetition harmless."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(LostReply):
            return write()
    return write()


# --- JSON with camelCase names, made from dataclasses and read by their types ---------------------------------------


def _plain(value: Any) -> Any:  # noqa: ANN401 - any recorded value
    """What :mod:`json` cannot print by itself: a dataclass as a dict, a moment as text."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return {_camel(field.name): getattr(value, field.name) for field in dataclasses.fields(value)}


def _from_json(kind: type[T], raw: object) -> T:
    """Read a value of a type; raises ``ValueError`` with the place of a wrong value."""
    found: T = _read(kind, raw, kind.__name__)
    return found


def _read(kind: Any, raw: Any, where: str) -> Any:  # noqa: ANN401, PLR0911 - types are values here; one line for each
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return raw
    if origin in {types.UnionType, typing.Union}:
        return None if raw is None else _read(next(a for a in arguments if a is not type(None)), raw, where)
    if origin is tuple and isinstance(raw, list):
        return tuple(_read(arguments[0], item, where) for item in raw)
    if origin is Mapping and isinstance(raw, dict):
        return {str(key): _read(arguments[1], item, f"{where}.{key}") for key, item in raw.items()}
    if dataclasses.is_dataclass(kind) and isinstance(raw, dict):
        return _object(kind, raw, where)
    if kind is datetime and isinstance(raw, str):
        return datetime.fromisoformat(raw)
    if kind in {str, int, bool} and type(raw) is kind:
        return raw
    raise ValueError(f"{where} has the wrong type")


def _object(kind: Any, raw: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401 - types are values here
    values = {}
    for name, key, of in _fields(kind):
        if key not in raw:
            raise ValueError(f"{where} lacks {key}")
        values[name] = _read(of, raw[key], f"{where}.{key}")
    return kind(**values)


@cache
def _fields(kind: Any) -> tuple[tuple[str, str, Any], ...]:  # noqa: ANN401 - types are values here
    hints = typing.get_type_hints(kind)
    return tuple((field.name, _camel(field.name), hints[field.name]) for field in dataclasses.fields(kind))


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)
