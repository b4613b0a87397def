"""What ``plan`` shows: the plan of a run, and what stands in its way, with nothing disturbed or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from migrator.errors import Refused, UsageError
from migrator.grove.model import Finding, Plan, Snapshot
from migrator.grove.trees import DUMP_COMMAND
from migrator.hashing import schemes
from migrator.planning.guards.base import refuse, warn
from migrator.planning.options import PlanOptions
from migrator.planning.outlook import Target, outlook
from migrator.planning.planner import make_plan
from migrator.planning.tables import Table
from migrator.run import authorizer, operator, record
from migrator.run.snapshot import take
from migrator.store import Store

#: A plan holds no Lease, so where its name is not known any name will do.
_ANY_LEASE: Final = "any"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a plan is made from. ``running`` is the release of the operator that runs, where its image names one."""

    snapshot: Snapshot
    tables: Mapping[str, Table]
    now: datetime | None
    running: str | None
    findings: tuple[Finding, ...]


def preview(
    store: Store,
    options: PlanOptions,
    *,
    now: Callable[[], datetime],
    namespace: str,
    found: Mapping[str, int] | None = None,
) -> Plan:
    """Describe what a run would do.

    On a cluster the recorded tables count, and a live operator or a webhook that refuses label patches is a
    warning: a run can deal with both. ``namespace`` is where the record is if no operator is found; ``found`` counts
    the objects of a dump by kind. Raises what the store raises: what cannot be read is not described.
    """
    seen = look(store, now=now, namespace=namespace, found=found)
    plan = make_plan(seen.snapshot, options, tables=seen.tables, now=seen.now, running=seen.running)
    return _with(plan, seen.findings)


def preview_targets(
    store: Store,
    options: PlanOptions,
    *,
    now: Callable[[], datetime],
    namespace: str,
    found: Mapping[str, int] | None = None,
) -> Iterator[Target]:
    """The same for every scheme that a release speaks."""
    seen = look(store, now=now, namespace=namespace, found=found)
    for target in outlook(seen.snapshot, options, tables=seen.tables, now=seen.now, running=seen.running):
        yield replace(target, plan=_with(target.plan, seen.findings))


def look(store: Store, *, now: Callable[[], datetime], namespace: str, found: Mapping[str, int] | None = None) -> Seen:
    """Read everything once.

    Raises :class:`~migrator.errors.UsageError` where there is certainly not what was meant: a dump without a
    PodCliqueSet, or a cluster that does not know them.
    """
    snapshot = take(store, phases=True)
    if not store.is_cluster:
        if not snapshot.trees:
            raise UsageError(f"the dump has no PodCliqueSet, but {_listed(found or {})}; dump with `{DUMP_COMMAND}`")
        return Seen(snapshot, {}, None, None, ())
    if not snapshot.installed:
        raise UsageError(
            "this API server does not know podcliquesets.grove.io: Grove's CRDs are not installed; is it the cluster "
            "that you mean?"
        )
    if not snapshot.trees:
        return Seen(snapshot, {}, now(), None, ())
    running, findings = _find(store)
    tables = record.Recorder(store, running.namespace if running else namespace).load().tables
    release = schemes.release_of(operator.image_tag(running.image or "") or "") if running else None
    findings += in_the_way(store, running)
    return Seen(snapshot, tables, now(), release.name if release else None, tuple(findings))


def _with(plan: Plan, findings: tuple[Finding, ...]) -> Plan:
    """The plan with what stands in the way of its run, if it would write anything."""
    return replace(plan, findings=(*plan.findings, *findings)) if any(tree.changes for tree in plan.trees) else plan


def _listed(found: Mapping[str, int]) -> str:
    """``3 Deployments, 1 Pod``; ``nothing at all``."""
    counts = [f"{number} {kind}{'s' if number != 1 else ''}" for kind, number in sorted(found.items())]
    return ", ".join(counts) or "nothing at all"


def _find(store: Store) -> tuple[operator.Operator | None, list[Finding]]:
    """The operator, and what keeps a run from knowing which one it is or which Lease it holds."""
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
