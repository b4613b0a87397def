"""What is remembered between runs: translation tables, and who did what when.

Two kinds of ConfigMap in the operator's namespace. ``grove-migrator-run`` holds the runs as plain JSON, for
people, and names the ConfigMaps ``grove-migrator-tables-<n>`` that hold the tables: one gzip stream of JSON, cut
into pieces. New pieces are written first, then the run record that names them (that is the commit), then the
pieces that nothing names are deleted. So whatever the moment of a crash, either the tables of before or the new
ones are whole, and no patch was ever sent by tables that are not.

What cannot be read, or was written by another version, refuses: it is never taken for absent.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

from migrator.errors import AlreadyExists, ClusterError, LostRace, LostReply, NotFound, Refused, TestFailed
from migrator.exact_json import JSONObject
from migrator.planning.tables import (
    CliqueBaseline,
    Kept,
    ReplicaBaseline,
    RunDocument,
    RunRecord,
    Table,
    decode_run,
    decode_tables,
    encode_run,
    encode_tables,
)
from migrator.resources import CONFIG_MAPS, Op
from migrator.store import Store

__all__ = ["CliqueBaseline", "Kept", "Recorded", "Recorder", "ReplicaBaseline", "RunRecord", "Table", "merge"]

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
_HISTORY: Final = 20
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was found: this or the last run, the runs before it (newest first), tables by PodCliqueSet uid."""

    run: RunRecord | None = None
    tables: Mapping[str, Table] = field(default_factory=dict)
    history: tuple[RunRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class _Current:
    """The run record as it stands in the cluster; ``uid`` is empty where there is none."""

    document: RunDocument = field(default_factory=RunDocument)
    text: str = ""
    uid: str = ""


def merge(recorded: Mapping[str, Table], new: Iterable[Table], *, replacing: Collection[str] = ()) -> dict[str, Table]:
    """Add new tables to the recorded ones, which win: a tree's first table knows it as it was before any write.

    ``replacing`` names the PodCliqueSets (by uid) whose recorded table no longer matters, because no value
    was written by it or all of them were. Raises :class:`~migrator.errors.Refused` for a tree that has a
    table of another migration.
    """
    merged = dict(recorded)
    for table in new:
        old = merged.get(table.uid)
        if old is None or table.uid in replacing:
            merged[table.uid] = table
        elif (old.source, old.target) != (table.source, table.target):
            raise Refused(
                f"GM-205: PodCliqueSet {table.namespace}/{table.name} has a record of a migration from {old.source} "
                f"to {old.target} that was never closed: finish it with `run --to {old.target}`, undo it with `run "
                f"--revert`, or close it with `verify --to {old.target} --after-upgrade`"
            )
    return merged


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
        self.contended = False  # whether somebody else was seen to write it

    def load(self) -> Recorded:
        """Read everything; empty where nothing was ever recorded."""
        current = self._current()
        self._known, document = current.text, current.document
        return Recorded(document.run, self._tables(document), document.history)

    def save_run(self, run: RunRecord) -> tuple[RunRecord, ...]:
        """Create or replace the run's record; another run's becomes history, which is returned."""
        current = self._unmoved()
        document = current.document
        history = document.history
        if document.run is not None and document.run.run_id != run.run_id:
            history = (document.run, *history)[:_HISTORY]
        self._commit(current, replace(document, run=run, history=history))
        return history

    def save_tables(self, tables: Iterable[Table], *, replacing: Collection[str] = ()) -> Mapping[str, Table]:
        """Record tables before the first write to their trees; returns those that stand, see :func:`merge`."""
        current = self._unmoved()
        recorded = self._tables(current.document)
        merged = merge(recorded, tables, replacing=replacing)
        if merged != recorded:
            stream = encode_tables(merged.values())
            names = self._write_pieces(stream, current.document.shards)
            digest = hashlib.sha256(stream).hexdigest()
            self._commit(current, replace(current.document, shards=names, digest=digest))
            self._sweep(names)
        return merged

    def delete_all(self) -> None:
        """Forget everything, the run record first: pieces that nothing names are no record."""
        current = self._unmoved()
        if current.uid:
            self._delete(RUN_NAME, current.uid)
        self._known = ""
        for name, uid in self._pieces():
            self._delete(name, uid)

    def _unmoved(self) -> _Current:
        """The record, if it still is what we read or wrote last: what others write meanwhile is not ours to replace."""
        current = self._current()
        if self._known is not None and current.text != self._known:
            raise self._lost()
        return current

    def _lost(self) -> LostRace:
        self.contended = True
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
            return _Current(decode_run(text), text, raw["metadata"]["uid"])
        except (KeyError, TypeError, ValueError) as error:
            raise self._unreadable(RUN_NAME, error) from error

    def _tables(self, document: RunDocument) -> dict[str, Table]:
        if not document.shards:
            return {}
        stream = b"".join(self._piece(name) for name in document.shards)
        try:
            if hashlib.sha256(stream).hexdigest() != document.digest:
                raise ValueError("the tables are not those that the run record names")  # noqa: TRY301
            return decode_tables(stream)
        except ValueError as error:
            raise self._unreadable(", ".join(document.shards), error) from error

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
        text = encode_run(document)
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

    def _write_pieces(self, stream: bytes, taken: Collection[str]) -> tuple[str, ...]:
        free = (name for name in map(f"{TABLES_PREFIX}{{}}".format, count()) if name not in taken)
        starts = range(0, len(stream), self._bytes)
        return tuple(self._write_piece(free, stream[at : at + self._bytes]) for at in starts)

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
        """Delete the pieces that nothing names. What stays for want of an answer goes with the next commit."""
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
