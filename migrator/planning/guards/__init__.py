"""The guards: one pure function and one stable code for each rule that may forbid a migration.

A guard refuses only where going on could recreate a pod or hide a real change; docs/guards.md explains each code.
A code has one severity. A refusal becomes a warning by ``--allow`` or ``--skip-refused``, for a set to which
nothing is written, and in ``plan`` where it forbids a run only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from migrator.grove.objects import Snapshot
from migrator.grove.places import GROUPS
from migrator.grove.trees import DUMP_COMMAND
from migrator.planning.guards import fields, updates, values
from migrator.planning.guards.base import SetFacts, report
from migrator.planning.model import Finding, NotChecked, SetPlan, SetState, Severity
from migrator.planning.options import PlanOptions
from migrator.words import count

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
)
#: What the guards ask that are not always judged.
_QUESTIONS: Final = {
    "GM-116": "whether a gang would be terminated during the downtime",
    "GM-122": "whether an operator is running",
    "GM-201": "whether other sets need this migration too",
    "GM-202": "whether a webhook of the operator rejects our writes while it is stopped",
    "GM-205": "whether an earlier run left a record",
}


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


def cluster_findings(snapshot: Snapshot, plans: Sequence[SetPlan], options: PlanOptions) -> Iterator[Finding]:
    """Findings about the cluster as a whole: sets in other namespaces, and kinds that were left out."""
    pending = [p for p in plans if p.state in {SetState.MIGRATE, SetState.REFUSED}]
    others = [p for p in pending if not options.selects(p.tree.pcs)]
    if others:
        sets = count(len(others), "PodCliqueSet")
        message = (
            f"the upgrade also affects {sets} in other namespaces: the operator serves the whole cluster and would "
            "recreate their pods"
        )
        yield report("GM-201", others[0].tree.ref, None, message, "plan without -n; a run has no such flag")
    for kind in snapshot.forbidden_kinds if any(p.changes for p in plans) else ():
        message = f"you are not allowed to list {kind}, so grove-migrator did not search it for hashes"
        remedy = f"grant list on the API groups {' and '.join(GROUPS)}"
        yield report("GM-137", None, None, message, remedy, overridable=True)
    if snapshot.missing_kinds:
        message = (
            f"the dump has pods, but no {' and no '.join(snapshot.missing_kinds)}: hashes in such objects are not seen"
        )
        yield report("GM-138", None, None, message, f"dump again with `{DUMP_COMMAND}`")


def not_checked(snapshot: Snapshot) -> Iterator[NotChecked]:
    """The guards that a dump cannot show, because it has no time and no operator; and namespaces that were not read."""
    if not snapshot.is_cluster and snapshot.trees:
        yield unjudged("GM-116", "a dump has no time")
        yield from (unjudged(code, "this is a dump") for code in ("GM-122", "GM-202", "GM-205"))
    if snapshot.only is not None:
        yield unjudged("GM-201", f"you are allowed to list namespace {snapshot.only} only")


def unjudged(code: str, reason: str) -> NotChecked:
    """A guard that could not be judged, such as those that need the operator or the record of an earlier run."""
    return NotChecked(code, _QUESTIONS[code], reason)
