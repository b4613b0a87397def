"""A plan for people, in 80 columns: the same on a terminal and in a pipe.

Findings are grouped, with counts, a few names and the remedies: a guard reports one sentence and a remedy for each
object, and nobody reads four hundred such sentences about four hundred pods. The JSON of a plan has them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from migrator.grove.objects import Ref
from migrator.planning.guards.base import CATALOGUE
from migrator.planning.known_issues import ISSUE_TITLES
from migrator.planning.model import Advice, Finding, NotChecked, Plan, SetPlan, SetState, Severity
from migrator.planning.planner import Outlook
from migrator.releases.table import build_range
from migrator.report import summary
from migrator.words import GAP, WIDTH, columns, command_row, count, printable, readable, row, rows, sentence, wrapped

#: How many objects, or different findings of one guard, are named.
NAMED: Final = 3

_NUMBERS: Final = ("CHANGES", "PODS", "GPUS", "PODS WITH MIGRATION")


def plan_text(plan: Plan, *, next_command: str = "") -> str:
    """The plan: its headline, a row for each set, what refuses or warns, and the next command if it is known."""
    return _paragraphs(
        wrapped(summary.headline(plan)),
        _sets(plan),
        "".join(finding_rows("refused", summary.refusals_of(plan))),
        "".join(finding_rows("warning", summary.warnings_of(plan))),
        "".join(_issue_rows(plan.advisories)),
        "".join(row("note", note) for note in summary.notes(plan)) + _not_checked(plan.not_checked),
        rows("next", summary.next_steps(plan)) or (command_row("next", next_command) if next_command else ""),
    )


def outlook_text(outlook: Outlook, rows: Sequence[summary.TargetRow], *, next_command: str) -> str:
    """The first look: the cluster as it is, and what each newer release would recreate."""
    if not outlook.sets:
        return _paragraphs("".join(_facts(outlook)), wrapped(summary.NOTHING_SELECTED))
    plans = summary.newer_plans(rows)
    blocked = "".join(_brief_rows("blocked", summary.common_refusals(plans)))
    some = any(summary.number(plan, SetState.REFUSED) for plan in plans)
    return _paragraphs(
        "".join(_facts(outlook)),
        blocked
        or row("blocked", "Some releases are blocked: see `plan --to RELEASE`." if some else "No set blocks a run."),
        _releases(rows),
        "".join(_issue_rows(dict.fromkeys(advice for plan in plans for advice in plan.advisories))),
        _not_checked(dict.fromkeys(unchecked for plan in plans for unchecked in plan.not_checked)),
        command_row("next", next_command),
    )


def finding_rows(label: str, findings: Iterable[Finding]) -> Iterator[str]:
    """The findings, grouped by code: what it is, a few objects, and what to do."""
    for group in grouped(findings):
        times = f" ({count(len(group.findings), 'finding')})" if len(group.findings) > 1 else ""
        yield row(label, f"{group.code} {sentence(group.title)}{times}", indent=2)
        yield from (row("", f"  {text}", indent=4) for text in _texts(group))
        yield from (row("", f"  -> {sentence(remedy)}", indent=5) for remedy in group.remedies[:NAMED])


def _brief_rows(label: str, findings: Iterable[Finding]) -> Iterator[str]:
    """A row for each code: what it is, and a few objects."""
    for group in grouped(findings):
        refs = tuple(dict.fromkeys(finding.ref for finding in group.findings if finding.ref is not None))
        where = f": {names(refs)}" if refs else ""
        yield row(label, f"{group.code} {group.title}{where}.", indent=2)


def _texts(group: FindingGroup) -> Iterator[str]:
    for statement in group.statements[:NAMED]:
        text = readable(statement.text)
        yield f"{names(statement.refs)}: {text}" if statement.refs else sentence(text)
    rest = group.statements[NAMED:]
    if rest:
        refs = tuple(ref for statement in rest for ref in statement.refs)
        yield f"And {len(rest):,} more: {names(refs)}" if refs else f"And {len(rest):,} more."


def _not_checked(unchecked: Iterable[NotChecked]) -> str:
    """The guards that could not be judged; those with one reason share a row."""
    reasons: dict[str, list[str]] = {}
    for one in unchecked:
        reasons.setdefault(one.reason, []).append(f"{one.code} {one.what}")
    return rows("unchecked", (f"{'; '.join(members)} ({reason})" for reason, members in reasons.items()))


def _issue_rows(advisories: Iterable[Advice]) -> Iterator[str]:
    for code, title, advice, refs in advice_groups(advisories):
        yield row("issue", f"{code} {sentence(title)}", indent=2)
        yield row("", f"  {names(refs)}: {advice.message}", indent=4)
        yield row("", f"  -> {sentence(advice.remedy)}", indent=5)
        yield row("", f"  Source: {advice.source}; {advice.confidence}.", indent=4)


def _sets(plan: Plan) -> str:
    """A row for each set; one whose name is too long for its column has its numbers below it."""
    if not plan.set_plans:
        return ""
    set_plans = summary.in_order(plan.set_plans)
    sources = sorted({set_plan.source for set_plan in set_plans if set_plan.source})
    header = ("SET", "STATE", *_NUMBERS[:3])
    cells = list(map(_cells, set_plans))
    others = [max(map(len, column)) for column in zip(header[1:], *cells, strict=True)]
    room = WIDTH - sum(others) - GAP * len(others)
    names_of_sets = [f"{set_plan.tree.ref.namespace}/{set_plan.tree.ref.name}" for set_plan in set_plans]
    rows = [("" if len(name) > room else name, *one) for name, one in zip(names_of_sets, cells, strict=True)]
    title, *lines = columns(header, rows, numbers=_NUMBERS).splitlines(keepends=True)
    named = [
        f"{printable(name)}\n{line}" if len(name) > room else line
        for name, line in zip(names_of_sets, lines, strict=True)
    ]
    source, target = summary.upgrade(plan)
    targets = sorted({set_plan.target for set_plan in set_plans})
    schemes = f"Stored hashes: {_releases_of(sources, source)}. Target: {_releases_of(targets, target)}."
    return "".join([wrapped(schemes), "\n", title, *named])


def _releases_of(schemes: Sequence[str], releases: str) -> str:
    """Schemes, and behind them the releases, unless the user named a scheme."""
    is_known = releases and releases not in schemes
    return (", ".join(schemes) or "unknown") + (f" ({releases})" if is_known else "")


def _cells(set_plan: SetPlan) -> tuple[str, ...]:
    first, *more = summary.codes(set_plan.refusals) or [""]
    return (
        f"{set_plan.state.value} {first}{f' +{len(more)}' if more else ''}".rstrip(),
        *(f"{len(set_plan.changes):,}", f"{set_plan.disruption.pods:,}", f"{set_plan.disruption.gpus:,}"),
    )


def _facts(outlook: Outlook) -> Iterator[str]:
    yield row("cluster" if outlook.is_cluster else "dump", outlook.name or "not named")
    if outlook.record:
        yield row("record", outlook.record)
    nothing = "None was found" if outlook.is_cluster else "Not read from a dump"
    yield row("operator", sentence(outlook.operator or nothing))
    if outlook.running:
        dynamo = summary.dynamo_of(outlook.running)
        yield row("", f"Grove {outlook.running}{f' (Dynamo {dynamo})' if dynamo else ''}.")
    pods, gpus = count(outlook.pods, "pod"), count(outlook.gpus, "GPU")
    yield row("sets", f"{count(outlook.sets, 'PodCliqueSet')}, {pods}, {gpus}.")


def _releases(rows: Sequence[summary.TargetRow]) -> str:
    """A row for each newer release, and the older ones in one line."""
    newer = [one for one in rows if one.is_newer]
    shown = [(one.release, summary.dynamo_of(one.release) or "-", *_numbers(one.plan)) for one in newer]
    header = ("NEWER RELEASE", "DYNAMO", *_NUMBERS[1:])
    others = [one.release for one in rows if not one.is_newer]
    folded = f"Not shown, as they are not newer: {build_range(tuple(others))}.\n" if others else ""
    return f"What the upgrade recreates:\n\n{columns(header, shown, numbers=_NUMBERS)}{folded}"


def _numbers(plan: Plan) -> tuple[str, ...]:
    without, rest = plan.cluster_disruption, summary.recreated_with_migration(plan)
    return tuple(f"{number:,}" for number in (without.pods, without.gpus, rest.pods))


def _paragraphs(*paragraphs: str) -> str:
    return "\n".join(filter(None, paragraphs))


@dataclass(frozen=True, slots=True)
class Statement:
    """The text of a finding without its object's name, and every object to which it applies."""

    text: str
    refs: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """All findings of one code that refuse, or that warn; ``remedies`` has each remedy once."""

    code: str
    refuses: bool
    title: str
    findings: tuple[Finding, ...]
    statements: tuple[Statement, ...]
    remedies: tuple[str, ...]


def grouped(findings: Iterable[Finding]) -> list[FindingGroup]:
    """Findings by code, refusals first."""
    by_code: dict[tuple[bool, str], list[Finding]] = {}
    for finding in findings:
        by_code.setdefault((finding.severity is Severity.WARNING, finding.code), []).append(finding)
    return [
        FindingGroup(
            code=code,
            refuses=not warns,
            title=CATALOGUE[code].title,
            findings=tuple(members),
            statements=_statements(members),
            remedies=tuple(dict.fromkeys(finding.remedy for finding in members if finding.remedy)),
        )
        for (warns, code), members in sorted(by_code.items(), key=itemgetter(0))
    ]


def advice_groups(advisories: Iterable[Advice]) -> list[tuple[str, str, Advice, tuple[Ref, ...]]]:
    """Known issues by code: the code, its title, the first advice, and every object concerned."""
    by_id: dict[str, list[Advice]] = {}
    for advice in advisories:
        by_id.setdefault(advice.id, []).append(advice)
    return [
        (code, ISSUE_TITLES[code], members[0], tuple(dict.fromkeys(advice.ref for advice in members)))
        for code, members in sorted(by_id.items())
    ]


def names(refs: tuple[Ref, ...]) -> str:
    """The first few objects, and how many more; a kind is printed where it changes."""
    shown, kind = [], ""
    for ref in refs if len(refs) <= NAMED + 1 else refs[:NAMED]:
        path = f"{ref.namespace}/{ref.name}".removeprefix("/")
        shown.append(path if ref.kind == kind else f"{ref.kind} {path}")
        kind = ref.kind
    left = len(refs) - len(shown)
    return ", ".join(shown) + (f" and {left:,} more" if left else "")


def _statements(findings: Iterable[Finding]) -> tuple[Statement, ...]:
    objects: dict[str, dict[Ref, None]] = {}
    for finding in findings:
        text = finding.message.removeprefix(f"{finding.ref} ").removeprefix(f"{finding.ref}: ")
        if text.startswith("holds ") and finding.field:
            text = f"{finding.field} {text}"  # a value without its field does not show where to look
        refs = objects.setdefault(text, {})
        if finding.ref is not None:
            refs[finding.ref] = None
    return tuple(Statement(text, tuple(refs)) for text, refs in objects.items())
