"""What ``plan`` shows: the plan of a run, and what stands in its way, with nothing disturbed or refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from migrator.errors import Refused
from migrator.grove.model import Finding, Plan
from migrator.planning.guards.base import refuse, warn
from migrator.planning.options import PlanOptions
from migrator.planning.planner import make_plan
from migrator.run import authorizer, operator, record
from migrator.run.snapshot import take
from migrator.store import Store

#: A plan holds no Lease, so where its name is not known any name will do.
_ANY_LEASE: Final = "any"


def preview(store: Store, options: PlanOptions, *, now: Callable[[], datetime], namespace: str) -> Plan:
    """Describe what a run would do.

    On a cluster the recorded tables count, and a live operator or a webhook that refuses label patches is a
    warning: a run can deal with both. ``namespace`` is where the record is if no operator is found. Raises what
    the store raises: what cannot be read is not described.
    """
    snapshot = take(store)
    if not store.is_cluster or not snapshot.trees:
        return make_plan(snapshot, options)
    found, findings = _find(store)
    tables = record.Recorder(store, found.namespace if found else namespace).load().tables
    plan = make_plan(snapshot, options, tables=tables, now=now())
    if not any(tree.changes for tree in plan.trees):
        return plan
    findings += in_the_way(store, found)
    return replace(plan, findings=(*plan.findings, *findings))


def _find(store: Store) -> tuple[operator.Operator | None, list[Finding]]:
    """The operator, and what keeps a run from telling which one it is or which Lease it holds."""
    try:
        return operator.find(store, namespace=None, deployment=None, lease_name=None), []
    except Refused as error:
        if str(error).startswith("GM-203: "):
            return None, [refuse("GM-203", None, None, str(error).removeprefix("GM-203: "))]
        finding = warn("GM-122", None, None, str(error))
    return operator.find(store, namespace=None, deployment=None, lease_name=_ANY_LEASE), [finding]


def in_the_way(store: Store, found: operator.Operator | None) -> list[Finding]:
    """What a run would have to deal with: a live operator, and a webhook that refuses label patches."""
    findings = []
    if found is not None and (found.pods or found.replicas):
        findings.append(
            warn(
                "GM-122",
                found.pods[0].ref if found.pods else None,
                None,
                f"{found} is running ({found.image}): the run needs it stopped, with --stop-operator or by hand",
            )
        )
    blocking = authorizer.blocking(store)
    if blocking is not None:
        findings.append(warn("GM-202", None, None, blocking.remedy))
    return findings
