"""The values that a run records. Pure; :mod:`migrator.run.codec` writes them as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum, auto
from typing import Any

from migrator.planning.model import Table


@dataclass(frozen=True, slots=True)
class Replicas:
    """An object's ``status.updatedReplicas``, ``status.replicas`` and last ``updateStartedAt`` before the run."""

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
    """A set before the migration, for ``verify``: its PodCliques and scaling groups by name, and itself."""

    uid: str
    run: str
    pod_cliques: Mapping[str, CliqueBaseline] = field(default_factory=dict)
    scaling_groups: Mapping[str, Replicas] = field(default_factory=dict)
    status: Replicas = field(default_factory=Replicas)


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
    it was at zero already). ``version`` is that of grove-migrator.
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


@dataclass(frozen=True, slots=True)
class RunDocument:
    """The contents of the run record, and where tables and baselines are."""

    format: int
    run: RunRecord | None = None
    tables: tuple[str, ...] = ()  # names of ConfigMaps, in order
    baselines: tuple[str, ...] = ()
    tables_digest: str = ""  # sha256 of the pieces put together
    baselines_digest: str = ""


@dataclass(frozen=True, slots=True)
class TablesDocument:
    """Every open table, and the layouts that they need and that are not shipped, by scheme name."""

    tables: tuple[Table, ...] = ()
    layouts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BaselinesDocument:
    """Every open baseline."""

    baselines: tuple[Baseline, ...] = ()
