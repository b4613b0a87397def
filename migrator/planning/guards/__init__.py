"""The guards: pure functions and stable codes, one for each rule that may forbid a migration.

A guard refuses only where going on could recreate a pod or hide a real change; docs/guards.md explains each code.
A code has one severity. A refusal becomes a warning by ``--allow`` or ``--skip-refused``, for a set to which
nothing is written, and in ``plan`` where it forbids a run only.

A new guard is an entry in one of these modules, in its ``GUARDS``, beside the function that finds it, in ``CHECKS``
if it is about one set. It has the next code of its series; docs/guards.md has those that are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from migrator.errors import UsageError
from migrator.grove.objects import Snapshot
from migrator.planning import model
from migrator.planning.guards import cluster, fields, operators, updates, values
from migrator.planning.guards.base import Guard, SetFacts

#: Every guard by its code.
CATALOGUE: Final[Mapping[str, Guard]] = {
    guard.code: guard for module in (updates, values, fields, cluster, operators) for guard in module.GUARDS
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
            accepted = ", ".join(sorted(guard.code for guard in CATALOGUE.values() if guard.overridable))
            raise UsageError(f"--allow {text}: this guard cannot be overridden; --allow accepts {accepted}")
    return frozenset(found.values())


def check_set(facts: SetFacts) -> Iterator[model.Finding]:
    """All findings of the guards about one set."""
    checks = (*updates.CHECKS, *values.CHECKS, *fields.CHECKS)
    return (finding for check in checks for finding in check(facts))


def accepted(
    findings: Iterable[model.Finding], allow: frozenset[str], *, unchanged: bool = False
) -> Iterator[model.Finding]:
    """The findings; those that ``--allow`` accepts are warnings, and all of a set to which nothing is written."""
    for finding in findings:
        why = ""
        if finding.overridable and finding.code in allow:
            why = f"allowed by --allow {finding.code}"
        elif unchanged:
            why = "nothing is to be written to this set"
        if why and finding.severity is model.Severity.REFUSAL:
            message = f"{finding.message} ({why})"
            yield replace(finding, severity=model.Severity.WARNING, message=message, remedy="")
        else:
            yield finding


def not_checked(snapshot: Snapshot) -> Iterator[model.NotChecked]:
    """The guards that a dump cannot show, because it has no time and no operator; and namespaces that were not read."""
    if not snapshot.is_cluster and snapshot.trees:
        yield updates.TERMINATION.unjudged("a dump has no time")
        yield from (
            guard.unjudged("this is a dump") for guard in (operators.RUNNING, operators.WEBHOOK, operators.OPEN_RECORD)
        )
    if snapshot.only is not None:
        yield cluster.OTHER_SETS.unjudged(f"you are allowed to list namespace {snapshot.only} only")
        yield from (
            cluster.NOT_LISTED.unjudged(f"you are not allowed to list {one}") for one in snapshot.forbidden_kinds
        )
