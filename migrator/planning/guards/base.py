"""The catalogue of guards, and the facts that every guard of a set gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

from migrator.errors import UsageError
from migrator.grove.objects import PossibleHash, Ref, Tree
from migrator.grove.places import StoredHash
from migrator.hashing.schemes import Scheme
from migrator.planning.detect import Detection, HashPair, Verdict, lagging, unlabelled
from migrator.planning.model import Finding, Severity


@dataclass(frozen=True, slots=True)
class Guard:
    """A rule: its code, its name, a short title, its severity, and whether ``--allow`` accepts some of its refusals."""

    code: str
    name: str
    title: str
    severity: Severity
    overridable: bool = False


_refuses: Final = partial(Guard, severity=Severity.REFUSAL)
_refuses_unless_allowed: Final = partial(_refuses, overridable=True)
_warns: Final = partial(Guard, severity=Severity.WARNING)

#: The codes of guards that are gone, which are never used again: scripts know what they meant.
RETIRED: Final = tuple(
    f"GM-{number}"
    for numbers in (
        (103, 106, 108, 109, 110, 111, 113, 114, 115, 117, 118, 119, 121),
        (123, 124, 126, 127, 128, 129, 130, 131, 132, 133, 135, 204, 206, 310),
    )
    for number in numbers
)
#: Every guard by its code.
CATALOGUE: Final = {
    guard.code: guard
    for guard in (
        _refuses_unless_allowed("GM-101", "foreign-value", "A stored hash is neither the source's nor the target's"),
        _refuses_unless_allowed("GM-102", "update-in-flight", "An update of the set is in flight"),
        _refuses("GM-104", "never-reconciled", "The set stores no generation hash"),
        _refuses("GM-105", "unseen-generation", "The operator has not seen the newest generation"),
        _warns("GM-107", "idle-update", "An update is recorded that waits for nothing"),
        _warns("GM-112", "left-alone", "Hashes of older templates are left alone"),
        _refuses_unless_allowed("GM-116", "gang-termination", "Gang termination would happen during the downtime"),
        _refuses("GM-120", "controller-revisions", "ControllerRevisions manage the set"),
        _refuses("GM-122", "operator-running", "An operator is running"),
        _refuses("GM-125", "field-of-target", "The template has fields that only the target operator knows"),
        _warns("GM-134", "field-of-source", "The template has fields that the target operator does not know"),
        _refuses("GM-136", "unknown-place", "A hash is stored in an unknown place"),
        _refuses_unless_allowed("GM-137", "kind-not-listed", "You are not allowed to list a kind of Grove"),
        _warns("GM-138", "kinds-missing", "The dump lacks kinds that the cluster must have"),
        _warns("GM-201", "other-sets", "Other sets need this migration too"),
        _refuses_unless_allowed(
            "GM-202", "webhook", "A webhook of the operator rejects our writes while it is stopped"
        ),
        _refuses("GM-203", "operator-unclear", "The operator's installation is not clear"),
        _refuses("GM-205", "open-record", "Another migration has not ended"),
        _warns("GM-207", "no-election", "No Lease keeps the operator out"),
    )
}
#: The code of every guard by its name.
CODES: Final = {guard.name: guard.code for guard in CATALOGUE.values()}


def allowed_codes(given: Iterable[str]) -> frozenset[str]:
    """The codes that ``--allow`` names, by code or by name.

    Raises :class:`~migrator.errors.UsageError` for one that does not exist or cannot be overridden.
    """
    found = {text: CODES.get(text.lower(), text.upper()) for text in given}
    for text, code in found.items():
        if code not in CATALOGUE:
            raise UsageError(
                f"--allow {text}: no guard has this code or name. Run `grove-migrator guards` to list all."
            )
        if not CATALOGUE[code].overridable:
            accepted = ", ".join(guard.code for guard in CATALOGUE.values() if guard.overridable)
            raise UsageError(f"--allow {text}: this guard cannot be overridden; --allow accepts {accepted}")
    return frozenset(found.values())


@dataclass(frozen=True)
class SetFacts:
    """The input of a guard: one set, its schemes with their hashes, and what its stored values are.

    ``resumes``: an earlier run did not end. ``possible_hashes`` are all of the cluster.
    """

    tree: Tree
    detection: Detection
    pair: HashPair
    values: Mapping[Verdict, Sequence[StoredHash]]
    resumes: bool
    possible_hashes: tuple[PossibleHash, ...]

    @property
    def source(self) -> Scheme:
        """The scheme that explains the set, or most of it."""
        return self.detection.likely_source

    @property
    def target(self) -> Scheme:
        """The scheme of the next operator."""
        return self.detection.target

    @property
    def foreign(self) -> Sequence[StoredHash]:
        """The values of neither scheme that OnDelete does not permit."""
        return self.values[Verdict.FOREIGN]

    @cached_property
    def lagging(self) -> frozenset[tuple[str, str]]:
        """The foreign values on which no pod depends, by uid and field."""
        return lagging(self.tree, self.foreign)

    @property
    def pods_await_replacement(self) -> bool:
        """Whether a pod of an older template is to be replaced: a label is missing, or a foreign value does not lag."""
        return len(self.lagging) < len(self.foreign) or (not self.tree.pcs.on_delete and unlabelled(self.tree))


def report(
    code: str,
    ref: Ref | None,
    field: str | None,
    message: str,
    remedy: str = "",
    *,
    overridable: bool = False,
    settles: bool = False,
) -> Finding:
    """A finding of a guard, with the severity of its code; see :class:`~migrator.planning.model.Finding`.

    ``overridable``: ``--allow`` accepts this refusal, and the remedy says so. Raises ``KeyError`` for a code that is
    not in the catalogue.
    """
    if overridable:
        remedy = f"{remedy}, or run with --allow {code}" if remedy else f"run with --allow {code}"
    severity = CATALOGUE[code].severity
    return Finding(code, severity, ref, field, message, remedy, overridable=overridable, settles=settles)


def as_warning(finding: Finding) -> Finding:
    """The same finding as a warning."""
    return replace(finding, severity=Severity.WARNING)
