"""What is remembered between runs: translation tables, baselines for ``verify``, and who did what when.

Two kinds of ConfigMap in one namespace. ``grove-migrator-run`` holds the runs as plain JSON, for people, and names
the ConfigMaps ``grove-migrator-tables-<n>`` that hold the tables and the baselines: gzip streams of JSON, cut into
pieces. New pieces are written first, then the run record that names them (that is the commit), then the pieces that
nothing names are deleted. So whatever the moment of a crash, either the tables of before or the new ones are whole,
and no patch was ever sent by tables that are not.

What cannot be read, or was written by another version, refuses: it is never taken for absent.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, TypeVar

from migrator.errors import AlreadyExists, ClusterError, LostRace, LostReply, NotFound, Refused, TestFailed
from migrator.exact_json import JSONObject
from migrator.hashing import schemes
from migrator.planning.tables import Baseline, BaselinesDocument, RunDocument, RunRecord, Table, TablesDocument
from migrator.resources import CONFIG_MAPS, Op
from migrator.run.codec import from_json, to_json
from migrator.store import Store

T = TypeVar("T")

FORMAT: Final = 2
RUN_NAME: Final = "grove-migrator-run"
TABLES_PREFIX: Final = "grove-migrator-tables-"
LABELS: Final = {
    "app.kubernetes.io/name": "grove-migrator",
    "app.kubernetes.io/component": "record",
    "app.kubernetes.io/managed-by": "grove-migrator",
}

#: How far a run got: before and after the first patch of a set may have been sent.
STOPPING: Final = "stopping"
WRITING: Final = "writing"
REVERTING: Final = "reverting"
DONE: Final = "done"

#: Base64 text of one piece: below 900 KiB with all metadata. A ConfigMap may hold 1 MiB.
PIECE: Final = 880 * 1024
_RUN_KEY: Final = "run.json"
_TABLES_KEY: Final = "tables.json.gz"
_HISTORY: Final = 20
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was found: this or the last run, the runs before it (newest first), and every table that stands."""

    run: RunRecord | None = None
    history: tuple[RunRecord, ...] = ()
    tables: tuple[Table, ...] = ()

    @property
    def unfinished(self) -> RunRecord | None:
        """The run that did not end: this one, or one that died."""
        return self.run if self.run is not None and self.run.finished is None else None

    @property
    def superseded(self) -> RunRecord | None:
        """The newest run that ended well before the open one: what it wrote stands."""
        return next((run for run in self.history if run.finished is not None), None)

    def of_open_run(self) -> dict[str, Table]:
        """The tables of the run that did not end, by PodCliqueSet uid; all of them while it reverts."""
        run = self.unfinished
        if run is None:
            return {}
        return {t.uid: t for t in self.tables if run.state == REVERTING or t.run == run.run_id}

    def by_set(self) -> dict[str, Table]:
        """One table for each PodCliqueSet, by uid: the open run's, or else the newest one."""
        return {table.uid: table for table in self.tables} | self.of_open_run()

    def origins(self) -> Recorded:
        """The same with one table for each set and pair of schemes, which keeps only what every run found there.

        A hash that an earlier run wrote, or that an operator copied from it, was not there before all runs: a revert
        of everything turns it back.
        """
        run, found = self.unfinished, dict[tuple[str, str, str], Table]()
        for table in sorted(self.tables, key=lambda table: run is not None and table.run == run.run_id):
            key = (table.uid, table.source, table.target)
            older = {(kept.uid, kept.field) for kept in found.get(key, table).kept}
            kept = tuple(kept for kept in table.kept if (kept.uid, kept.field) in older)
            found[key] = replace(table, kept=kept)
        return replace(self, tables=tuple(found.values()))


@dataclass(frozen=True, slots=True)
class _Current:
    """The run record as it stands in the cluster; ``uid`` is empty where there is none."""

    document: RunDocument = field(default_factory=lambda: RunDocument(FORMAT))
    text: str = ""
    uid: str = ""


def encode(document: object) -> bytes:
    """Compress a document; equal ones give equal bytes."""
    text = json.dumps({"format": FORMAT, **to_json(document)}, separators=(",", ":"), sort_keys=True)
    return gzip.compress(text.encode(), mtime=0)


def decode(kind: type[T], data: bytes) -> T:
    """Read a document; raises ``ValueError`` where it cannot be understood."""
    try:
        text = gzip.decompress(data).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ValueError(f"broken gzip stream: {error}") from error
    return _parse(kind, text)


def _parse(kind: type[T], text: str) -> T:
    document = json.loads(text)
    number = document.get("format") if isinstance(document, dict) else None
    if not isinstance(number, int):
        raise ValueError("it carries no format number")  # noqa: TRY004 - one kind of error for all texts
    if number != FORMAT:
        raise ValueError(f"it has format {number}, and this version of grove-migrator reads format {FORMAT} only")
    return from_json(kind, document)


class Recorder:
    """Reads and writes the record in one namespace.

    Every method raises what the store raises, and :class:`~migrator.errors.Refused` for a record that cannot
    be understood. Writers exclude each other by compare-and-swap on the record's text: the slower one gets
    :class:`~migrator.errors.LostRace`. ``piece`` is the most base64 text that one ConfigMap gets.
    """

    def __init__(self, store: Store, namespace: str, *, piece: int = PIECE) -> None:
        self._store = store
        self._namespace = namespace
        self._bytes = piece // 4 * 3  # that base64 turns into as much text
        self._known: str | None = None  # the record's text as we last read or wrote it
        self._loaded = Recorded()

    def load(self, *, again: bool = True) -> Recorded:
        """Read the runs and the tables; empty where nothing was ever recorded.

        Without ``again`` what was read or written last is enough. Tables are read again only where the run record has
        changed. One that changes while they are read is read anew.
        """
        if self._known is not None and not again:
            return self._loaded
        for attempt in range(_ATTEMPTS):
            current = self._current()
            if current.text != self._known:
                document = current.document
                try:
                    found = self._document(TablesDocument, document.tables, document.tables_digest)
                except Refused:
                    if attempt == _ATTEMPTS - 1 or self._current() == current:
                        raise
                    continue
                try:
                    schemes.adopt_layouts(found.layouts)  # a rerun, a revert and verify need no file
                except (ValueError, KeyError, TypeError) as error:
                    raise self._unreadable(", ".join(document.tables), error) from error
                self._known, self._loaded = current.text, Recorded(document.run, document.history, found.tables)
            return self._loaded
        raise AssertionError("the last attempt returns or raises")

    def baselines(self) -> dict[str, Baseline]:
        """The baseline of each PodCliqueSet, by uid."""
        document = self._current().document
        found = self._document(BaselinesDocument, document.baselines, document.baselines_digest)
        return {baseline.uid: baseline for baseline in found.baselines}

    def save(self, recorded: Recorded, *, baselines: Iterable[Baseline] | None = None) -> None:
        """Replace the record; without ``baselines`` those that stand stay."""
        if self._known is None:
            self.load()
        current = self._unmoved()
        document = replace(current.document, run=recorded.run, history=recorded.history[:_HISTORY])
        taken = {*document.tables, *document.baselines}
        if self._loaded.tables != recorded.tables:
            spoken = {name for table in recorded.tables for name in (table.source, table.target)}
            document_of = TablesDocument(recorded.tables, schemes.layouts_of(spoken))
            names, digest = self._write(document_of, taken)
            document = replace(document, tables=names, tables_digest=digest)
        if baselines is not None:
            found = BaselinesDocument(tuple(sorted(baselines, key=lambda baseline: baseline.uid)))
            names, digest = self._write(found, {*taken, *document.tables})
            document = replace(document, baselines=names, baselines_digest=digest)
        self._commit(current, document)
        self._loaded = replace(recorded, history=document.history)
        if taken - {*document.tables, *document.baselines}:
            self._sweep((*document.tables, *document.baselines))

    def delete_all(self) -> None:
        """Forget everything, the run record first: a piece that nothing names is not a record, and may stay."""
        current = self._unmoved()
        self._known = None  # until the delete has returned, nobody knows whether it was applied
        if current.uid:
            self._delete(RUN_NAME, current.uid)
        self._known, self._loaded = "", Recorded()
        self._sweep(())

    def _unmoved(self) -> _Current:
        """The record, if it still is what we read or wrote last: what others write meanwhile is not ours to replace."""
        current = self._current()
        if self._known is not None and current.text != self._known:
            raise self._lost()
        return current

    def _lost(self) -> LostRace:
        return LostRace(
            f"ConfigMap {self._namespace}/{RUN_NAME} was written by somebody else: another migration is running; "
            "wait for its end, then run again"
        )

    def _current(self) -> _Current:
        try:
            raw = self._store.get(CONFIG_MAPS, self._namespace, RUN_NAME)
        except NotFound:
            return _Current()
        try:
            text = raw["data"][_RUN_KEY]
            return _Current(_parse(RunDocument, text), text, raw["metadata"]["uid"])
        except (KeyError, TypeError, ValueError) as error:
            raise self._unreadable(RUN_NAME, error) from error

    def _document(self, kind: type[T], names: Collection[str], digest: str) -> T:
        if not names:
            return kind()
        stream = b"".join(self._piece(name) for name in names)
        try:
            if hashlib.sha256(stream).hexdigest() != digest:
                raise ValueError("its pieces are not those that the run record names")  # noqa: TRY301
            return decode(kind, stream)
        except ValueError as error:
            raise self._unreadable(", ".join(names), error) from error

    def _piece(self, name: str) -> bytes:
        try:
            raw = self._store.get(CONFIG_MAPS, self._namespace, name)
        except NotFound as error:
            raise self._unreadable(name, f"it is gone, but {RUN_NAME} names it") from error
        try:
            return base64.b64decode(raw["binaryData"][_TABLES_KEY], validate=True)
        except (KeyError, TypeError, binascii.Error) as error:
            raise self._unreadable(name, error) from error

    def _unreadable(self, names: str, why: object) -> Refused:
        return Refused(
            f"the record in ConfigMap {self._namespace}/{names} cannot be read: {why}. Run the version of "
            "grove-migrator that wrote it or restore the ConfigMap; only if no migration is under way, delete it: "
            f"kubectl -n {self._namespace} delete configmap {RUN_NAME}"
        )

    def _commit(self, current: _Current, document: RunDocument) -> None:
        text = json.dumps(to_json(document), indent=2)
        if text == current.text:
            return
        self._known = None
        for _ in range(_ATTEMPTS):
            try:
                self._write_run(current, text)
            except (AlreadyExists, TestFailed, NotFound, LostReply) as error:
                found = self._current()
                if found.text == text:
                    break
                if found != current or not isinstance(error, LostReply):
                    raise self._lost() from error
            else:
                break
        else:
            raise LostReply(f"no reply to the write of ConfigMap {self._namespace}/{RUN_NAME}, {_ATTEMPTS} times")
        self._known = text

    def _write_run(self, current: _Current, text: str) -> None:
        if not current.uid:
            self._store.create(CONFIG_MAPS, self._namespace, self._body(RUN_NAME, {"data": {_RUN_KEY: text}}))
            return
        ops = (
            Op("test", "/metadata/uid", current.uid),
            Op("test", f"/data/{_RUN_KEY}", current.text),
            Op("replace", f"/data/{_RUN_KEY}", text),
        )
        self._store.patch(CONFIG_MAPS, self._namespace, RUN_NAME, ops)

    def _write(self, document: object, taken: Collection[str]) -> tuple[tuple[str, ...], str]:
        """Write a document in pieces; returns their names and the digest of all together."""
        stream = encode(document)
        free = (name for name in map(f"{TABLES_PREFIX}{{}}".format, count()) if name not in taken)
        starts = range(0, len(stream), self._bytes)
        names = tuple(self._write_piece(free, stream[at : at + self._bytes]) for at in starts)
        return names, hashlib.sha256(stream).hexdigest()

    def _write_piece(self, free: Iterator[str], piece: bytes) -> str:
        content = {"binaryData": {_TABLES_KEY: base64.b64encode(piece).decode()}}
        for name in free:
            for _ in range(_ATTEMPTS):
                try:
                    self._store.create(CONFIG_MAPS, self._namespace, self._body(name, content))
                except LostReply:
                    continue  # if it was created after all, the next attempt finds that it exists
                except AlreadyExists:
                    if self._holds(name, content):
                        return name
                    break  # left over from a crash: it is swept after the commit
                else:
                    return name
            else:
                raise LostReply(f"no reply to the creation of ConfigMap {self._namespace}/{name}, {_ATTEMPTS} times")
        raise AssertionError("there are always more numbers")

    def _holds(self, name: str, content: JSONObject) -> bool:
        try:
            found = self._store.get(CONFIG_MAPS, self._namespace, name)
        except NotFound:
            return False
        return bool(found.get("binaryData") == content["binaryData"])

    def _body(self, name: str, content: JSONObject) -> JSONObject:
        metadata = {"name": name, "namespace": self._namespace, "labels": dict(LABELS)}
        return {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, "metadata": metadata, **content}

    def _pieces(self) -> tuple[tuple[str, str], ...]:
        """Every piece that exists, named by the run record or not: (name, uid)."""
        listing = self._store.list(
            CONFIG_MAPS,
            lambda raw: (str(raw["metadata"]["name"]), str(raw["metadata"]["uid"])),
            namespace=self._namespace,
            label_selector=",".join(f"{key}={value}" for key, value in LABELS.items()),
            metadata_only=True,
        )
        return tuple(entry for entry in listing.items if entry[0].startswith(TABLES_PREFIX))

    def _sweep(self, keep: Collection[str]) -> None:
        """Delete the pieces that nothing names. What could not be deleted goes with the next commit."""
        with suppress(ClusterError, LostReply):
            for name, uid in self._pieces():
                if name not in keep:
                    self._delete(name, uid)

    def _delete(self, name: str, uid: str) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                self._store.delete(CONFIG_MAPS, self._namespace, name, uid)
            except LostReply:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return
