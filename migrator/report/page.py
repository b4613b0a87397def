"""The plan as one self-contained HTML file, with the disruption as a picture, for people to send to their team.

The page has no script and no font and makes no request: it opens on a phone, prints, and follows the reader's light
or dark setting. Jinja2 escapes every value; the page shows names and hashes, never a value of a pod template.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from migrator import words
from migrator.planning import model
from migrator.planning.patches import PATCHES_PER_SECOND, patch_count
from migrator.report import json, table
from migrator.report.table import grouped

if TYPE_CHECKING:
    from jinja2 import Template

_STATES: Final = {
    model.SetState.REFUSED: "refused",
    model.SetState.MIGRATE: "can be migrated",
    model.SetState.SKIPPED: "skipped",
    model.SetState.DONE: "done already",
}

#: The name of the share of sets without the label.
UNLABELLED: Final = "(without it)"

#: How many sets, and how many namespaces or values of a label, are shown before the rest is folded away.
SHOWN, SHOWN_SHARES = 50, 10
#: Of more sets paper has a line each.
SHORT_ON_PAPER: Final = 10


def render(
    plan: model.Plan,
    header: json.PlanHeader,
    *,
    group_by: str | None = None,
    next_command: str = "",
    skipping: str = "",
) -> str:
    """The whole document, as text.

    ``group_by`` is a label of the PodCliqueSets that gets totals of its own; see :func:`table.plan_text`.
    """
    set_plans = sorted(plan.set_plans, key=_weight)
    patches = sum(patch_count(set_plan.changes) for set_plan in model.pending(plan))
    return _template().render(
        plan=plan,
        headline=table.headline(plan),
        many=len(plan.set_plans) > SHORT_ON_PAPER,
        header=header,
        operator=plan.operator,
        upgrade=" → ".join(end or "not known" for end in table.upgrade(plan)),
        numbers=json.summary(plan),
        patches=patches,
        rate=PATCHES_PER_SECOND,
        loading=_loading(one for one in plan.set_plans if one.disruption.pods),
        loading_left=_loading(one for one in plan.set_plans if one.remaining.pods),
        pause=words.duration(patches / PATCHES_PER_SECOND),
        refusals=grouped(plan.refusals),
        reasons_of={set_plan.tree.ref: grouped(set_plan.refusals) for set_plan in set_plans if set_plan.refusals},
        next_steps=table.next_steps(plan, skipping),
        states=_STATES,
        warnings=grouped(plan.warnings),
        issues=table.advice_groups(plan.advisories),
        shares=_shares(plan, group_by),
        label=group_by,
        set_plans=set_plans,
        ids={set_plan.tree.ref: f"set-{number}" for number, set_plan in enumerate(set_plans)},
        notes=table.notes(plan),
        unchecked=table.not_checked(plan.not_checked),
        next_command=next_command,
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - only -o html needs it

    environment = Environment(
        loader=PackageLoader("migrator.report", "."),
        autoescape=True,
        finalize=lambda value: words.printable(value) if type(value) is str else value,  # not what is escaped already
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["sentence"] = words.sentence
    environment.filters["readable"] = words.readable
    environment.globals.update(
        change_groups=change_groups,
        count=words.count,
        number=lambda value: f"{value:,}",
        refused=lambda plan: [
            set_plan.tree.ref for set_plan in plan.set_plans if set_plan.state is model.SetState.REFUSED
        ],
        SHOWN=SHOWN,
        SHOWN_SHARES=SHOWN_SHARES,
    )
    return environment.get_template("page.html")


def _loading(set_plans: Iterable[model.SetPlan]) -> str:
    """How long the slowest clique of these sets took to be ready; empty if no pod tells.

    The quickest pod of a clique counts: one that was not ready for a moment, hours after its start, seems slow.
    """
    times = [
        min(seconds)
        for set_plan in set_plans
        for clique in set_plan.tree.pod_cliques
        if (seconds := [pod.loading for pod in clique.pods if pod.loading is not None])
    ]
    return words.duration(max(times)) if times else ""


def _weight(set_plan: model.SetPlan) -> tuple[object, ...]:
    """The order of sets: refused ones first, and in each state those with most GPUs at stake."""
    return list(_STATES).index(set_plan.state), -set_plan.disruption.gpus, -set_plan.disruption.pods, set_plan.tree.ref


def _shares(plan: model.Plan, label: str | None) -> list[tuple[str, list[tuple[str, model.Plan]]]]:
    """The totals by namespace, if there are several, and by label, each with its title."""
    by_namespace = _parts(plan, lambda set_plan: set_plan.tree.ref.namespace)
    found = [("namespace", by_namespace)] if len(by_namespace) > 1 else []
    if label is not None:
        of_label = _parts(plan, lambda set_plan: set_plan.tree.pcs.labels.get(label) or UNLABELLED)
        found.append((f"label {label}", of_label))
    return found


def _parts(plan: model.Plan, name_of: Callable[[model.SetPlan], str]) -> list[tuple[str, model.Plan]]:
    """The plan in parts, one for the sets of each name; most GPUs first."""
    members: dict[str, list[model.SetPlan]] = {}
    for set_plan in plan.set_plans:
        members.setdefault(name_of(set_plan), []).append(set_plan)
    parts = []
    for name, some in members.items():
        disruption = sum((one.disruption for one in some), model.Disruption())
        parts.append((name, replace(plan, set_plans=tuple(some), cluster_disruption=disruption)))
    return sorted(parts, key=lambda part: (-part[1].cluster_disruption.gpus, -part[1].cluster_disruption.pods, part[0]))


def change_groups(set_plan: model.SetPlan) -> Iterator[tuple[str, str, str, Counter[str]]]:
    """The changes of a set that replace the same value by the same value: generation hash first, then the cliques.

    For each group: what it is a hash of, the old value, the new one, and the number of objects of each kind.
    """
    groups: dict[tuple[bool, str, str], list[model.Change]] = {}
    for change in set_plan.changes:
        groups.setdefault((change.clique is not None, change.old, change.new), []).append(change)
    for is_template, old, new in sorted(groups):
        changes = groups[is_template, old, new]
        cliques = ", ".join(dict.fromkeys(change.clique for change in changes if change.clique is not None))
        what = f"pod template of {cliques}" if is_template else "generation hash"
        yield what, old, new, Counter(ref.kind for ref in {change.ref for change in changes})
