"""A plan as data: its JSON, rows of tables and the headline. Pure.

The JSON is a contract: keys are only ever added, arrays are sorted by namespace, name, kind and field, and absent
values are null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from migrator.grove.objects import Ref
from migrator.hashing import schemes
from migrator.planning.disruption import live_pods
from migrator.planning.model import Advice, Disruption, Finding, Plan, Severity, TreePlan, TreeState
from migrator.planning.outlook import Target
from migrator.planning.releases import builds_of, knows_on_delete
from migrator.render.figures import Share, recreated_with_migration

#: The GPUs that are not counted.
DRA_NOTE = "GPUs are counted from the limits of containers; those claimed by dynamic resource allocation are not."
#: Who speaks the canonical schemes.
CANONICAL_NOTE = "Only builds of Grove's pull request #566 speak the canonical schemes; no release does."
#: Why a canonical target over the same layout recreates nothing.
ACCEPTED_NOTE = "Builds of pull request #566 accept the legacy hash of their own layout, so they recreate nothing."

#: What ``-n`` and ``-l`` leave out.
_SELECTION: Final = "GM-201"
#: Why sets under OnDelete may count.
ON_DELETE_NOTE = "Operators before v0.1.0-alpha.7 do not know the update strategy OnDelete and roll such sets too."


@dataclass(frozen=True, slots=True)
class Origin:
    """Where and when a plan was made: the cluster's address or the dump's name, the time, and our version.

    Its fields are keys of the JSON.
    """

    cluster: str | None
    time: str
    version: str


@dataclass(frozen=True, slots=True)
class TargetRow(Share):
    """One possible target of an upgrade, by the name of its scheme: the selected sets, and the whole cluster's pods."""

    releases: tuple[str, ...]
    running: bool
    advisories: tuple[Advice, ...]
    remarks: tuple[str, ...]
    operator: str | None


def plan_json(plan: Plan, origin: Origin | None = None) -> dict[str, Any]:
    """The plan as the JSON object of ``plan -o json``."""
    return {
        "from": plan.requested_source,
        "to": plan.requested_target,
        "summary": summary(plan) if plan.known else {},
        "trees": [_tree(tree) for tree in in_order(plan.trees)],
        **_found(plan),
        **(asdict(origin) if origin else {}),
    }


def target_json(target: Target) -> dict[str, Any]:
    """One target as ``plan -o json`` without ``--to`` has it."""
    plan = target.plan
    return {
        "scheme": target.scheme.name,
        "releases": list(target.releases),
        "running": target.running,
        "summary": summary(plan),
        **_found(plan),
    }


def target_row(target: Target) -> TargetRow:
    """One target in numbers."""
    plan = target.plan
    return TargetRow(
        name=target.scheme.name,
        releases=target.releases,
        running=target.running,
        without=plan.cluster_disruption,
        with_migration=recreated_with_migration(plan),
        sets=len(plan.trees),
        refused=number(plan, TreeState.REFUSED),
        codes=tuple(codes(refusals_of(plan))),
        advisories=plan.advisories,
        remarks=tuple(_not_checked(plan)),
        operator=plan.operator,
    )


def in_order(trees: Iterable[TreePlan]) -> list[TreePlan]:
    """Sets by namespace and name."""
    return sorted(trees, key=lambda tree: (tree.tree.ref.namespace, tree.tree.ref.name))


def object_json(ref: Ref | None) -> dict[str, str | None]:
    """The keys that name an object in JSON."""
    return {
        "kind": ref.kind if ref else None,
        "namespace": (ref.namespace or None) if ref else None,
        "name": ref.name if ref else None,
    }


def summary(plan: Plan) -> dict[str, int]:
    """The numbers of a plan: its selected sets, and the disruption in the whole cluster."""
    rest = recreated_with_migration(plan)
    return {
        "podCliqueSets": len(plan.trees),
        "podCliques": sum(len(tree.tree.pod_cliques) for tree in plan.trees),
        "podCliqueScalingGroups": sum(len(tree.tree.scaling_groups) for tree in plan.trees),
        "pods": sum(live_pods(tree.tree) for tree in plan.trees),
        "changes": sum(len(tree.changes) for tree in plan.trees),
        "refusals": len(refusals_of(plan)),
        "warnings": len(warnings_of(plan)),
        "podsRecreatedWithoutMigration": plan.cluster_disruption.pods,
        "gpusRecreatedWithoutMigration": plan.cluster_disruption.gpus,
        "podsRecreatedWithMigration": rest.pods,
        "gpusRecreatedWithMigration": rest.gpus,
    }


def refusals_of(plan: Plan) -> list[Finding]:
    """All findings that forbid the migration, sorted."""
    return _findings(plan, Severity.REFUSAL)


def warnings_of(plan: Plan) -> list[Finding]:
    """All warnings, sorted."""
    return _findings(plan, Severity.WARNING)


def shown_warnings(plan: Plan) -> list[Finding]:
    """The warnings that people see as such. What ``-n`` and ``-l`` leave out refuses a run; of a plan it is a note."""
    return [finding for finding in warnings_of(plan) if finding.code != _SELECTION]


def codes(findings: Iterable[Finding]) -> list[str]:
    """The codes of findings, each once."""
    return sorted({finding.code for finding in findings})


def number(plan: Plan, state: TreeState) -> int:
    """How many sets are in this state."""
    return sum(tree.state is state for tree in plan.trees)


def headline(plan: Plan) -> str:
    """One sentence: the pods that the upgrade recreates without the migration, and with it."""
    if not plan.known:
        return f"the hashes of {plan.requested_target} are not known, so it may recreate pods"
    if not plan.trees and not plan.cluster_disruption.pods:
        return "nothing to do: no PodCliqueSets"
    if not plan.cluster_disruption.pods and all(tree.state is TreeState.DONE for tree in plan.trees):
        return f"nothing to do: {count(len(plan.trees), 'set')} already done, 0 pods would be recreated"
    refused = number(plan, TreeState.REFUSED)
    remaining = recreated_with_migration(plan)
    without = f"without migration: {_recreated(plan)} would be recreated"
    if refused:
        return f"{without}; the migration is refused by {count(refused, 'set')}"
    if refusals_of(plan):
        return f"{without}; the migration is refused"
    return f"{without}; with it: {_amount(remaining) if remaining.pods else 0}"


def next_steps(plan: Plan) -> list[str]:
    """The next steps after a plan that is refused."""
    refusals = refusals_of(plan)
    if not refusals:
        return []
    steps = [f"docs/guards.md explains each code and what to do: {', '.join(codes(refusals))}"]
    migrating = number(plan, TreeState.MIGRATE)
    if migrating and all(finding.severity is Severity.WARNING for finding in plan.findings):
        steps.append(
            f"or migrate the other {count(migrating, 'set')} with run --skip-refused: then "
            f"{_amount(recreated_with_migration(plan))} would be recreated"
        )
    return steps


def notes(plan: Plan) -> list[str]:
    """Remarks without which a reader could misread the numbers."""
    targets = {tree.target for tree in plan.trees if tree.state in {TreeState.MIGRATE, TreeState.REFUSED}}
    canonical = plan.requested_target == "canonical" or any(target.startswith("canonical-") for target in targets)
    accepted = any(tree.source and tree.target == tree.source.replace("legacy-", "canonical-") for tree in _live(plan))
    return [
        *(finding.message for finding in warnings_of(plan) if finding.code == _SELECTION),
        *_not_checked(plan),
        *([DRA_NOTE] if plan.cluster_disruption.pods else []),
        *([CANONICAL_NOTE] if canonical else []),
        *([ACCEPTED_NOTE] if accepted else []),
        *([ON_DELETE_NOTE] if any(_may_roll(plan, tree) for tree in _live(plan)) else []),
    ]


def count(number: int, noun: str, plural: str = "") -> str:
    """``1 pod``, ``3,296 GPUs``, ``2 patches``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _not_checked(plan: Plan) -> Iterator[str]:
    return (f"{unchecked.code} is not checked: {unchecked.message}" for unchecked in plan.not_checked)


def _live(plan: Plan) -> Iterator[TreePlan]:
    return (tree for tree in plan.trees if tree.state in {TreeState.MIGRATE, TreeState.REFUSED} and tree.changes)


def _may_roll(plan: Plan, tree: TreePlan) -> bool:
    """Whether the set is under OnDelete, and the target may be an operator that does not know it."""
    oldest = builds_of(plan.requested_target, schemes.by_name(tree.target))[:1]
    return tree.tree.pcs.on_delete and not knows_on_delete(oldest)


def _recreated(plan: Plan) -> str:
    if not plan.cluster_disruption.pods:
        return "0 pods"
    hit = [tree.disruption for tree in plan.trees if tree.disruption.pods]
    selected, sets = sum(hit, Disruption()), count(len(hit), "set")
    if selected == plan.cluster_disruption:
        return f"{_amount(selected)} in {sets}"
    return f"{_amount(plan.cluster_disruption)} in the whole cluster ({_amount(selected)} in {sets} selected)"


def _amount(disruption: Disruption) -> str:
    return f"{count(disruption.pods, 'pod')} and {count(disruption.gpus, 'GPU')}"


def _tree(tree: TreePlan) -> dict[str, Any]:
    changes = sorted(tree.changes, key=lambda one: (one.ref.namespace, one.ref.name, one.ref.kind, one.field))
    return {
        "namespace": tree.tree.ref.namespace,
        "name": tree.tree.ref.name,
        "from": tree.source,
        "to": tree.target,
        "state": tree.state.value,
        "pods": tree.disruption.pods,
        "runningPods": tree.disruption.running,
        "gpus": tree.disruption.gpus,
        "changes": [
            {**object_json(one.ref), "uid": one.ref.uid, "field": one.field, "old": one.old, "new": one.new}
            for one in changes
        ],
    }


def _found(plan: Plan) -> dict[str, Any]:
    return {
        "refusals": [_finding(finding) for finding in refusals_of(plan)],
        "warnings": [_finding(finding) for finding in warnings_of(plan)],
        "notChecked": [{"code": unchecked.code, "message": unchecked.message} for unchecked in plan.not_checked],
        "advisories": [_advice(advice) for advice in plan.advisories],
    }


def _advice(advice: Advice) -> dict[str, Any]:
    more = {name: getattr(advice, name) for name in ("message", "source", "remedy", "confidence")}
    return {"id": advice.id, **object_json(advice.ref), **more}


def _finding(finding: Finding) -> dict[str, Any]:
    where = {**object_json(finding.ref), "field": finding.field}
    return {"code": finding.code, **where, "message": finding.message, "remedy": finding.remedy or None}


def _findings(plan: Plan, severity: Severity) -> list[Finding]:
    found = (*plan.findings, *(finding for tree in plan.trees for finding in tree.findings))
    return sorted((finding for finding in found if finding.severity is severity), key=_place)


def _place(finding: Finding) -> tuple[str, ...]:
    ref = finding.ref
    place = (ref.namespace, ref.name, ref.kind) if ref else ("", "", "")
    return (*place, finding.field or "", finding.code, finding.message)
