"""Findings about the cluster as a whole: the selection, and what was not read or not checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from migrator.grove.assemble import DUMP_COMMAND
from migrator.grove.hash_fields import GROUPS
from migrator.grove.objects import Snapshot
from migrator.planning.guards.base import report
from migrator.planning.model import Finding, NotChecked, SetPlan, SetState
from migrator.planning.options import PlanOptions

_RUNNING: Final = "whether an operator is running"
_AUTHORIZER: Final = "whether the authorizer webhook rejects label changes"
_RECORD: Final = "whether an earlier run left a record"
_OTHERS: Final = "whether other sets need this migration too"


def cluster_findings(snapshot: Snapshot, plans: Sequence[SetPlan], options: PlanOptions) -> Iterator[Finding]:
    """Sets outside the selection, and kinds that were left out."""
    pending = [p for p in plans if p.state in {SetState.MIGRATE, SetState.REFUSED}]
    others = [p for p in pending if not options.selection.matches(p.tree.pcs)]
    if others:
        some = "1 PodCliqueSet outside the selection also needs"
        if len(others) > 1:
            some = f"{len(others)} PodCliqueSets outside the selection also need"
        message = f"{some} this migration: the operator serves the whole cluster and would recreate their pods"
        yield report("GM-201", others[0].tree.ref, None, message, "plan without -n and -l; a run has no selection")
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
        yield NotChecked("GM-116", "whether a gang would be terminated during the downtime (a dump has no time)")
        yield NotChecked("GM-122", f"{_RUNNING} (this is a dump)")
        yield NotChecked("GM-202", f"{_AUTHORIZER} (this is a dump)")
        yield NotChecked("GM-205", f"{_RECORD} (this is a dump)")
    if snapshot.only is not None:
        yield NotChecked("GM-201", f"{_OTHERS} (you are allowed to list namespace {snapshot.only} only)")


def operator_unseen(why: str) -> tuple[NotChecked, ...]:
    """The guards that need the operator, which could not be looked for."""
    return NotChecked("GM-122", f"{_RUNNING} ({why})"), NotChecked("GM-202", f"{_AUTHORIZER} ({why})")


def record_unseen(why: str) -> NotChecked:
    """The guard that needs the record of an earlier run, which could not be read."""
    return NotChecked("GM-205", f"{_RECORD} ({why})")
