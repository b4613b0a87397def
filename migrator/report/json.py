"""A plan as data: its numbers, and its JSON. Pure.

The JSON is a contract: keys are only ever added, sets, changes, findings and advisories are sorted by namespace,
name, kind and field, and absent values are null. Each key is printed by one function; those of ``plan`` have their
rows in docs/how-it-works.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from migrator.grove.objects import Ref
from migrator.planning import model
from migrator.planning.options import AUTO
from migrator.planning.outlook import Outlook, Target

#: The version of the JSON: keys are only ever added to it.
API_VERSION: Final = "grove-migrator/v1"


@dataclass(frozen=True, slots=True)
class PlanHeader:
    """Where and when a plan was made: the cluster's address or the dump's name, the time, and our version.

    Its fields are keys of the JSON.
    """

    cluster: str
    time: str
    version: str


def plan_json(plan: model.Plan, header: PlanHeader | None = None) -> dict[str, Any]:
    """The plan as the JSON object of ``plan -o json``; without a header it is a part of another one."""
    return {
        **({"apiVersion": API_VERSION} if header else {}),
        "from": str(plan.source or AUTO),
        "to": str(plan.target),
        "summary": summary(plan),
        "trees": [_set_json(set_plan) for set_plan in plan.set_plans],
        **_found(plan),
        **(asdict(header) if header else {}),
    }


def first_look_json(look: Outlook, targets: Iterable[Target], source: str, header: PlanHeader) -> dict[str, Any]:
    """The JSON object of ``plan -o json`` without ``--to``."""
    outlook = {
        "operator": look.operator,
        "release": look.running,
        "podCliqueSets": look.sets,
        "pods": look.pods,
        "gpus": look.gpus,
        "unfinishedRun": look.record if look.resumes else None,
    }
    found = {"from": source, "targets": list(map(_target, targets)), **asdict(header)}
    return {"apiVersion": API_VERSION, **found, "outlook": outlook}


def _target(target: Target) -> dict[str, Any]:
    plan = target.plan
    return {
        "scheme": target.scheme.name,
        "releases": list(target.releases),
        "running": target.running,
        "summary": summary(plan),
        **_found(plan),
    }


def summary(plan: model.Plan) -> dict[str, int]:
    """The numbers of a plan: its selected sets, and the disruption in the whole cluster."""
    return {
        "podCliqueSets": len(plan.set_plans),
        "podCliques": sum(len(set_plan.tree.pod_cliques) for set_plan in plan.set_plans),
        "podCliqueScalingGroups": sum(len(set_plan.tree.scaling_groups) for set_plan in plan.set_plans),
        "pods": sum(len(clique.live) for set_plan in plan.set_plans for clique in set_plan.tree.pod_cliques),
        "changes": sum(len(set_plan.changes) for set_plan in plan.set_plans),
        "refusals": len(plan.refusals),
        "warnings": len(plan.warnings),
        "podsRecreatedWithoutMigration": plan.cluster_disruption.pods,
        "gpusRecreatedWithoutMigration": plan.cluster_disruption.gpus,
        "podsRecreatedWithMigration": plan.remaining.pods,
        "gpusRecreatedWithMigration": plan.remaining.gpus,
    }


def _set_json(set_plan: model.SetPlan) -> dict[str, Any]:
    changes = sorted(set_plan.changes, key=lambda one: (one.ref.namespace, one.ref.name, one.ref.kind, one.field))
    return {
        "namespace": set_plan.tree.ref.namespace,
        "name": set_plan.tree.ref.name,
        "from": str(set_plan.source) if set_plan.source else None,
        "to": str(set_plan.target),
        "state": set_plan.state.value,
        "pods": set_plan.disruption.pods,
        "gpus": set_plan.disruption.gpus,
        "changes": [
            {**object_json(one.ref), "uid": one.ref.uid, "field": one.field, "old": one.old, "new": one.new}
            for one in changes
        ],
    }


def _found(plan: model.Plan) -> dict[str, Any]:
    return {
        "refusals": [_finding(finding) for finding in in_order(plan.refusals)],
        "warnings": [_finding(finding) for finding in in_order(plan.warnings)],
        "notChecked": [{"code": one.code, "message": f"{one.what} ({one.reason})"} for one in plan.not_checked],
        "advisories": [
            _advice(one) for one in sorted(plan.advisories, key=lambda one: (*_where(one.ref), one.issue.code))
        ],
    }


def _advice(advice: model.Advice) -> dict[str, Any]:
    issue = advice.issue
    said = {"message": advice.message, "source": issue.source, "remedy": advice.remedy, "confidence": issue.confidence}
    return {"id": issue.code, **object_json(advice.ref), **said}


def _finding(finding: model.Finding) -> dict[str, Any]:
    where = {**object_json(finding.ref), "field": finding.field}
    return {"code": finding.code, **where, "message": finding.message, "remedy": finding.remedy or None}


def object_json(ref: Ref | None) -> dict[str, str | None]:
    """The keys that name an object in JSON."""
    return {
        "kind": ref.kind if ref else None,
        "namespace": (ref.namespace or None) if ref else None,
        "name": ref.name if ref else None,
    }


def in_order(findings: Iterable[model.Finding]) -> list[model.Finding]:
    """Findings as reports sort them."""
    return sorted(findings, key=place)


def place(finding: model.Finding) -> tuple[str, ...]:
    """What findings are sorted by."""
    return (*_where(finding.ref), finding.field or "", finding.code, finding.message)


def _where(ref: Ref | None) -> tuple[str, str, str]:
    return (ref.namespace, ref.name, ref.kind) if ref else ("", "", "")
