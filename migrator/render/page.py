"""The plan as one self-contained HTML file, with the blast radius as a picture, for people to send to their team.

The page has no script and no font and makes no request: it opens on a phone, prints, and follows the reader's light
or dark setting. Jinja2 escapes every value; the page shows names and hashes, never a value of a pod template.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final

from migrator.grove.model import BlastRadius, Plan, Ref, TreePlan, TreeState
from migrator.hashing import schemes
from migrator.planning.explain import Explanation, as_text, explain
from migrator.planning.lineage import span
from migrator.render import figures
from migrator.render import summary as report
from migrator.render.changes import change_groups
from migrator.render.findings import advice_groups, consequences, grouped
from migrator.render.reasons import reasons
from migrator.render.text import sheet

_STATES: Final = {
    TreeState.REFUSED: "refused",
    TreeState.MIGRATE: "can be migrated",
    TreeState.SKIPPED: "skipped",
    TreeState.DONE: "done already",
}


#: How many sets, and how many namespaces or values of a label, are shown before the rest is folded away.
SHOWN, SHOWN_SHARES = 50, 10

_ORDER: Final = list(_STATES)


def render(
    plan: Plan,
    origin: report.Origin | None = None,
    *,
    reload_seconds: float = figures.RELOAD_SECONDS,
    group_by: str | None = None,
) -> str:
    """The whole document, as text.

    ``reload_seconds`` is how long a recreated pod is assumed to be away. ``group_by`` is a label of the PodCliqueSets
    that gets totals of its own.
    """
    why = _explained(plan)
    shares = [("namespace", figures.shares(plan))]
    if group_by is not None:
        shares.append((f"label {group_by}", figures.shares(plan, group_by)))
    return _rendered(
        "page.html",
        plan=plan,
        headline=report.headline(plan),
        many=len(plan.trees) > SHOWN,
        facts=_facts(plan.operator, _upgrade(plan), origin),
        stakes=_stakes(plan),
        costs=_costs(plan, reload_seconds),
        reload_time=figures.spoken(reload_seconds),
        patches=figures.patches(plan),
        rate=figures.PATCHES_PER_SECOND,
        tiles=_tiles(plan),
        refusals=grouped(report.refusals_of(plan)),
        next_steps=report.next_steps(plan),
        states=_STATES,
        warnings=grouped(report.shown_warnings(plan)),
        hazards=advice_groups(plan.advisories),
        shares=[(title, rows) for title, rows in shares if len(rows) > 1 or title != "namespace"],
        consequences=consequences,
        reasons=list(reasons(why.values())),
        trees=_by_weight(plan),
        why=why,
        notes=report.notes(plan),
        sheet=_sheet(plan),
    )


def render_targets(
    rows: Sequence[report.TargetRow],
    origin: report.Origin | None = None,
    *,
    reload_seconds: float = figures.RELOAD_SECONDS,
) -> str:
    """The page without a named target: a line for each scheme that a release speaks."""
    some = any(row.sets for row in rows)
    return _rendered(
        "targets.html",
        rows=rows,
        some=some,
        span=span,
        headline="what an upgrade of the Grove operator recreates" if some else "nothing to do: no PodCliqueSets",
        facts=_facts(next((row.operator for row in rows), None), "to each release that could come next", origin),
        hazards=advice_groups(dict.fromkeys(advice for row in rows for advice in row.advisories)),
        hours=lambda blast: _hours(blast, reload_seconds),
        reload_time=figures.spoken(reload_seconds),
        many=False,
        unread=schemes.unread_releases(),
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
        as_text=as_text,
        change_groups=change_groups,
        count=report.count,
        number=lambda value: f"{value:,}",
        SHOWN=SHOWN,
        SHOWN_SHARES=SHOWN_SHARES,
    )
    return environment.get_template(name).render(values)


def _facts(operator: str | None, upgrade: str, origin: report.Origin | None) -> list[tuple[str, str]]:
    """The facts at the top of a page: cluster, operator, upgrade, time and version."""
    facts = [
        ("Cluster", (origin.cluster if origin else None) or "not named"),
        ("Operator now", operator or "not seen"),
        ("Upgrade", upgrade),
    ]
    if origin is not None:
        facts.append(("Made", origin.time.replace("T", " ").replace("+00:00", " UTC")))
        facts.append(("By", f"grove-migrator {origin.version}"))
    return facts


def _upgrade(plan: Plan) -> str:
    """Source and target of the upgrade; for the source ``auto`` the schemes that were found."""
    found = sorted({tree.source for tree in plan.trees if tree.source})
    targets = sorted({tree.target for tree in plan.trees})
    source = plan.requested_source if plan.requested_source != "auto" else ", ".join(found) or "not known"
    target = plan.requested_target
    if targets and targets != [target]:
        target = f"{target} ({', '.join(targets)})"
    return f"{source} → {target}"


def _tiles(plan: Plan) -> list[tuple[str, int, str]]:
    """The plan in numbers: a title, a number and a remark each. Sets are refused; the remark counts their findings."""
    summary = report.summary(plan)
    refused = sum(1 for tree in plan.trees if tree.state is TreeState.REFUSED)
    warnings = report.shown_warnings(plan)
    return [
        ("PodCliqueSets", summary["podCliqueSets"], ""),
        ("pods in them", summary["pods"], ""),
        ("stored hashes to change", summary["changes"], ""),
        ("sets refused", refused, _remark(summary["refusals"])),
        ("kinds of warning", len(grouped(warnings)), _remark(len(warnings))),
    ]


def _remark(findings: int) -> str:
    return report.count(findings, "finding") if findings else ""


def _costs(plan: Plan, reload_seconds: float) -> list[tuple[str, str, str]]:
    """The costs of the upgrade without and with the migration."""
    without, rest = plan.cluster_blast, report.left_behind(plan)
    patches = figures.patches(plan)
    rows = [
        ("pods recreated", f"{without.pods:,}", f"{rest.pods:,}"),
        ("running pods among them", f"{without.running:,}", f"{rest.running:,}"),
        ("GPUs of these pods", f"{without.gpus:,}", f"{rest.gpus:,}"),
        ("GPU-hours lost *", _hours(without, reload_seconds), _hours(rest, reload_seconds)),
    ]
    if patches:
        pause = figures.spoken(patches / figures.PATCHES_PER_SECOND)
        rows.append(("operator away for the writing **", "-", f"about {pause}"))
    return rows if without.pods or patches else []


def _hours(blast: BlastRadius, reload_seconds: float) -> str:
    return f"{figures.gpu_hours(blast, reload_seconds):,.1f}"


def _sheet(plan: Plan) -> str:
    """The sets as CSV, for a link that holds them."""
    return b64encode(sheet(report.CSV_COLUMNS, report.csv_rows(plan)).encode("utf-8", "surrogatepass")).decode()


def _stakes(plan: Plan) -> list[tuple[str, Any]]:
    """Two bars: pods recreated without the migration, and with it."""
    refused = bool(report.refusals_of(plan))
    return [
        ("Without the migration", plan.cluster_blast),
        (
            "With run --skip-refused, which leaves out refused sets" if refused else "With it",
            report.left_behind(plan),
        ),
    ]


def _by_weight(plan: Plan) -> list[TreePlan]:
    """Refused sets first, and in each state those with most GPUs at stake."""
    return sorted(
        plan.trees,
        key=lambda tree: (_ORDER.index(tree.state), -tree.blast.gpus, -tree.blast.pods, tree.tree.ref),
    )


def _explained(plan: Plan) -> dict[Ref, Explanation]:
    """Why the hashes of each set differ, if its source is known."""
    return {
        tree.tree.ref: explain({"spec": tree.tree.pcs.spec}, schemes.by_name(tree.source), schemes.by_name(tree.target))
        for tree in plan.trees
        if tree.changes and tree.source is not None
    }
