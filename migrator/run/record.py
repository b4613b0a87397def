"""The record of a migration: its run, and the table of each set.

There is one record, of one pair of schemes. It is open until its run has ended well; then it serves revert and verify.
The ConfigMap ``grove-migrator-run`` holds the run as JSON and names the ConfigMaps ``grove-migrator-tables-<n>``, the
pieces of a gzip stream with the tables. New pieces are written first, then the run record that names them (the
commit), and then the pieces that it does not name are deleted: after a crash the earlier tables or the new ones are
whole. What cannot be read, or was written by another version, is refused: it never counts as absent.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from itertools import count
from typing import Any, Final, TypeVar

from migrator.errors import AlreadyExists, ClusterError, LostRace, LostReply, NotFound, TestFailed, Unreadable
from migrator.exact_json import JSONObject
from migrator.hashing import schemes
from migrator.planning.model import Table
from migrator.resources import CONFIG_MAPS, Op
from migrator.run.tables import RecordState, RunRecord
from migrator.store import Store

T = TypeVar("T")

FORMAT: Final = 4
RUN_NAME: Final = "grove-migrator-run"
TABLES_PREFIX: Final = "grove-migrator-tables-"
LABELS: Final = {
    "app.kubernetes.io/name": "grove-migrator",
    "app.kubernetes.io/component": "record",
    "app.kubernetes.io/managed-by": "grove-migrator",
}

#: Base64 text of one piece: below 900 KiB with all metadata. A ConfigMap may hold 1 MiB.
PIECE: Final = 880 * 1024
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
    """The text of the run record; ``tables`` are names of ConfigMaps, ``digest`` is of what they hold together."""

    format: int = FORMAT
    run: RunRecord | None = None
    tables: tuple[str, ...] = ()
    tables_digest: str = ""


@dataclass(frozen=True, slots=True)
class _TablesDocument:
    """The tables, and the layouts that they need and that are not shipped, by scheme name."""

    tables: tuple[Table, ...] = ()
    layouts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Current:
    """The run record as it stands in the cluster; ``uid`` is empty where there is none."""

    document: _RunDocument = field(default_factory=_RunDocument, compare=False)
    text: str = ""
    uid: str = ""


class Recorder:
    """Reads and writes the record in one namespace; ``piece`` is the most base64 text that one ConfigMap gets.

    A record that cannot be understood raises :class:`~migrator.errors.Unreadable`. Of two writers the slower one gets
    :class:`~migrator.errors.LostRace`.
    """

    def __init__(self, store: Store, namespace: str, *, piece: int = PIECE) -> None:
        self._store = store
        self._namespace = namespace
        self._bytes = piece // 4 * 3  # that base64 turns into as much text
        self._known: _Current | None = None  # the record as we last read or wrote it
        self._loaded = Recorded()

    def load(self, *, again: bool = True) -> Recorded:
        """Read the run; the tables are read only if it has changed, and again if they change meanwhile.

        Without ``again``, what was read or written last is enough.
        """
        if self._known is not None and not again:
            return self._loaded
        current = self._current()
        while current != self._known:
            document = current.document
            try:
                found = self._tables(document)
            except Unreadable:
                before, current = current, self._current()
                if current == before:
                    raise
                continue
            with self._readable(*document.tables):
                schemes.adopt_layouts(found.layouts)  # a rerun, a revert and verify need no file
            self._known, self._loaded = current, Recorded(document.run, found.tables)
        return self._loaded

    def save(self, recorded: Recorded) -> None:
        """Replace the record."""
        self.load(again=False)
        current = self._known or _Current()
        before = current.document
        names, digest = before.tables, before.tables_digest
        if self._loaded.tables != recorded.tables:
            spoken = {name for table in recorded.tables for name in (table.source, table.target)}
            names, digest = self._write(_TablesDocument(recorded.tables, schemes.layouts_of(spoken)), before.tables)
        self._commit(current, _RunDocument(FORMAT, recorded.run, names, digest))
        self._loaded = recorded
        if names != before.tables:
            self._sweep(names)

    def delete_all(self) -> None:
        """Forget everything, the run record first: a piece that nothing names is not a record, and may stay."""
        known, current = self._known, self._current()
        if known is not None and current != known:
            raise self._lost()
        self._known = None  # unknown until the delete has returned
        if current.uid:
            self._delete(RUN_NAME, current.uid)
        self._known, self._loaded = _Current(), Recorded()
        self._sweep(())

    def _current(self) -> _Current:
        try:
            raw = self._store.get(CONFIG_MAPS, self._namespace, RUN_NAME)
        except NotFound:
            return _Current()
        with self._readable(RUN_NAME):
            text = raw["data"][_RUN_KEY]
            document = json.loads(text)
            number = document.get("format") if isinstance(document, dict) else None
            if number != FORMAT:
                raise ValueError(
                    f"it has format {number}, and this version of grove-migrator reads format {FORMAT} only"
                )
            return _Current(_from_json(_RunDocument, document), text, raw["metadata"]["uid"])

    def _tables(self, document: _RunDocument) -> _TablesDocument:
        if not document.tables:
            return _TablesDocument()
        stream = b"".join(map(self._piece, document.tables))
        with self._readable(*document.tables):
            if hashlib.sha256(stream).hexdigest() != document.tables_digest:
                raise ValueError("its pieces are not those that the run record names")
            return _from_json(_TablesDocument, json.loads(gzip.decompress(stream)))

    def _piece(self, name: str) -> bytes:
        with self._readable(name):
            try:
                raw = self._store.get(CONFIG_MAPS, self._namespace, name)
            except NotFound as error:
                raise ValueError(f"it is gone, but {RUN_NAME} names it") from error
            return base64.b64decode(raw["binaryData"][_TABLES_KEY], validate=True)

    @contextmanager
    def _readable(self, *names: str) -> Iterator[None]:
        """What exists and cannot be understood proves a run: nobody knows how far it got."""
        try:
            yield
        except (KeyError, TypeError, ValueError) as error:
            raise Unreadable(
                f"the record in ConfigMap {self._namespace}/{', '.join(names)} cannot be read: {error}. Run the "
                "version of grove-migrator that wrote it or restore the ConfigMap; only if no migration is under way, "
                f"delete it: kubectl -n {self._namespace} delete configmap {RUN_NAME}"
            ) from error

    def _commit(self, current: _Current, document: _RunDocument) -> None:
        text = json.dumps(document, default=_plain, indent=2)
        if text == current.text:
            return
        self._known = None  # unknown until the write has returned
        if current.uid:
            ops = (
                Op("test", "/metadata/uid", current.uid),
                Op("test", f"/data/{_RUN_KEY}", current.text),
                Op("replace", f"/data/{_RUN_KEY}", text),
            )
            write = partial(self._store.patch, CONFIG_MAPS, self._namespace, RUN_NAME, ops)
        else:
            write = partial(self._create, RUN_NAME, {"data": {_RUN_KEY: text}})
        try:
            self._known = _Current(document, text, _repeated(write)["metadata"]["uid"])
        except (AlreadyExists, TestFailed, NotFound) as error:
            found = self._current()
            if found.text != text:
                raise self._lost() from error
            self._known = found  # a reply was lost

    def _lost(self) -> LostRace:
        return LostRace(
            f"ConfigMap {self._namespace}/{RUN_NAME} was written by somebody else: another migration is running; "
            "wait for its end, then run again"
        )

    def _write(self, document: _TablesDocument, taken: Collection[str]) -> tuple[tuple[str, ...], str]:
        """Write the tables in pieces; returns their names and the digest of all together."""
        stream = gzip.compress(json.dumps(document, default=_plain, separators=(",", ":")).encode(), mtime=0)
        free = (name for name in map(f"{TABLES_PREFIX}{{}}".format, count()) if name not in taken)
        starts = range(0, len(stream), self._bytes)
        names = tuple(self._write_piece(free, stream[at : at + self._bytes]) for at in starts)
        return names, hashlib.sha256(stream).hexdigest()

    def _write_piece(self, free: Iterator[str], piece: bytes) -> str:
        content = {"binaryData": {_TABLES_KEY: base64.b64encode(piece).decode()}}
        while True:
            name = next(free)
            try:
                _repeated(partial(self._create, name, content))
            except AlreadyExists:  # after a lost reply it is ours; else a crash left it, for the next sweep
                with suppress(NotFound):
                    if self._store.get(CONFIG_MAPS, self._namespace, name).get("binaryData") == content["binaryData"]:
                        return name
            else:
                return name

    def _create(self, name: str, content: JSONObject) -> JSONObject:
        metadata = {"name": name, "namespace": self._namespace, "labels": dict(LABELS)}
        body = {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, "metadata": metadata, **content}
        return self._store.create(CONFIG_MAPS, self._namespace, body)

    def _sweep(self, keep: Collection[str]) -> None:
        """Delete the pieces that nothing names. What cannot be deleted is left to the next sweep."""
        ours = ",".join(f"{key}={value}" for key, value in LABELS.items())
        with suppress(ClusterError, LostReply):
            listed = self._store.list(
                CONFIG_MAPS,
                lambda raw: (str(raw["metadata"]["name"]), str(raw["metadata"]["uid"])),
                namespace=self._namespace,
                label_selector=ours,
                metadata_only=True,
            )
            for name, uid in listed:
                if name.startswith(TABLES_PREFIX) and name not in keep:
                    self._delete(name, uid)

    def _delete(self, name: str, uid: str) -> None:
        _repeated(partial(self._store.delete, CONFIG_MAPS, self._namespace, name, uid))


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
