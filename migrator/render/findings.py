"""Findings grouped for people: with counts, a few names and the remedies. Pure.

A guard reports one sentence and a remedy for each object. Nobody reads four hundred such sentences about four hundred
pods; the JSON of a plan has them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from migrator.grove.objects import Ref
from migrator.planning.guards.base import CATALOGUE
from migrator.planning.known_issues import ISSUE_TITLES
from migrator.planning.model import Advice, Finding, Severity

#: How many objects, or different findings of one guard, are named.
NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Statement:
    """The text of a finding without its object's name, and every object to which it applies.

    ``joint`` stands between the name of one object and the text: a space before a predicate, or a colon.
    """

    text: str
    refs: tuple[Ref, ...]
    joint: str


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
        (code, ISSUE_TITLES[code], members[0], tuple(dict.fromkeys(a.ref for a in members if a.ref is not None)))
        for code, members in sorted(by_id.items())
    ]


def names(refs: tuple[Ref, ...], namespace: str = "") -> str:
    """The first few objects, without their ``namespace``, and how many more; a kind is printed where it changes."""
    shown, kind = [], ""
    for ref in refs if len(refs) <= NAMED + 1 else refs[:NAMED]:
        path = f"{ref.namespace}/{ref.name}" if ref.namespace not in {"", namespace} else ref.name
        shown.append(path if ref.kind == kind else f"{ref.kind} {path}")
        kind = ref.kind
    left = len(refs) - len(shown)
    return ", ".join(shown) + (f" and {left:,} more" if left else "")


def _statements(findings: Iterable[Finding]) -> tuple[Statement, ...]:
    objects: dict[tuple[str, str], dict[Ref, None]] = {}
    for finding in findings:
        text = finding.message.removeprefix(f"{finding.ref} ")
        joint = ": " if text == finding.message else " "
        text = text.removeprefix(f"{finding.ref}: ")
        if text.startswith("holds ") and finding.field:
            joint, text = ": ", f"{finding.field} {text}"  # a value without its field does not show where to look
        refs = objects.setdefault((text, joint), {})
        if finding.ref is not None:
            refs[finding.ref] = None
    return tuple(Statement(text, tuple(refs), joint) for (text, joint), refs in objects.items())
