"""The guards: one pure function and one stable code for each rule that may forbid a migration.

A guard refuses only where going on could recreate a pod or hide a real change; docs/guards.md explains each code.
A code has one severity. A refusal becomes a warning by ``--allow`` or ``--skip-refused``, for a set to which
nothing is written, and in ``plan`` where it forbids a run only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from migrator.planning.guards import fields, updates, values
from migrator.planning.guards.base import SetFacts
from migrator.planning.model import Finding, Severity

#: The guards of a set, in the order of their findings; ``updates.gang_termination`` needs the whole plan.
_GUARDS = (
    updates.in_flight,
    updates.reported,
    updates.observed_generation,
    values.never_reconciled,
    values.foreign,
    values.unknown_places,
    values.missing,
    values.leftovers,
    fields.fields,
    values.hash_in_names,
)


def check_set(facts: SetFacts) -> Iterator[Finding]:
    """All findings of the guards about one set."""
    return (finding for guard in _GUARDS for finding in guard(facts))


def judged(findings: Iterable[Finding], *, allow: frozenset[str], unchanged: bool) -> tuple[Finding, ...]:
    """The findings of a set; those that ``--allow`` accepts are warnings, and all if nothing is written to the set."""
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
