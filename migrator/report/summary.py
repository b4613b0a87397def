"""A plan as data: its JSON, rows of tables and the headline. Pure.

The JSON is a contract: keys are only ever added, sets, changes and findings are sorted by namespace, name, kind and
field, and absent values are null.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from migrator.grove.objects import Ref
from migrator.hashing import schemes
from migrator.hashing.schemes import CANONICAL, Scheme
from migrator.planning.disruption import present_pods
from migrator.planning.model import Advice, Disruption, Finding, Plan, SetPlan, SetState, Severity
from migrator.planning.options import AUTO
from migrator.planning.planner import Outlook, Target
from migrator.releases.table import build_range, builds, builds_with
from migrator.words import count

#: The GPUs that are not counted.
DRA_NOTE = "GPUs are counted from the limits of containers; DRA claims are not counted."
#: There is no set in the cluster, or none is selected.
NOTHING_SELECTED = "Nothing to do: no PodCliqueSet was found or selected."
#: Which builds use the canonical schemes, and why a canonical target over the same layout does not recreate pods.
CANONICAL_NOTE = (
    "Only builds of Grove's pull request #566 use the canonical schemes; no release does. They accept the legacy hash "
    "of their own layout, so they do not recreate its pods."
)


@dataclass(frozen=True, slots=True)
class PlanHeader:
    """Where and when a plan was made: the cluster's address or the dump's name, the time, and our version.

    Its fields are keys of the JSON.
    """

    cluster: str | None
    time: str
    version: str


@dataclass(frozen=True, slots=True)
class TargetRow:
    """One release that an upgrade may lead to; ``is_newer`` is false for the one that runs and for those before it."""

    release: str
    scheme: str
    plan: Plan
    is_newer: bool = True


def plan_json(plan: Plan, header: PlanHeader | None = None) -> dict[str, Any]:
    """The plan as the JSON object of ``plan -o json``."""
    return {
        "from": plan.requested_source,
        "to": plan.requested_target,
        "summary": summary(plan),
        "trees": [_set_json(set_plan) for set_plan in in_order(plan.set_plans)],
        **_found(plan),
        **(asdict(header) if header else {}),
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


def outlook_json(outlook: Outlook) -> dict[str, Any]:
    """The cluster as ``plan -o json`` without ``--to`` has it."""
    return {
        "operator": outlook.operator,
        "release": outlook.running,
        "podCliqueSets": outlook.sets,
        "pods": outlook.pods,
        "gpus": outlook.gpus,
        "unfinishedRun": outlook.record or None,
    }


def target_rows(targets: Iterable[Target], running: str | None) -> list[TargetRow]:
    """A row for each release, oldest first.

    If the release that is ``running`` is not known, it is the newest one that uses the scheme of the stored hashes.
    If none uses that, it is taken for newer than all that are built with the same k8s.io/api or an older one.
    """
    found: dict[str, TargetRow] = {}
    sources = set[Scheme]()
    for target in targets:
        plans = target.plan.set_plans
        stored = {plan.target if plan.state is SetState.DONE else plan.source for plan in plans}
        sources |= {schemes.by_name(name) for name in stored if name is not None}
        found |= {release: TargetRow(release, target.scheme.name, target.plan) for release in target.releases}
    order = builds()
    running_now = [running] if running else [name for scheme in sources for name in builds_with(scheme)]
    if not running_now and sources:
        minor = max(scheme.minor for scheme in sources)
        running_now = [name for name, row in found.items() if schemes.by_name(row.scheme).minor <= minor]
    newest = max((order.index(name) for name in running_now), default=-1)
    return [replace(found[name], is_newer=order.index(name) > newest) for name in order if name in found]


def newer_plans(rows: Iterable[TargetRow]) -> list[Plan]:
    """The plans of releases that are newer than the one that runs."""
    return [row.plan for row in rows if row.is_newer]


def upgrade(plan: Plan) -> tuple[str, str]:
    """Both ends of the upgrade, releases with their versions of Dynamo.

    A source that was not named is the release that runs, or all that use the schemes that were found; else empty.
    """
    source = plan.running if plan.requested_source == AUTO else plan.requested_source
    if source is None:
        used = {schemes.by_name(set_plan.source) for set_plan in plan.set_plans if set_plan.source}
        found = [build_range(builds_with(scheme)) for scheme in schemes.all_schemes() if scheme in used]
        return ", ".join(found), _named(plan.requested_target)
    return _named(source), _named(plan.requested_target)


def _named(end: str) -> str:
    release = schemes.requested_release(end)
    name = release.name if release is not None else end
    dynamo = dynamo_of(name)
    return f"{name}, Dynamo {dynamo}" if dynamo else name


def dynamo_of(release: str) -> str:
    """The versions of Dynamo that bring a release of Grove: ``1.1, 1.2, 1.3``; empty if none does."""
    return ", ".join(version for one in schemes.releases() if one.name == release for version in one.dynamo)


def common_refusals(plans: Iterable[Plan]) -> list[Finding]:
    """What refuses a migration whatever the target: the findings of every plan that has anything to change."""
    found = [refusals_of(plan) for plan in plans if any(set_plan.changes for set_plan in plan.set_plans)]
    shared = set.intersection(*({_place(one) for one in refusals} for refusals in found)) if found else set()
    return [one for one in found[0] if _place(one) in shared] if found else []


def in_order(set_plans: Iterable[SetPlan]) -> list[SetPlan]:
    """Sets by namespace and name."""
    return sorted(set_plans, key=lambda set_plan: (set_plan.tree.ref.namespace, set_plan.tree.ref.name))


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
        "podCliqueSets": len(plan.set_plans),
        "podCliques": sum(len(set_plan.tree.pod_cliques) for set_plan in plan.set_plans),
        "podCliqueScalingGroups": sum(len(set_plan.tree.scaling_groups) for set_plan in plan.set_plans),
        "pods": sum(present_pods(set_plan.tree) for set_plan in plan.set_plans),
        "changes": sum(len(set_plan.changes) for set_plan in plan.set_plans),
        "refusals": len(refusals_of(plan)),
        "warnings": len(warnings_of(plan)),
        "podsRecreatedWithoutMigration": plan.cluster_disruption.pods,
        "gpusRecreatedWithoutMigration": plan.cluster_disruption.gpus,
        "podsRecreatedWithMigration": rest.pods,
        "gpusRecreatedWithMigration": rest.gpus,
    }


def recreated_with_migration(plan: Plan) -> Disruption:
    """The pods of the cluster that are recreated although the sets that can be migrated are."""
    total, before = plan.cluster_disruption, sum((set_plan.disruption for set_plan in plan.set_plans), Disruption())
    after = sum(
        (one.remaining if one.state is SetState.MIGRATE else one.disruption for one in plan.set_plans), Disruption()
    )
    return Disruption(
        pods=total.pods - before.pods + after.pods,
        gpus=total.gpus - before.gpus + after.gpus,
    )


def left_behind(plan: Plan) -> str:
    """What ``--skip-refused`` leaves to the upgrade, as a sentence; empty if no set was refused."""
    skipped = sum(one.state is SetState.SKIPPED and bool(one.findings) for one in plan.set_plans)
    if not skipped:
        return ""
    were = "was" if skipped == 1 else "were"
    rest = _amount(recreated_with_migration(plan))
    return f"{count(skipped, 'refused set')} {were} skipped: the upgrade recreates {rest}."


def refusals_of(plan: Plan) -> list[Finding]:
    """All findings that forbid the migration, sorted."""
    return _findings(plan, Severity.REFUSAL)


def warnings_of(plan: Plan) -> list[Finding]:
    """All warnings, sorted."""
    return _findings(plan, Severity.WARNING)


def codes(findings: Iterable[Finding]) -> list[str]:
    """The codes of findings, each once."""
    return sorted({finding.code for finding in findings})


def number(plan: Plan, state: SetState) -> int:
    """How many sets are in this state."""
    return sum(set_plan.state is state for set_plan in plan.set_plans)


def headline(plan: Plan) -> str:
    """What the upgrade recreates without the migration and with it, for somebody who reads nothing else."""
    if not plan.set_plans and not plan.cluster_disruption.pods:
        return NOTHING_SELECTED
    refused = number(plan, SetState.REFUSED)
    if not plan.cluster_disruption.pods and all(set_plan.state is SetState.DONE for set_plan in plan.set_plans):
        sets = count(len(plan.set_plans), "set")
        return f"Nothing to do: {sets} already migrated, and the upgrade does not recreate any pod."
    without = f"Without the migration, the upgrade recreates {_recreated(plan)}."
    if refused:
        able = number(plan, SetState.MIGRATE) + number(plan, SetState.DONE)
        needs = "needs" if refused == 1 else "need"
        return (
            f"{without} {able:,} of {count(len(plan.set_plans), 'set')} can be migrated; {refused:,} {needs} attention."
        )
    if refusals_of(plan):
        return f"{without} The migration is refused."
    remaining = recreated_with_migration(plan)
    return f"{without} With the migration: {_amount(remaining) if remaining.pods else 'none'}."


def next_steps(plan: Plan) -> list[str]:
    """The next steps after a plan that is refused."""
    refusals = refusals_of(plan)
    if not refusals:
        return []
    steps = [f"Run `grove-migrator guards {' '.join(codes(refusals))}` for the cause and the fix."]
    migrating = number(plan, SetState.MIGRATE)
    if migrating and all(finding.severity is Severity.WARNING for finding in plan.findings):
        rest = _amount(recreated_with_migration(plan))
        sets = "the other set" if migrating == 1 else f"the other {migrating:,} sets"
        steps.append(f"Or migrate {sets} with `run --skip-refused`; then the upgrade recreates {rest}.")
    return steps


def notes(plan: Plan) -> list[str]:
    """Remarks without which a reader could misread the numbers."""
    is_canonical = any(set_plan.target.startswith(CANONICAL) for set_plan in plan.set_plans)
    return [*([DRA_NOTE] if plan.cluster_disruption.pods else []), *([CANONICAL_NOTE] if is_canonical else [])]


def _recreated(plan: Plan) -> str:
    if not plan.cluster_disruption.pods:
        return "0 pods"
    hit = [set_plan.disruption for set_plan in plan.set_plans if set_plan.disruption.pods]
    selected, sets = sum(hit, Disruption()), count(len(hit), "set")
    if selected == plan.cluster_disruption:
        return f"{_amount(selected)} in {sets}"
    return f"{_amount(plan.cluster_disruption)} in the whole cluster ({_amount(selected)} in {sets} selected)"


def _amount(disruption: Disruption) -> str:
    return f"{count(disruption.pods, 'pod')} with {count(disruption.gpus, 'GPU')}"


def _set_json(set_plan: SetPlan) -> dict[str, Any]:
    changes = sorted(set_plan.changes, key=lambda one: (one.ref.namespace, one.ref.name, one.ref.kind, one.field))
    return {
        "namespace": set_plan.tree.ref.namespace,
        "name": set_plan.tree.ref.name,
        "from": set_plan.source,
        "to": set_plan.target,
        "state": set_plan.state.value,
        "pods": set_plan.disruption.pods,
        "gpus": set_plan.disruption.gpus,
        "changes": [
            {**object_json(one.ref), "uid": one.ref.uid, "field": one.field, "old": one.old, "new": one.new}
            for one in changes
        ],
    }


def _found(plan: Plan) -> dict[str, Any]:
    return {
        "refusals": [_finding(finding) for finding in refusals_of(plan)],
        "warnings": [_finding(finding) for finding in warnings_of(plan)],
        "notChecked": [{"code": one.code, "message": f"{one.what} ({one.reason})"} for one in plan.not_checked],
        "advisories": [_advice(advice) for advice in plan.advisories],
    }


def _advice(advice: Advice) -> dict[str, Any]:
    more = {name: getattr(advice, name) for name in ("message", "source", "remedy", "confidence")}
    return {"id": advice.id, **object_json(advice.ref), **more}


def _finding(finding: Finding) -> dict[str, Any]:
    where = {**object_json(finding.ref), "field": finding.field}
    return {"code": finding.code, **where, "message": finding.message, "remedy": finding.remedy or None}


def _findings(plan: Plan, severity: Severity) -> list[Finding]:
    return sorted((finding for finding in plan.all_findings if finding.severity is severity), key=_place)


def _place(finding: Finding) -> tuple[str, ...]:
    ref = finding.ref
    place = (ref.namespace, ref.name, ref.kind) if ref else ("", "", "")
    return (*place, finding.field or "", finding.code, finding.message)
