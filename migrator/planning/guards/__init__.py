"""The guards: one pure function and one stable code for each rule that may forbid a migration.

A guard refuses only where going on could recreate a pod or hide a real change; else it warns. docs/guards.md explains
each code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from migrator.errors import UsageError, suggestion
from migrator.planning.guards import gangs, spec, updates, values, workload
from migrator.planning.guards.base import CATALOGUE, FOREIGN_CODES, Case, harmless
from migrator.planning.model import Finding, Severity

__all__ = ["ALIKE", "CATALOGUE", "FOREIGN_CODES", "Case", "check_allowed", "check_tree"]

_MODULES = (values, spec, gangs, updates, workload)

#: How much a mistyped code must resemble a real one to be suggested, from 0 to 1.
ALIKE: Final = 0.82

#: Codes of causes, of which the first one found counts: an edit that the operator has not seen, an update in flight.
_CAUSES: Final = ("GM-101", "GM-102", "GM-103", "GM-107", "GM-108")
#: Codes of what an edit or an update causes until it has ended.
_CONSEQUENCES: Final = frozenset(
    {"GM-102", "GM-103", "GM-105", "GM-106", "GM-107", "GM-108", "GM-109", "GM-110", "GM-111", "GM-117", "GM-128"}
)


def check_tree(case: Case, *, allow: frozenset[str] = frozenset()) -> tuple[Finding, ...]:
    """All findings of the guards in one tree, causes first; a finding that follows from another one names it.

    A refusal whose code is in ``allow`` becomes a warning; see :func:`check_allowed`. Nothing refuses if nothing is
    written.
    """
    case = replace(case, causes=spec.causes(case))
    found = [finding for module in _MODULES for check in module.CHECKS for finding in check(case)]
    found = [_allowed(f) if f.severity is Severity.REFUSAL and f.code in allow else f for f in found]
    if case.unchanged:
        found = [harmless(finding) for finding in found]
    refusing = {finding.code for finding in found if finding.severity is Severity.REFUSAL}
    cause = next((code for code in _CAUSES if code in refusing), None)
    if cause is not None:
        found = [replace(f, follows=cause) if f.code in _CONSEQUENCES and f.code != cause else f for f in found]
        found.sort(key=lambda finding: (finding.follows is not None, finding.code != cause))
    return tuple(found)


def check_allowed(codes: Iterable[str]) -> None:
    """Raise :class:`~migrator.errors.UsageError` for a code that ``--allow`` does not accept."""
    for code in codes:
        if code not in CATALOGUE:
            hint = suggestion(code.upper(), CATALOGUE, alike=ALIKE)
            raise UsageError(f"--allow {code}: a guard with this code does not exist; `guards` lists them.{hint}")
        if not CATALOGUE[code].overridable:
            accepted = ", ".join(guard.code for guard in CATALOGUE.values() if guard.overridable)
            raise UsageError(f"--allow {code}: this guard cannot be overridden; --allow accepts {accepted}")


def _allowed(finding: Finding) -> Finding:
    message = f"{finding.message} (allowed by --allow {finding.code})"
    return replace(finding, severity=Severity.WARNING, message=message)
