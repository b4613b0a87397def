"""What a run records: pure values, whose text form is :mod:`migrator.run.codec`'s."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from migrator.grove.model import Ref, SetHashes


@dataclass(frozen=True, slots=True)
class Replicas:
    """``status.updatedReplicas``, ``status.replicas`` and the last ``updateStartedAt`` of an object before."""

    updated: int | None = None
    replicas: int | None = None
    update_started: str | None = None


@dataclass(frozen=True, slots=True)
class CliqueBaseline:
    """A PodClique before the migration. ``pods`` holds 8 bytes for each non-terminating pod, by its uid, sorted."""

    pods: tuple[str, ...] = ()
    status: Replicas = field(default_factory=Replicas)


@dataclass(frozen=True, slots=True)
class Baseline:
    """A set before the migration, for ``verify``: by PodClique name, by PodCliqueScalingGroup name, and the set."""

    uid: str
    run: str
    pod_cliques: Mapping[str, CliqueBaseline] = field(default_factory=dict)
    scaling_groups: Mapping[str, Replicas] = field(default_factory=dict)
    status: Replicas = field(default_factory=Replicas)


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

    ``uid`` and ``generation`` are the PodCliqueSet's, ``source`` and ``target`` scheme names, ``run`` the run that
    wrote by it. ``template_digest`` tells whether what is hashed has changed since.
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
    run: str = ""


@dataclass(frozen=True, slots=True)
class Was:
    """The operator's Deployment as it was."""

    replicas: int
    image: str


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run: who migrated what from where to where, when, and how far it came.

    ``operator`` is what a revert gives back; ``stopped`` is what this very run stopped, ``None`` where the operator
    was at zero already. ``layouts`` holds the types of schemes that no release in our table speaks, by scheme name.
    """

    run_id: str
    identity: str
    source: str
    target: str
    started: datetime
    finished: datetime | None
    state: str
    revert: bool = False
    operator: Was | None = None
    stopped: Was | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    layouts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunDocument:
    """The contents of the run record: this run, those before, and where tables and baselines are."""

    format: int
    run: RunRecord | None = None
    history: tuple[RunRecord, ...] = ()  # newest first
    tables: tuple[str, ...] = ()  # names of ConfigMaps, in order
    baselines: tuple[str, ...] = ()
    tables_digest: str = ""  # sha256 of the pieces put together
    baselines_digest: str = ""


@dataclass(frozen=True, slots=True)
class TablesDocument:
    """Every table that stands, and the layouts that they need and that are not shipped, by scheme name."""

    tables: tuple[Table, ...] = ()
    layouts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BaselinesDocument:
    """Every baseline that stands."""

    baselines: tuple[Baseline, ...] = ()
