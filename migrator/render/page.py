"""The plan as one self-contained HTML file, with the disruption as a picture, for people to send to their team.

The page has no script and no font and makes no request: it opens on a phone, prints, and follows the reader's light
or dark setting. Jinja2 escapes every value; the page shows names and hashes, never a value of a pod template.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from migrator.hashing import schemes
from migrator.planning.model import Plan, TreePlan, TreeState
from migrator.planning.patches import PATCHES_PER_SECOND
from migrator.planning.releases import build_range
from migrator.render import figures
from migrator.render import summary as report
from migrator.render.findings import advice_groups, change_groups, grouped

_STATES: Final = {
    TreeState.REFUSED: "refused",
    TreeState.MIGRATE: "can be migrated",
    TreeState.SKIPPED: "skipped",
    TreeState.DONE: "done already",
}

#: How many sets, and how many namespaces or values of a label, are shown before the rest is folded away.
SHOWN, SHOWN_SHARES = 50, 10


def render(plan: Plan, origin: report.Origin, *, group_by: str | None = None) -> str:
    """The whole document, as text.

    ``group_by`` is a label of the PodCliqueSets that gets totals of its own.
    """
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
        refused=report.number(plan, TreeState.REFUSED),
        rest=figures.recreated_with_migration(plan),
        patches=patches,
        rate=PATCHES_PER_SECOND,
        pause=figures.duration_text(patches / PATCHES_PER_SECOND),
        refusals=grouped(report.refusals_of(plan)),
        next_steps=report.next_steps(plan),
        states=_STATES,
        warnings=grouped(report.shown_warnings(plan)),
        hazards=advice_groups(plan.advisories),
        shares=_shares(plan, group_by),
        trees=sorted(plan.trees, key=_weight),
        notes=report.notes(plan),
    )


def render_targets(rows: Sequence[report.TargetRow], origin: report.Origin) -> str:
    """The page without a named target: a line for each scheme that a release speaks."""
    some = any(row.sets for row in rows)
    return _rendered(
        "targets.html",
        rows=rows,
        some=some,
        build_range=build_range,
        headline="what an upgrade of the Grove operator recreates" if some else "nothing to do: no PodCliqueSets",
        origin=origin,
        operator=next((row.operator for row in rows), None),
        upgrade="to each release that could come next",
        hazards=advice_groups(dict.fromkeys(advice for row in rows for advice in row.advisories)),
        many=False,
        unread=tuple(schemes.unread_releases()),
        notes=[*([report.DRA_NOTE] if some else []), *dict.fromkeys(remark for row in rows for remark in row.remarks)],
    )


def _rendered(name: str, **values: Any) -> str:  # noqa: ANN401 - what a template takes
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - one form of six needs it

    environment = Environment(
        loader=PackageLoader("migrator.render", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["capital"] = lambda text: text[:1].upper() + text[1:]
    environment.globals.update(
        change_groups=change_groups,
        count=report.count,
        hours=figures.gpu_hours,
        reload_time=figures.duration_text(figures.RELOAD_SECONDS),
        number=lambda value: f"{value:,}",
        SHOWN=SHOWN,
        SHOWN_SHARES=SHOWN_SHARES,
    )
    return environment.get_template(name).render(values)


def _upgrade(plan: Plan) -> str:
    """Source and target of the upgrade; for the source ``auto`` the schemes that were found."""
    found = sorted({tree.source for tree in plan.trees if tree.source})
    targets = sorted({tree.target for tree in plan.trees})
    source = plan.requested_source if plan.requested_source != "auto" else ", ".join(found) or "not known"
    target = plan.requested_target
    if targets and targets != [target]:
        target = f"{target} ({', '.join(targets)})"
    return f"{source} → {target}"


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


def _weight(tree: TreePlan) -> tuple[object, ...]:
    """The order of sets: refused ones first, and in each state those with most GPUs at stake."""
    return list(_STATES).index(tree.state), -tree.disruption.gpus, -tree.disruption.pods, tree.tree.ref
