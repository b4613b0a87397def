"""A plan as data: its JSON, rows of tables and the headline. Pure.

The JSON is a contract: keys are only ever added, arrays are sorted by namespace, name, kind and field, and absent
values are null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from migrator.grove.objects import Ref
from migrator.hashing import schemes
from migrator.planning.disruption import live_pods
from migrator.planning.model import Advice, Disruption, Finding, Plan, SetPlan, SetState, Severity
from migrator.planning.planner import Outlook, Target
from migrator.planning.releases import build_range, builds, builds_of, builds_with, knows_on_delete
from migrator.render.text import count

#: The GPUs that are not counted.
DRA_NOTE = "GPUs are counted from the limits of containers; DRA claims are not counted."
#: Which builds use the canonical schemes.
CANONICAL_NOTE = "Only builds of Grove's pull request #566 use the canonical schemes; no release does."
#: Why a canonical target over the same layout does not recreate pods.
ACCEPTED_NOTE = "Builds of pull request #566 accept the legacy hash of their layout, so they do not recreate pods."

#: What ``-n`` and ``-l`` leave out.
_SELECTION: Final = "GM-201"
#: Why sets under OnDelete may count.
ON_DELETE_NOTE = "Operators before v0.1.0-alpha.7 ignore the update strategy OnDelete and recreate such sets too."


@dataclass(frozen=True, slots=True)
class Origin:
    """Where and when a plan was made: the cluster's address or the dump's name, the time, and our version.

    Its fields are keys of the JSON.
    """

    cluster: str | None
    time: str
    version: str


@dataclass(frozen=True, slots=True)
class TargetRow:
    """One release that an upgrade may lead to; one that was not read has no plan.

    ``is_older`` marks the release that runs and those before it.
    """

    release: str
    scheme: str = ""
    plan: Plan | None = None
    is_older: bool = False


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
    """A row for each release, oldest first, unread ones last.

    If the release that is ``running`` is not known, it is the newest one that uses the scheme of the stored hashes.
    """
    found: dict[str, TargetRow] = {}
    sources: set[str] = set()
    for target in targets:
        sources |= {tree.source for tree in target.plan.trees if tree.source and tree.state is not SetState.DONE}
        sources |= {tree.target for tree in target.plan.trees if tree.state is SetState.DONE}
        found |= {release: TargetRow(release, target.scheme.name, target.plan) for release in target.releases}
    order = builds()
    running_now = [running] if running else [name for name, one in found.items() if one.scheme in sources]
    newest = max((order.index(name) for name in running_now), default=-1)
    rows = [replace(found[name], is_older=order.index(name) <= newest) for name in order if name in found]
    return [*rows, *map(TargetRow, schemes.unread_releases())]


def newer_plans(rows: Iterable[TargetRow]) -> list[Plan]:
    """The plans of releases that are newer than the one that runs."""
    return [row.plan for row in rows if row.plan is not None and not row.is_older]


def upgrade(plan: Plan) -> tuple[str, str]:
    """Both ends of the upgrade, releases with their versions of Dynamo.

    A source that was not named is the release that runs, or all that use the schemes that were found; else empty.
    """
    source = plan.running if plan.requested_source == "auto" else plan.requested_source
    if source is None:
        used = {schemes.by_name(tree.source) for tree in plan.trees if tree.source}
        found = [build_range(builds_with(scheme)) for scheme in schemes.all_schemes() if scheme in used]
        return ", ".join(found), _named(plan.requested_target)
    return _named(source), _named(plan.requested_target)


def _named(end: str) -> str:
    release = schemes.requested_release(end)
    name = release.name if release is not None else schemes.unread_release(end) or end
    dynamo = dynamo_of(name)
    return f"{name}, Dynamo {dynamo}" if dynamo else name


def dynamo_of(release: str) -> str:
    """The versions of Dynamo that bring a release of Grove: ``1.1, 1.2, 1.3``; empty if none does."""
    known = {**schemes.unread_releases(), **{one.name: one.dynamo for one in schemes.releases()}}
    return ", ".join(known.get(release, ()))


def common_refusals(plans: Iterable[Plan]) -> list[Finding]:
    """What refuses a migration whatever the target: the findings of every plan that has anything to change."""
    found = [refusals_of(plan) for plan in plans if any(tree.changes for tree in plan.trees)]
    shared = set.intersection(*({_place(one) for one in refusals} for refusals in found)) if found else set()
    return [one for one in found[0] if _place(one) in shared] if found else []


def in_order(trees: Iterable[SetPlan]) -> list[SetPlan]:
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


def recreated_with_migration(plan: Plan) -> Disruption:
    """The pods of the cluster that are recreated although the sets that can be migrated are."""
    total, before = plan.cluster_disruption, sum((tree.disruption for tree in plan.trees), Disruption())
    migrated = (tree.remaining if tree.state is SetState.MIGRATE else tree.disruption for tree in plan.trees)
    after = sum(migrated, Disruption())
    return Disruption(
        pods=total.pods - before.pods + after.pods,
        gpus=total.gpus - before.gpus + after.gpus,
        running=total.running - before.running + after.running,
    )


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


def number(plan: Plan, state: SetState) -> int:
    """How many sets are in this state."""
    return sum(tree.state is state for tree in plan.trees)


def headline(plan: Plan) -> str:
    """What the upgrade recreates without the migration and with it, for somebody who reads nothing else."""
    if not plan.known:
        return f"The hashes of {plan.requested_target} are not known, so it may recreate pods."
    if not plan.trees and not plan.cluster_disruption.pods:
        return "Nothing to do: there are no PodCliqueSets."
    refused = number(plan, SetState.REFUSED)
    if not plan.cluster_disruption.pods and all(tree.state is SetState.DONE for tree in plan.trees):
        sets = count(len(plan.trees), "set")
        return f"Nothing to do: {sets} already migrated, and the upgrade does not recreate any pod."
    without = f"Without the migration, the upgrade recreates {_recreated(plan)}."
    if refused:
        able = number(plan, SetState.MIGRATE) + number(plan, SetState.DONE)
        needs = "needs" if refused == 1 else "need"
        return f"{without} {able:,} of {count(len(plan.trees), 'set')} can be migrated; {refused:,} {needs} attention."
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
    targets = {tree.target for tree in plan.trees if tree.state in {SetState.MIGRATE, SetState.REFUSED}}
    canonical = plan.requested_target == "canonical" or any(target.startswith("canonical-") for target in targets)
    accepted = any(tree.source and tree.target == tree.source.replace("legacy-", "canonical-") for tree in _live(plan))
    return [
        *(finding.message for finding in warnings_of(plan) if finding.code == _SELECTION),
        *([DRA_NOTE] if plan.cluster_disruption.pods else []),
        *([CANONICAL_NOTE] if canonical else []),
        *([ACCEPTED_NOTE] if accepted else []),
        *([ON_DELETE_NOTE] if any(_may_roll(plan, tree) for tree in _live(plan)) else []),
    ]


def _live(plan: Plan) -> Iterator[SetPlan]:
    return (tree for tree in plan.trees if tree.state in {SetState.MIGRATE, SetState.REFUSED} and tree.changes)


def _may_roll(plan: Plan, tree: SetPlan) -> bool:
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
    return f"{count(disruption.pods, 'pod')} with {count(disruption.gpus, 'GPU')}"


def _tree(tree: SetPlan) -> dict[str, Any]:
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
    found = (*plan.findings, *(finding for tree in plan.trees for finding in tree.findings))
    return sorted((finding for finding in found if finding.severity is severity), key=_place)


def _place(finding: Finding) -> tuple[str, ...]:
    ref = finding.ref
    place = (ref.namespace, ref.name, ref.kind) if ref else ("", "", "")
    return (*place, finding.field or "", finding.code, finding.message)
