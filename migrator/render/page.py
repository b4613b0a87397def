"""The plan as one self-contained HTML file, with the disruption as a picture, for people to send to their team.

The page has no script and no font and makes no request: it opens on a phone, prints, and follows the reader's light
or dark setting. Jinja2 escapes every value; the page shows names and hashes, never a value of a pod template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from migrator.hashing import schemes
from migrator.planning.model import Plan, SetPlan, SetState
from migrator.planning.patches import PATCHES_PER_SECOND
from migrator.planning.planner import Outlook
from migrator.planning.releases import build_range, speakers
from migrator.render import figures
from migrator.render import summary as report
from migrator.render.findings import advice_groups, change_groups, grouped
from migrator.render.text import count, readable, sentence, visible

_STATES: Final = {
    SetState.REFUSED: "refused",
    SetState.MIGRATE: "can be migrated",
    SetState.SKIPPED: "skipped",
    SetState.DONE: "done already",
}

#: How many sets, and how many namespaces or values of a label, are shown before the rest is folded away.
SHOWN, SHOWN_SHARES = 50, 10


def render(
    plan: Plan,
    origin: report.Origin,
    *,
    group_by: str | None = None,
    next_command: str = "",
    guards: Mapping[str, str] | None = None,
) -> str:
    """The whole document, as text.

    ``group_by`` is a label of the PodCliqueSets that gets totals of its own. ``guards`` explains codes; those that
    refuse in this plan are printed.
    """
    refusals = grouped(report.refusals_of(plan))
    trees = sorted(plan.trees, key=_weight)
    patches = figures.patches(plan)
    return _rendered(
        "page.html",
        plan=plan,
        headline=report.headline(plan),
        many=len(plan.trees) > SHOWN,
        origin=origin,
        operator=plan.operator,
        upgrade=_upgrade(plan),
        numbers=report.summary(plan),
        refused=report.number(plan, SetState.REFUSED),
        rest=figures.recreated_with_migration(plan),
        patches=patches,
        rate=PATCHES_PER_SECOND,
        pause=figures.duration_text(patches / PATCHES_PER_SECOND),
        refusals=refusals,
        reasons_of={tree.tree.ref: grouped(tree.refusals) for tree in trees if tree.refusals},
        guards={group.code: (guards or {}).get(group.code, "") for group in refusals},
        next_steps=report.next_steps(plan),
        states=_STATES,
        warnings=grouped(report.shown_warnings(plan)),
        hazards=advice_groups(plan.advisories),
        shares=_shares(plan, group_by),
        label=group_by,
        trees=trees,
        ids={tree.tree.ref: f"set-{number}" for number, tree in enumerate(trees)},
        notes=report.notes(plan),
        next_command=next_command,
    )


def render_outlook(
    outlook: Outlook, rows: Sequence[report.TargetRow], origin: report.Origin, *, next_command: str = ""
) -> str:
    """The page without a named target: a line for each newer release."""
    newer = [row for row in rows if not row.is_older]
    headline = "What an upgrade of the Grove operator recreates"
    return _rendered(
        "targets.html",
        rows=newer,
        outlook=outlook,
        some=bool(outlook.sets),
        headline=headline if outlook.sets else "Nothing to do: there are no PodCliqueSets.",
        origin=origin,
        operator=outlook.operator,
        upgrade="to each newer release",
        refusals=grouped(report.common_refusals(newer)),
        hazards=advice_groups(dict.fromkeys(advice for row in newer for advice in row.advisories)),
        many=False,
        next_command=next_command,
        next_steps=[],
        notes=[report.DRA_NOTE] if outlook.sets else [],
    )


def _rendered(name: str, **values: Any) -> str:  # noqa: ANN401 - what a template takes
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - one form of six needs it

    environment = Environment(
        loader=PackageLoader("migrator.render", "."),
        autoescape=True,
        finalize=lambda value: visible(value) if type(value) is str else value,  # not what is escaped already
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["sentence"] = sentence
    environment.filters["readable"] = readable
    environment.globals.update(
        change_groups=change_groups,
        count=count,
        dynamo_of=report.dynamo_of,
        hours=figures.gpu_hours,
        reload_time=figures.duration_text(figures.RELOAD_SECONDS),
        number=lambda value: f"{value:,}",
        SHOWN=SHOWN,
        SHOWN_SHARES=SHOWN_SHARES,
    )
    return environment.get_template(name).render(values)


def _upgrade(plan: Plan) -> str:
    """The releases of both ends; where the source was not named, those that use the schemes that were found."""
    if plan.requested_source == "auto":
        used = {schemes.by_name(tree.source) for tree in plan.trees if tree.source}
        found = [build_range(speakers(scheme)) for scheme in schemes.all_schemes() if scheme in used]
        source = f"Grove {', '.join(found)}" if found else "not known"
    else:
        source = plan.requested_source
    return f"{source} → {plan.requested_target}"


def _shares(plan: Plan, label: str | None) -> list[tuple[str, list[figures.Share]]]:
    """The totals by namespace, if there are several, and by label, each with its title; most GPUs first."""
    by_namespace = figures.shares(plan.trees, lambda tree: tree.tree.ref.namespace)
    found = [("namespace", by_namespace)] if len(by_namespace) > 1 else []
    if label is not None:
        of_label = figures.shares(plan.trees, lambda tree: tree.tree.pcs.labels.get(label) or figures.UNLABELLED)
        found.append((f"label {label}", of_label))
    for _, shares in found:
        shares.sort(key=lambda share: (-share.without.gpus, -share.without.pods, share.name))
    return found


def _weight(tree: SetPlan) -> tuple[object, ...]:
    """The order of sets: refused ones first, and in each state those with most GPUs at stake."""
    return list(_STATES).index(tree.state), -tree.disruption.gpus, -tree.disruption.pods, tree.tree.ref
