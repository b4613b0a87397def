"""What a plan says, for people: a tree on a terminal, lines that stand on their own in a pipe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TextIO

from migrator.model import Finding, Plan, TreePlan, TreeState
from migrator.report import change_groups, count, headline, notes, refusals_of, warnings_of
from migrator.text import columns, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree

_KINDS: Final = {
    "PodCliqueSet": "set",
    "PodCliqueScalingGroup": "scaling group",
    "PodClique": "PodClique",
    "PodGangMap": "PodGangMap",
    "PodGang": "PodGang",
    "Pod": "pod",
}
_ORDER: Final = (TreeState.REFUSED, TreeState.MIGRATE, TreeState.SKIPPED, TreeState.DONE)
_STYLES: Final = {
    TreeState.REFUSED: "bold red",
    TreeState.MIGRATE: "bold yellow",
    TreeState.SKIPPED: "dim",
    TreeState.DONE: "green",
}


def plan_text(plan: Plan) -> str:
    """The plan for a pipe, a file or a log: one line per set and finding, whatever the width."""
    parts = [headline(plan) + "\n"]
    trees = sorted(plan.trees, key=_place)
    if trees:
        rows = [
            (
                tree.tree.ref.namespace,
                tree.tree.ref.name,
                tree.state.value,
                tree.source or "-",
                tree.target,
                str(len(tree.changes)),
                str(tree.blast.pods),
                str(tree.blast.gpus),
            )
            for tree in trees
        ]
        parts.append(columns(("NAMESPACE", "NAME", "STATE", "FROM", "TO", "CHANGES", "PODS", "GPUS"), rows))
    for title, findings in (("refused", refusals_of(plan)), ("warning", warnings_of(plan))):
        if findings:
            parts.append("".join(f"{title}: {printable(_sentence(finding))}\n" for finding in findings))
    if remarks := notes(plan):
        parts.append("".join(f"note: {remark}\n" for remark in remarks))
    return "\n".join(parts)


def print_plan(plan: Plan, stream: TextIO, *, colour: bool) -> None:
    """Show the plan on a terminal: a tree per set with what changes, what refuses and why."""
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.text import Text  # noqa: PLC0415

    console = Console(file=stream, no_color=not colour, highlight=False, soft_wrap=False)
    for tree in sorted(plan.trees, key=lambda tree: (_ORDER.index(tree.state), _place(tree))):
        if tree.state is not TreeState.DONE or tree.findings:
            console.print(_branch(tree))
    done = [tree for tree in plan.trees if tree.state is TreeState.DONE and not tree.findings]
    if done:
        console.print(Text(f"{count(len(done), 'set')} already done", style=_STYLES[TreeState.DONE]))
    _print_findings(console, plan.findings)
    for remark in notes(plan):
        console.print(Text(remark, style="dim"))
    console.print(Text(headline(plan), style="bold"))


def _branch(plan: TreePlan) -> Tree:
    from rich.text import Text  # noqa: PLC0415 - only a terminal needs it
    from rich.tree import Tree  # noqa: PLC0415

    title = Text()
    title.append(plan.state.value, style=_STYLES[plan.state])
    title.append(f" {printable(plan.tree.ref.namespace)}/")
    title.append(printable(plan.tree.ref.name), style="bold")
    title.append(f"  {plan.source or 'unknown'} → {plan.target}")
    if plan.blast.pods:
        title.append(f"  {count(plan.blast.pods, 'pod')}, {count(plan.blast.gpus, 'GPU')} at stake", style="magenta")
    branch = Tree(title, guide_style="dim")
    for finding in plan.refusals:
        branch.add(Text(printable(_sentence(finding)), style="red"))
    for finding in plan.warnings:
        branch.add(Text(printable(_sentence(finding)), style="yellow"))
    for group in change_groups(plan):
        where = ", ".join(count(number, _KINDS.get(kind, kind)) for kind, number in sorted(group.kinds.items()))
        line = Text(f"{printable(group.what)}: ")
        line.append(f"{group.old} → {group.new}", style="cyan")
        line.append(f"  in {where}", style="dim")
        branch.add(line)
    return branch


def _print_findings(console: Console, findings: Iterable[Finding]) -> None:
    from rich.text import Text  # noqa: PLC0415 - only a terminal needs it

    for finding in findings:
        style = "red" if finding.severity.value == "refusal" else "yellow"
        console.print(Text(printable(_sentence(finding)), style=style))


def _sentence(finding: Finding) -> str:
    """Code, object, field and message, without saying the object twice."""
    where = str(finding.ref) if finding.ref else ""
    place = " ".join(part for part in ("" if where in finding.message else where, finding.field or "") if part)
    return f"{finding.code} {place}: {finding.message}" if place else f"{finding.code} {finding.message}"


def _place(tree: TreePlan) -> tuple[str, str]:
    return (tree.tree.ref.namespace, tree.tree.ref.name)
