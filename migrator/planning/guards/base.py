"""The catalogue of guards, and the case that every guard gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from migrator.grove.model import CLIQUE_STATUS_PLACES, GROUP_PLACES, Place, Ref, Sighting, StoredHash, Tree
from migrator.hashing.schemes import Scheme
from migrator.planning.detect import Verdict
from migrator.planning.lag import unlabelled
from migrator.planning.model import Finding, SetHashes, Severity


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
        Guard("GM-116", "Gang termination would happen during the downtime", overridable=True),
        Guard("GM-117", "A PodClique or scaling group reports an update in progress"),
        Guard("GM-118", "Gang termination is in progress"),
        Guard("GM-119", "The operator's own PodGang migration is in progress"),
        Guard("GM-120", "ControllerRevisions manage the set"),
        Guard("GM-121", "The operator reported errors"),
        Guard("GM-122", "An operator is running"),
        Guard("GM-123", "A clique's name is a suffix of another's"),
        Guard("GM-124", "An object belongs to no PodCliqueSet"),
        Guard("GM-125", "The template has fields that the source operator does not know"),
        Guard("GM-126", "The hash may be polluted by automatic MNNVL"),
        Guard("GM-127", "Later operators count a member below its minimum as a breach"),
        Guard("GM-128", "A PodGangMap or PodGang holds a hash of neither scheme"),
        Guard("GM-129", "Target hashes were found without a record"),
        Guard("GM-130", "The spec changed after the migration had begun"),
        Guard("GM-131", "The hash is part of object names"),
        Guard("GM-132", "Labels and owner of an object disagree"),
        Guard("GM-133", "A PodGangMap has no entries"),
        Guard("GM-134", "The template has fields that the target operator does not know"),
        Guard("GM-135", "The hashes are not those of the operator in --from"),
        Guard("GM-136", "A hash is stored in an unknown place"),
        Guard("GM-137", "A kind of Grove's objects may not be listed", overridable=True),
        Guard("GM-138", "The dump lacks kinds that the cluster must have"),
        Guard("GM-201", "Other sets still need this migration", overridable=True),
        Guard("GM-202", "The authorizer webhook refuses label changes"),
        Guard("GM-203", "More than one operator installation"),
        Guard("GM-204", "The downtime does not fit"),
        Guard("GM-205", "A record of another migration stands"),
        Guard("GM-206", "Our own policies are not enforced", overridable=True),
        Guard("GM-310", "The target's hashes are not known"),
    )
}


#: The code of a stored value of neither scheme, by its place.
FOREIGN_CODES: Final = {
    Place.SET_GENERATION: "GM-101",
    **dict.fromkeys((Place.CLIQUE_LABEL, *CLIQUE_STATUS_PLACES), "GM-109"),
    **dict.fromkeys(GROUP_PLACES, "GM-110"),
    Place.POD_LABEL: "GM-111",
    **dict.fromkeys((Place.GANG_MAP_ENTRY, Place.GANG_LABEL), "GM-128"),
}


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of foreign template hashes of one PodClique and its pods: of ``values``, or of all if ``None``."""

    finding: Finding
    values: frozenset[str] | None = None

    def explains(self, stored: StoredHash) -> bool:
        """Whether that value follows from this cause."""
        return stored.clique is not None and (self.values is None or stored.value in self.values)


@dataclass(frozen=True, slots=True)
class Case:
    """The input of a guard: one tree, its hashes and what its stored values are."""

    tree: Tree
    source: Scheme  # explains the tree; if not `explained`, most of it
    target: Scheme
    explained: bool
    source_hashes: SetHashes
    target_hashes: SetHashes
    changed: bool  # some values are the source's
    others: Mapping[Verdict, Sequence[StoredHash]]  # the values that are not
    lagging: frozenset[tuple[str, str]] = frozenset()  # foreign values on which no pod depends, by uid and field
    causes: Mapping[str, Cause] = field(default_factory=dict)  # of foreign template hashes, by uid of the PodClique
    unchanged: bool = False  # nothing is written to the set
    recorded: str | None = None  # the source of the run that left a table of the tree
    sightings: tuple[Sighting, ...] = ()  # in all of the cluster
    builds: Sequence[str] = ()  # that the next operator may be, if they are known
    now: datetime | None = None  # unknown for a dump
    downtime: float = 600.0  # expected, in seconds

    @property
    def foreign(self) -> Sequence[StoredHash]:
        """The values of neither scheme that OnDelete does not permit."""
        return self.others[Verdict.FOREIGN]

    @property
    def old_is_left(self) -> bool:
        """Whether a pod of an older template is to be replaced: a label is missing, or a foreign value does not lag."""
        return len(self.lagging) < len(self.foreign) or (not self.tree.pcs.on_delete and unlabelled(self.tree))


def refuse(code: str, ref: Ref | None, field: str | None, message: str, remedy: str = "") -> Finding:
    """A finding that forbids the migration."""
    return judge(code, ref, field, message, remedy, refuses=True)


def warn(code: str, ref: Ref | None, field: str | None, message: str, remedy: str = "") -> Finding:
    """A finding that is worth knowing."""
    return judge(code, ref, field, message, remedy, refuses=False)


def judge(code: str, ref: Ref | None, field: str | None, message: str, remedy: str = "", *, refuses: bool) -> Finding:
    """A refusal if it ``refuses``, else a warning. Raises ``KeyError`` for a code that is not in the catalogue."""
    severity = Severity.REFUSAL if refuses else Severity.WARNING
    return Finding(CATALOGUE[code].code, severity, ref, field, message, remedy)


def harmless(finding: Finding) -> Finding:
    """The finding as a warning without a remedy, for a set to which nothing is written: nothing can be hidden there."""
    if finding.severity is Severity.WARNING:
        return finding
    message = f"{finding.message}; nothing is written to this set, so this only warns"
    return replace(finding, severity=Severity.WARNING, message=message, remedy="")
