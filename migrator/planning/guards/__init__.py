"""The guards: one pure function and one stable code for each rule that may forbid a migration.

A guard refuses only where going on could recreate a pod or hide a real change; docs/guards.md explains each code.
A code has one severity. Two things turn a refusal into a warning: ``--allow``, and a set to which nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from migrator.planning.guards import fields, gangs, updates, values
from migrator.planning.guards.base import ALIKE, CATALOGUE, Case, allowed_codes, report
from migrator.planning.guards.cluster import cluster_findings, not_checked
from migrator.planning.guards.gangs import gang_termination
from migrator.planning.model import Finding, Severity

__all__ = [
    "ALIKE",
    "CATALOGUE",
    "Case",
    "allowed_codes",
    "check_set",
    "cluster_findings",
    "gang_termination",
    "judged",
    "not_checked",
    "report",
]

_MODULES = (updates, values, fields, gangs)


def check_set(case: Case) -> Iterator[Finding]:
    """All findings of the guards about one set, but for :func:`gang_termination`, which needs the whole plan."""
    return (finding for module in _MODULES for check in module.CHECKS for finding in check(case))


def judged(findings: Iterable[Finding], *, allow: frozenset[str], unchanged: bool) -> tuple[Finding, ...]:
    """The findings of a set; those that ``--allow`` accepts are warnings, and all if nothing is written to the set.

    ``allow`` has the codes whose overridable refusals become warnings; see :func:`allowed_codes`.
    """
    return tuple(_judged(finding, allow, unchanged=unchanged) for finding in findings)


def _judged(finding: Finding, allow: frozenset[str], *, unchanged: bool) -> Finding:
    if finding.severity is Severity.WARNING:
        return finding
    if finding.overridable and finding.code in allow:
        message = f"{finding.message} (allowed by --allow {finding.code})"
    elif unchanged:
        message = f"{finding.message} (only a warning: nothing is written to this set)"
    else:
        return finding
    return replace(finding, severity=Severity.WARNING, message=message, remedy="")
