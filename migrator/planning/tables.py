"""What a record holds, and its text form: pure.

Texts carry a format number. What is unreadable or newer raises ``ValueError`` saying so; the caller knows where
it was read.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from migrator.grove.model import Ref, SetHashes

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class CliqueBaseline:
    """A PodClique before the migration: its non-terminating pods, and the newest one's creationTimestamp.

    Afterwards the pods no younger than ``newest`` must still be that many. ``updated_replicas`` and
    ``replicas`` are its status fields, ``update_started`` its progress's ``updateStartedAt``, ``None`` where
    absent.
    """

    pods: int
    newest: str
    updated_replicas: int | None
    replicas: int | None
    update_started: str | None = None


@dataclass(frozen=True, slots=True)
class ReplicaBaseline:
    """``status.updatedReplicas``, ``status.replicas`` and the last ``updateStartedAt`` of an object before."""

    updated_replicas: int | None
    replicas: int | None
    update_started: str | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """A field that held the target's hash before our first write; a revert leaves it."""

    ref: Ref
    field: str  # JSON Pointer
    value: str

    @property
    def uid(self) -> str:
        """The object's uid."""
        return self.ref.uid


@dataclass(frozen=True, slots=True)
class Table:
    """What a tree's hashes translate to, as computed before its first write.

    ``uid`` and ``generation`` are the PodCliqueSet's, ``source`` and ``target`` scheme names.
    ``template_digest`` shows whether what is hashed has changed since. ``baseline`` is by PodClique name,
    ``group_baseline`` by PodCliqueScalingGroup name.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    source: str
    target: str
    source_hashes: SetHashes
    target_hashes: SetHashes
    template_digest: str
    kept: tuple[Kept, ...] = ()
    baseline: Mapping[str, CliqueBaseline] = field(default_factory=dict)
    group_baseline: Mapping[str, ReplicaBaseline] = field(default_factory=dict)
    set_baseline: ReplicaBaseline = field(default_factory=lambda: ReplicaBaseline(None, None))


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run: who migrated what from where to where, when, and how it ended.

    ``state`` is the run's own word for how far it got. ``operator_replicas`` and ``operator_image`` are what
    the Deployment had before it was stopped, ``None`` where there was nothing to stop. ``lease`` names the Lease that
    it held, ``None`` in records of before that was noted.
    """

    run_id: str
    identity: str
    source: str
    target: str
    started: datetime
    finished: datetime | None
    state: str
    operator_replicas: int | None
    operator_image: str | None
    counts: Mapping[str, int] = field(default_factory=dict)
    lease: str | None = None


@dataclass(frozen=True, slots=True)
class RunDocument:
    """The contents of the run record: this run, those before, and where the tables are."""

    run: RunRecord | None = None
    history: tuple[RunRecord, ...] = ()  # newest first
    shards: tuple[str, ...] = ()  # names of ConfigMaps, in order
    digest: str = ""  # sha256 of the pieces put together


def encode_tables(tables: Iterable[Table]) -> bytes:
    """Compress tables; equal tables give equal bytes."""
    document = {"format": FORMAT, "tables": [_table_json(t) for t in sorted(tables, key=lambda t: t.uid)]}
    return gzip.compress(json.dumps(document, separators=(",", ":"), sort_keys=True).encode(), mtime=0)


def decode_tables(data: bytes) -> dict[str, Table]:
    """Read tables by PodCliqueSet uid; raises ``ValueError`` where they cannot be understood."""
    try:
        text = gzip.decompress(data).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ValueError(f"broken gzip stream: {error}") from error
    document = _document(text)
    try:
        return {table.uid: table for table in map(_table, document["tables"])}
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"a table lacks or garbles {error}") from error


def encode_run(document: RunDocument) -> str:
    """The run record as indented JSON, for people."""
    return json.dumps(
        {
            "format": FORMAT,
            "run": None if document.run is None else _run_json(document.run),
            "history": [_run_json(run) for run in document.history],
            "tables": list(document.shards),
            "tablesSha256": document.digest,
        },
        indent=2,
    )


def decode_run(text: str) -> RunDocument:
    """Read a run record; raises ``ValueError`` where it cannot be understood."""
    document = _document(text)
    try:
        return RunDocument(
            run=None if document["run"] is None else _run(document["run"]),
            history=tuple(map(_run, document["history"])),
            shards=tuple(map(str, document["tables"])),
            digest=str(document["tablesSha256"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"the record lacks or garbles {error}") from error


def _document(text: str) -> dict[str, Any]:
    document = json.loads(text)
    number = document.get("format") if isinstance(document, dict) else None
    if not isinstance(number, int):
        raise ValueError("it carries no format number")  # noqa: TRY004 - one kind of error for all texts
    if number != FORMAT:
        raise ValueError(f"it has format {number}, and this version of grove-migrator reads format {FORMAT} only")
    found: dict[str, Any] = document
    return found


def _table_json(table: Table) -> dict[str, Any]:
    return {
        "namespace": table.namespace,
        "name": table.name,
        "uid": table.uid,
        "generation": table.generation,
        "from": table.source,
        "to": table.target,
        "fromHashes": _hashes_json(table.source_hashes),
        "toHashes": _hashes_json(table.target_hashes),
        "templateDigest": table.template_digest,
        "kept": [[k.ref.kind, k.ref.namespace, k.ref.name, k.ref.uid, k.field, k.value] for k in table.kept],
        "podCliques": {name: [b.pods, b.newest, *_replicas_json(b)] for name, b in table.baseline.items()},
        "scalingGroups": {name: _replicas_json(b) for name, b in table.group_baseline.items()},
        "podCliqueSet": _replicas_json(table.set_baseline),
    }


def _table(raw: Mapping[str, Any]) -> Table:
    return Table(
        namespace=raw["namespace"],
        name=raw["name"],
        uid=raw["uid"],
        generation=raw["generation"],
        source=raw["from"],
        target=raw["to"],
        source_hashes=_hashes(raw["fromHashes"]),
        target_hashes=_hashes(raw["toHashes"]),
        template_digest=raw["templateDigest"],
        kept=tuple(Kept(Ref(*entry[:4]), *entry[4:]) for entry in raw["kept"]),
        baseline={name: CliqueBaseline(*entry) for name, entry in raw["podCliques"].items()},
        group_baseline={name: ReplicaBaseline(*entry) for name, entry in raw["scalingGroups"].items()},
        set_baseline=ReplicaBaseline(*raw["podCliqueSet"]),
    )


def _replicas_json(baseline: CliqueBaseline | ReplicaBaseline) -> list[Any]:
    return [baseline.updated_replicas, baseline.replicas, baseline.update_started]


def _hashes_json(hashes: SetHashes) -> dict[str, Any]:
    return {"generation": hashes.generation, "templates": dict(hashes.templates)}


def _hashes(raw: Mapping[str, Any]) -> SetHashes:
    return SetHashes(raw["generation"], dict(raw["templates"]))


def _run_json(run: RunRecord) -> dict[str, Any]:
    return {
        "runID": run.run_id,
        "identity": run.identity,
        "from": run.source,
        "to": run.target,
        "started": _time_text(run.started),
        "finished": None if run.finished is None else _time_text(run.finished),
        "state": run.state,
        "operatorReplicas": run.operator_replicas,
        "operatorImage": run.operator_image,
        "counts": dict(run.counts),
        "lease": run.lease,
    }


def _run(raw: Mapping[str, Any]) -> RunRecord:
    return RunRecord(
        run_id=raw["runID"],
        identity=raw["identity"],
        source=raw["from"],
        target=raw["to"],
        started=datetime.fromisoformat(raw["started"]),
        finished=None if raw["finished"] is None else datetime.fromisoformat(raw["finished"]),
        state=raw["state"],
        operator_replicas=raw["operatorReplicas"],
        operator_image=raw["operatorImage"],
        counts=dict(raw["counts"]),
        lease=raw.get("lease"),
    )


def _time_text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
