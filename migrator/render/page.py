"""The plan as one self-contained HTML file: the blast radius as a picture that people can send to their team.

The page has no script and no font and makes no request: it opens on a phone, prints, and follows the reader's light
or dark setting. Jinja2 escapes every value; the page shows names and hashes, never a value of a pod template.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from migrator.grove.model import Plan, Ref, TreeState
from migrator.hashing import schemes
from migrator.planning.explain import Explanation, as_text, explain
from migrator.planning.lineage import span
from migrator.render import summary as report
from migrator.render.findings import advice_groups, consequences, grouped
from migrator.render.reasons import reasons

_STATES: Final = {
    TreeState.REFUSED: "refused",
    TreeState.MIGRATE: "can be migrated",
    TreeState.SKIPPED: "skipped",
    TreeState.DONE: "done already",
}


def render(plan: Plan, origin: report.Origin | None = None) -> str:
    """The whole document, as text; ``origin`` says what the plan was made from, and when."""
    why = _explained(plan)
    return _template("page.html").render(
        plan=plan,
        headline=report.headline(plan),
        stakes=_stakes(plan),
        tiles=_tiles(plan),
        refusals=grouped(report.refusals_of(plan)),
        next_steps=report.next_steps(plan),
        struck=_struck(plan),
        shown={tree.state for tree in _struck(plan)},
        states=_STATES,
        warnings=grouped(report.warnings_of(plan)),
        hazards=advice_groups(plan.advisories),
        origin=origin,
        consequences=consequences,
        reasons=list(reasons(why.values())),
        trees=report.in_order(plan.trees),
        why=why,
        notes=report.notes(plan),
    )


def render_targets(rows: Sequence[report.TargetRow], origin: report.Origin | None = None) -> str:
    """The page where no target was named: a line for each scheme that a release speaks."""
    hazards = advice_groups(dict.fromkeys(advice for row in rows for advice in row.advisories))
    known = {"span": span, "unread": schemes.unread_releases()}
    return _template("targets.html").render(rows=rows, hazards=hazards, origin=origin, **known)


@cache
def _template(name: str) -> Template:
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
        as_text=as_text, change_groups=report.change_groups, count=report.count, number=lambda value: f"{value:,}"
    )
    return environment.get_template(name)


def _tiles(plan: Plan) -> list[tuple[str, int]]:
    summary = report.summary(plan)
    return [
        ("PodCliqueSets", summary["podCliqueSets"]),
        ("pods in them", summary["pods"]),
        ("stored values to change", summary["changes"]),
        ("refusals", summary["refusals"]),
        ("warnings", summary["warnings"]),
    ]


def _stakes(plan: Plan) -> list[tuple[str, Any]]:
    """The whole story in two bars: pods recreated without the migration, and with it."""
    refused = bool(report.refusals_of(plan))
    return [
        ("Without the migration", plan.cluster_blast),
        (
            "With run --skip-refused, which leaves out what is refused" if refused else "With it",
            report.left_behind(plan),
        ),
    ]


def _struck(plan: Plan) -> list[Any]:
    """The sets that the upgrade would roll, most GPUs first."""
    return sorted(
        (tree for tree in plan.trees if tree.blast.pods),
        key=lambda tree: (-tree.blast.gpus, -tree.blast.pods, tree.tree.ref),
    )


def _explained(plan: Plan) -> dict[Ref, Explanation]:
    """Why the hashes of each set differ, where it is known under which scheme it is stored."""
    return {
        tree.tree.ref: explain({"spec": tree.tree.pcs.spec}, schemes.by_name(tree.source), schemes.by_name(tree.target))
        for tree in plan.trees
        if tree.changes and tree.source is not None
    }
