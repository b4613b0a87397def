"""A plan for people: a tree on a terminal, lines that stand on their own in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from migrator.grove.model import Ref
from migrator.hashing import schemes
from migrator.planning.lineage import build_range
from migrator.planning.model import Advice, Plan, Severity, TreePlan, TreeState
from migrator.render.figures import shares
from migrator.render.findings import (
    NAMED,
    ChangeGroup,
    FindingGroup,
    advice_groups,
    change_groups,
    consequences,
    grouped,
    line,
    names,
)
from migrator.render.summary import (
    CSV_COLUMNS,
    TargetRow,
    count,
    headline,
    in_order,
    next_steps,
    notes,
    refusals_of,
    shown_warnings,
)
from migrator.render.text import columns, printable

#: The columns of a table by their names in ``plan -o csv``, and the titles that are not these names in capitals.
_SHOWN: Final = (
    *("namespace", "name", "state", "from", "to", "changes"),
    *("pods", "runningPods", "gpus", "refusals", "warnings"),
)
_TITLES: Final = {"runningPods": "RUNNING", "refusals": "REFUSED BY"}

_KINDS: Final = {"PodCliqueSet": "set", "PodCliqueScalingGroup": "scaling group", "Pod": "pod"}

#: The styles of states, in the order in which sets are shown.
_STYLES: Final = {
    TreeState.DONE: "green",
    TreeState.SKIPPED: "dim",
    TreeState.MIGRATE: "bold blue",
    TreeState.REFUSED: "bold red",
}
_REFUSAL: Final = "red"
_WARNING: Final = "yellow"


def plan_text(plan: Plan, *, wide: bool = False) -> str:
    """The plan for a pipe or a log: a line for each set and for each guard that found something, whatever the width.

    ``wide`` adds the running pods and the codes that warn.
    """
    return _paragraphs(
        [headline(plan)],
        _table(plan, wide=wide).splitlines() if plan.trees else (),
        (f"refused: {line(group)}" for group in grouped(refusals_of(plan))),
        (f"warning: {line(group)}" for group in grouped(shown_warnings(plan))),
        _advice_lines(plan.advisories),
        (*(f"next: {step}" for step in next_steps(plan)), *(f"note: {note}" for note in notes(plan))),
    )


def print_plan(plan: Plan, stream: TextIO, *, colour: bool) -> None:
    """Show the plan on a terminal: a tree per set with what changes, what refuses and why; the headline is last."""
    console = Console(file=stream, color_system="auto" if colour else None, highlight=False)
    arrow = "→" if console.encoding.startswith("utf") else "->"
    trees = sorted(in_order(plan.trees), key=_needing)
    refused = [tree for tree in trees if tree.state is TreeState.REFUSED]
    for tree in trees[: len(trees) - len(refused)]:
        if tree.state is not TreeState.DONE or tree.findings:
            console.print(_branch(tree, arrow))
    for group in grouped(shown_warnings(plan)):
        console.print(_finding(group, arrow))
    for tree in refused:
        console.print(_branch(tree, arrow))
    for group in grouped(finding for finding in plan.findings if finding.severity is Severity.REFUSAL):
        console.print(_finding(group, arrow))
    for code, title, advice, refs in advice_groups(plan.advisories):
        console.print(_advice(code, title, advice, refs, arrow))
    for step in next_steps(plan):
        console.print(Text(f"{arrow} {step}", style="bold"))
    for note in notes(plan):
        console.print(Text(printable(note), style="dim"))
    if plan.trees:
        console.print("", _totals(plan), sep="\n")
    console.print(Text(headline(plan), style="bold"))


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
    unread = build_range(schemes.unread_releases())
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


def _table(plan: Plan, *, wide: bool) -> str:
    def cell(name: str, text: str) -> str:
        if wide:
            return text or "-"
        return text.replace(" ", ",") or ("-" if name == "from" else "")

    left_out = set() if wide else {"runningPods", "warnings"}
    if not wide and not any(tree.refusals for tree in plan.trees):
        left_out.add("refusals")
    shown = [name for name in _SHOWN if name not in left_out]
    rows = ([cell(name, str(CSV_COLUMNS[name](tree))) for name in shown] for tree in in_order(plan.trees))
    return columns([_TITLES.get(name, name.upper()) for name in shown], rows)


def _branch(plan: TreePlan, arrow: str) -> Tree:
    title = Text.assemble(
        (plan.state.value, _STYLES[plan.state]),
        f" {printable(plan.tree.ref.namespace)}/",
        (printable(plan.tree.ref.name), "bold"),
        (f"  {plan.source or 'unknown'} {arrow} {plan.target}", "dim"),
    )
    if plan.blast.pods:
        title.append(f"  {count(plan.blast.pods, 'pod')}, {count(plan.blast.gpus, 'GPU')} at stake", style="magenta")
    branch = Tree(title, guide_style="dim")
    for group in grouped(plan.refusals):
        branch.add(_finding(group, arrow, plan.tree.ref.namespace))
    for group in grouped(plan.warnings):  # in full below, once for all sets
        branch.add(Text(f"{group.code} {group.title}{_times(len(group.findings))}", style=_WARNING))
    for changes in change_groups(plan):
        branch.add(_change(changes, arrow))
    return branch


def _finding(group: FindingGroup, arrow: str, namespace: str = "") -> Tree:
    style = _REFUSAL if group.refuses else _WARNING
    title = Text(f"{group.code} ", style=f"bold {style}")
    node = Tree(title, guide_style="dim")
    title.append(f"{group.title}{_times(len(group.findings))}", style=style)
    for statement in group.statements[:NAMED]:
        where = f"{printable(names(statement.refs, namespace))}: " if statement.refs else ""
        node.add(Text(f"{where}{printable(statement.text)}"))
    rest = group.statements[NAMED:]
    if rest:
        refs = tuple(ref for statement in rest for ref in statement.refs)
        node.add(Text(f"and {len(rest):,} more: {printable(names(refs, namespace))}", style="dim"))
    if group.consequences:
        node.add(Text(f"it also explains {consequences(group)}", style="dim"))
    for remedy in group.remedies[:NAMED]:
        node.add(Text(f"{arrow} {printable(remedy)}", style="bold" if group.refuses else ""))
    return node


def _advice(code: str, title: str, advice: Advice, refs: tuple[Ref, ...], arrow: str) -> Tree:
    heading = ((f"{code} ", "bold magenta"), (f"{title}{_times(len(refs))}", "magenta"))
    node = Tree(Text.assemble(*heading), guide_style="dim")
    what = advice.message.removeprefix(str(advice.ref)).lstrip(": ") if advice.ref else advice.message
    node.add(Text(f"{printable(names(refs))}: {printable(what)}" if refs else printable(what)))
    node.add(Text(f"{advice.source}; {advice.confidence}", style="dim"))
    node.add(Text(f"{arrow} {printable(advice.remedy)}"))
    return node


def _change(changes: ChangeGroup, arrow: str) -> Text:
    where = ", ".join(count(number, _KINDS.get(kind, kind)) for kind, number in sorted(changes.kinds.items()))
    values = f"{changes.old} {arrow} {changes.new}"
    return Text.assemble(f"{printable(changes.what)}: ", (values, "cyan"), (f"  in {where}", "dim"))


def _totals(plan: Plan) -> Table:
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "right", "right", "left"):
        table.add_column(justify=justify)
    for share in shares(sorted(plan.trees, key=_needing), lambda tree: tree.state.value):
        numbers = count(share.sets, "set"), count(share.without.pods, "pod"), count(share.without.gpus, "GPU")
        codes = Text(" ".join(share.codes), style=_REFUSAL)
        table.add_row(Text(share.name, style=_STYLES[TreeState(share.name)]), *numbers, codes)
    return table


def _times(number: int) -> str:
    return f" ({number:,}x)" if number > 1 else ""


def _needing(tree: TreePlan) -> int:
    """The order on a terminal, which shows the end: sets that need somebody come last."""
    return list(_STYLES).index(tree.state)
