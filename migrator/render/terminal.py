"""A plan for people: lines that stand on their own, on a terminal and in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from migrator.hashing import schemes
from migrator.planning.model import Advice, Plan
from migrator.planning.releases import build_range
from migrator.render.findings import advice_groups, grouped, line, names
from migrator.render.summary import (
    TargetRow,
    codes,
    headline,
    in_order,
    next_steps,
    notes,
    refusals_of,
    shown_warnings,
)
from migrator.render.text import columns, printable

_HEADER: Final = ("NAMESPACE", "NAME", "STATE", "FROM", "TO", "CHANGES", "PODS", "GPUS")


def plan_text(plan: Plan) -> str:
    """The plan: a line for each set and for each guard that found something, whatever the width."""
    return _paragraphs(
        [headline(plan)],
        _table(plan).splitlines() if plan.trees else (),
        (f"refused: {line(group)}" for group in grouped(refusals_of(plan))),
        (f"warning: {line(group)}" for group in grouped(shown_warnings(plan))),
        _advice_lines(plan.advisories),
        (*(f"next: {step}" for step in next_steps(plan)), *(f"note: {note}" for note in notes(plan))),
    )


def targets_text(rows: Sequence[TargetRow]) -> str:
    """One line for each possible target of an upgrade, with hazards, remarks and the next step."""
    if not any(row.sets for row in rows):
        return "nothing to do: no PodCliqueSets\n"
    table = [
        (
            f"{row.name}{' *' if row.running else ''}",
            build_range(row.releases),
            f"{row.without.pods}",
            f"{row.without.running}",
            f"{row.without.gpus}",
            f"{row.with_migration.pods}",
            f"{row.refused}" + (f" ({','.join(row.codes)})" if row.codes else ""),
            ",".join(sorted({advice.id for advice in row.advisories})) or "-",
        )
        for row in rows
    ]
    header = ("TARGET", "RELEASES", "PODS", "RUNNING", "GPUS", "WITH MIGRATION", "REFUSED", "HAZARDS")
    remarks = dict.fromkeys(remark for row in rows for remark in row.remarks)
    unread = build_range(tuple(schemes.unread_releases()))
    return _paragraphs(
        ["what an upgrade recreates, by the scheme of the next operator"],
        columns(header, table).splitlines(),
        ["* the operator that runs now speaks it"] if any(row.running for row in rows) else (),
        _advice_lines(dict.fromkeys(advice for row in rows for advice in row.advisories)),
        (f"note: {remark}" for remark in remarks),
        ["next: plan --to RELEASE shows set by set what a migration changes and what blocks it"],
        [f"note: the hashes of {unread} are not known; plan --to one of them shows its hazards"],
    )


def _paragraphs(*paragraphs: Iterable[str]) -> str:
    texts = ("".join(f"{printable(one)}\n" for one in lines) for lines in paragraphs)
    return "\n".join(filter(None, texts))


def _advice_lines(advisories: Iterable[Advice]) -> Iterator[str]:
    for code, _, advice, refs in advice_groups(advisories):
        more = f" ({len(refs) - 1:,} more like it: {names(refs[1:])})" if len(refs) > 1 else ""
        yield f"hazard: {code} {advice.message}{more}; {advice.remedy} [{advice.source}; {advice.confidence}]"


def _table(plan: Plan) -> str:
    refused = any(tree.refusals for tree in plan.trees)
    rows = [
        (
            *(tree.tree.ref.namespace, tree.tree.ref.name, tree.state.value, tree.source or "-", tree.target),
            *(f"{len(tree.changes)}", f"{tree.disruption.pods}", f"{tree.disruption.gpus}"),
            *((",".join(codes(tree.refusals)),) if refused else ()),
        )
        for tree in in_order(plan.trees)
    ]
    return columns((*_HEADER, *(("REFUSED BY",) if refused else ())), rows)
