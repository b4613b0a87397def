"""What forbids a migration: one pure function and one stable code for each rule.

Every code has an anchor of its own in docs/upgrade.md, which says what it means, how to see it with kubectl and
what to do. All findings of a tree are reported at once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from migrator.grove.model import Finding, Severity
from migrator.planning.guards import gangs, spec, updates, values, workload
from migrator.planning.guards.base import CATALOGUE, FOREIGN_CODES, Context, Guard, guard, overridable

__all__ = ["CATALOGUE", "FOREIGN_CODES", "Context", "Guard", "check_tree", "guard", "overridable"]

_MODULES = (values, spec, gangs, updates, workload)


def check_tree(context: Context, *, allow: frozenset[str] = frozenset()) -> tuple[Finding, ...]:
    """Everything that the guards say of one tree.

    A refusal whose code is in ``allow``, and is overridable, becomes a warning; nothing else about it changes.
    """
    return tuple(
        _allowed(finding, allow) for module in _MODULES for check in module.CHECKS for finding in check(context)
    )


def _allowed(finding: Finding, allow: Collection[str]) -> Finding:
    if finding.severity is Severity.REFUSAL and finding.code in allow and overridable(finding.code):
        message = f"{finding.message} (allowed by --allow {finding.code})"
        return replace(finding, severity=Severity.WARNING, message=message)
    return finding
