"""The catalogue of guards, and what every guard is given."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from migrator.hashing.schemes import Scheme
from migrator.model import Finding, Ref, SetHashes, Severity, StoredHash, Tree


@dataclass(frozen=True, slots=True)
class Guard:
    """A rule: its code, a short title, and whether ``--allow`` may turn its refusal into a warning."""

    code: str
    title: str
    overridable: bool = False


CATALOGUE: Final = {
    guard.code: guard
    for guard in (
        Guard("GM-101", "The set's generation hash is not the one of its current spec"),
        Guard("GM-102", "A rolling update of the set is in flight"),
        Guard("GM-103", "A replica of the set is being updated"),
        Guard("GM-104", "The set was never reconciled"),
        Guard("GM-105", "The operator has not seen the newest generation"),
        Guard("GM-106", "An object is being deleted"),
        Guard("GM-107", "An update of a PodClique is in flight"),
        Guard("GM-108", "An update of a scaling group is in flight"),
        Guard("GM-109", "A PodClique holds a hash of neither scheme", overridable=True),
        Guard("GM-110", "A scaling group holds a hash of neither scheme", overridable=True),
        Guard("GM-111", "A pod holds a hash of neither scheme", overridable=True),
        Guard("GM-112", "OnDelete: older hashes are left alone"),
        Guard("GM-113", "Pods are being deleted"),
        Guard("GM-114", "Pods wait behind a scheduling gate"),
        Guard("GM-115", "A scale-out or scale-in is pending"),
        Guard("GM-116", "Gang termination would strike during the downtime", overridable=True),
        Guard("GM-117", "A PodClique or scaling group reports an update in progress"),
        Guard("GM-118", "Gang termination is in progress"),
        Guard("GM-119", "The operator's own PodGang migration is in progress"),
        Guard("GM-120", "The set is kept by ControllerRevisions"),
        Guard("GM-121", "The operator reported errors"),
        Guard("GM-122", "An operator is running"),
        Guard("GM-123", "A clique's name is a suffix of another's"),
        Guard("GM-124", "An object belongs to no PodCliqueSet"),
        Guard("GM-125", "The template has fields that the source operator does not know"),
        Guard("GM-126", "The hash may be polluted by automatic MNNVL"),
        Guard("GM-127", "Replicas that were scheduled have no pod scheduled now"),
        Guard("GM-128", "A PodGangMap or PodGang holds a hash of neither scheme"),
        Guard("GM-129", "Target hashes were found without a record"),
        Guard("GM-130", "The spec changed after the migration had begun"),
        Guard("GM-131", "The hash is part of object names"),
        Guard("GM-201", "Other sets still need this migration", overridable=True),
        Guard("GM-202", "The authorizer webhook refuses label changes"),
        Guard("GM-203", "More than one operator installation"),
        Guard("GM-204", "The downtime does not fit"),
        Guard("GM-205", "A record of another migration stands"),
    )
}


@dataclass(frozen=True, slots=True)
class Context:
    """What a guard decides upon.

    ``foreign`` and ``leftovers`` are the stored values that are neither source's nor target's (for ``closest``
    where nothing explains the tree), the latter those that OnDelete permits. ``foreign_closest`` names that
    scheme. ``now`` is ``None`` where the time cannot be known (a dump); ``downtime`` is in seconds.
    """

    tree: Tree
    source: Scheme
    target: Scheme
    explained: bool
    source_hashes: SetHashes
    target_hashes: SetHashes
    foreign: tuple[StoredHash, ...] = ()
    leftovers: tuple[StoredHash, ...] = ()
    target_values: int = 0
    recorded: bool = False
    unknown_fields: tuple[str, ...] = ()
    now: datetime | None = None
    downtime: float = 600.0


def guard(code: str) -> Guard:
    """The guard of a code; raises ``KeyError`` for a code that does not exist."""
    return CATALOGUE[code]


def overridable(code: str) -> bool:
    """Whether ``--allow`` accepts this code."""
    known = CATALOGUE.get(code)
    return known is not None and known.overridable


def refuse(code: str, ref: Ref | None, field: str | None, message: str) -> Finding:
    """A finding that forbids the migration."""
    return Finding(guard(code).code, Severity.REFUSAL, ref, field, message)


def warn(code: str, ref: Ref | None, field: str | None, message: str) -> Finding:
    """A finding that somebody should know."""
    return Finding(guard(code).code, Severity.WARNING, ref, field, message)
