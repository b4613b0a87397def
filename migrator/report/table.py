"""A plan for people, in 80 columns: the same on a terminal and in a pipe.

Findings are grouped, with counts, a few names and the remedies: a guard reports one sentence and a remedy for each
object, and nobody reads four hundred such sentences about four hundred pods. The JSON of a plan has them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from migrator import words
from migrator.grove.objects import Ref
from migrator.hashing import schemes
from migrator.hashing.schemes import CANONICAL
from migrator.planning import model
from migrator.planning.guards import CATALOGUE
from migrator.planning.guards.updates import IN_FLIGHT
from migrator.releases import table
from migrator.releases.table import named
from migrator.report import json

#: How many objects, or different findings of one guard, are named.
NAMED: Final = 3
#: Of more sets those that can be migrated are one row, and so are those that are done.
MANY: Final = 20
_FOLDED: Final = (model.SetState.MIGRATE, model.SetState.DONE)

#: The GPUs that are not counted.
DRA_NOTE = "GPUs are counted from the limits of containers; DRA claims are not counted."
#: There is no set in the cluster, or none is selected.
NOTHING_SELECTED = "Nothing to do: no PodCliqueSet was found or selected."
#: Which builds use the canonical schemes, and why a canonical target over the same layout does not recreate pods.
CANONICAL_NOTE = (
    "Only builds of Grove's pull request #566 use the canonical schemes; no release does. They accept the legacy hash "
    "of their own layout, so they do not recreate its pods."
)
_NUMBERS: Final = ("CHANGES", "PODS", "GPUS")


def plan_text(plan: model.Plan, *, next_command: str = "", skipping: str = "", proof: str = "") -> str:
    """The plan: its headline, a row for each set, what refuses or warns, and what is next.

    ``next_command`` is what the caller knows better than the plan, ``skipping`` what migrates the sets that are not
    refused, and ``proof`` what a dry run has shown.
    """
    remarks = [words.row("note", note) for note in notes(plan)]
    remarks.append(words.rows("unchecked", not_checked(plan.not_checked)))
    return paragraphs(
        words.wrapped(headline(plan)),
        _sets(plan),
        "".join(finding_rows("refused", plan.refusals)),
        "".join(finding_rows("warning", plan.warnings)),
        "".join(issue_rows(plan.advisories)),
        "".join(remarks),
        words.wrapped(proof) if proof else "",
        words.command_rows("next", [next_command]) if next_command else words.rows("next", next_steps(plan, skipping)),
    )


def headline(plan: model.Plan) -> str:
    """What the upgrade recreates without the migration and with it, for somebody who reads nothing else."""
    if not plan.set_plans and not plan.cluster_disruption.pods:
        return NOTHING_SELECTED
    refused, sets = plan.number_of(model.SetState.REFUSED), words.count(len(plan.set_plans), "set")
    hold = f"{words.count(len(plan.set_plans), 'set already holds', 'sets already hold')} the hashes of"
    if _is_revert(plan):
        restored = plan.number_of(model.SetState.MIGRATE)
        restores = f"The revert restores the hashes of {plan.source} in {restored:,} of {sets}."
        return restores if restored else f"Nothing to revert: {hold} {plan.source}."
    if not plan.cluster_disruption.pods and all(set_plan.state is model.SetState.DONE for set_plan in plan.set_plans):
        goes_on = " The update that is in flight goes on." if IN_FLIGHT.code in codes(plan.warnings) else ""
        return f"Nothing to do: {hold} {plan.target}. The upgrade recreates no pod.{goes_on}"
    without = f"Without the migration, the upgrade recreates {_recreated(plan)}."
    if refused:
        able = plan.number_of(model.SetState.MIGRATE) + plan.number_of(model.SetState.DONE)
        return f"{without} {able:,} of {sets} can be migrated; {words.count(refused, 'needs', 'need')} attention."
    if plan.refusals:
        return f"{without} The migration is refused."
    if sum((one.disruption for one in plan.set_plans), model.Disruption()) != plan.cluster_disruption:
        then = "A run migrates the sets of all namespaces."
    else:
        then = f"With the migration: {amount(plan.remaining) if plan.remaining.pods else 'none'}."
    return f"{without} {then}"


def _is_revert(plan: model.Plan) -> bool:
    """Whether the sets are to go back from the target to the source; none of them is refused then."""
    return any(one.target != plan.target.scheme for one in plan.set_plans)


def next_steps(plan: model.Plan, skipping: str) -> list[str]:
    """The next steps after a plan that is refused; ``skipping`` migrates the sets that are not."""
    if not plan.refusals:
        return []
    steps = [f"docs/guards.md has the causes and fixes of {', '.join(codes(plan.refusals))}."]
    migrating = plan.number_of(model.SetState.MIGRATE)
    only_sets_are_refused = all(finding.severity is model.Severity.WARNING for finding in plan.findings)
    if migrating and only_sets_are_refused:
        sets, rest = "the other set" if migrating == 1 else f"the other {migrating:,} sets", amount(plan.remaining)
        steps.append(f"Or migrate {sets} with `{skipping}`; then the upgrade recreates {rest}.")
    return steps


def left_behind(plan: model.Plan) -> str:
    """What ``--skip-refused`` leaves to the upgrade, as a sentence; empty if no set was refused."""
    skipped = sum(one.state is model.SetState.SKIPPED and bool(one.findings) for one in plan.set_plans)
    if not skipped:
        return ""
    sets_were = words.count(skipped, "refused set was", "refused sets were")
    return f"{sets_were} skipped: the upgrade recreates {amount(plan.remaining)}."


def notes(plan: model.Plan) -> list[str]:
    """Remarks without which a reader could misread the numbers."""
    is_canonical = any(set_plan.target.algorithm == CANONICAL for set_plan in plan.set_plans)
    return [*([DRA_NOTE] if plan.cluster_disruption.pods else []), *([CANONICAL_NOTE] if is_canonical else [])]


def _recreated(plan: model.Plan) -> str:
    hit = [set_plan.disruption for set_plan in plan.set_plans if set_plan.disruption.pods]
    selected, sets = sum(hit, model.Disruption()), words.count(len(hit), "set")
    if selected == plan.cluster_disruption:
        return f"{amount(selected)} in {sets}"
    return f"{amount(plan.cluster_disruption)} in the whole cluster ({amount(selected)} in {sets} selected)"


def amount(disruption: model.Disruption) -> str:
    """``19 pods with 78 GPUs``."""
    return f"{words.count(disruption.pods, 'pod')} with {words.count(disruption.gpus, 'GPU')}"


def upgrade(plan: model.Plan) -> tuple[str, str]:
    """Both ends of the upgrade, releases with their versions of Dynamo.

    A source that was not named is the release that runs, or all that use the schemes that were found; else empty.
    """
    stored = {set_plan.source for set_plan in plan.set_plans if set_plan.source}
    if plan.source is not None:
        source = _with_dynamo(plan.source)
    elif plan.running is not None and stored <= {(running := named(plan.running)).scheme}:
        source = _with_dynamo(running)
    else:
        source = ", ".join(table.build_range(table.builds_with(one)) for one in schemes.all_schemes() if one in stored)
    target = _with_dynamo(plan.target)
    return (target, source) if _is_revert(plan) else (source, target)


def _with_dynamo(end: table.Named) -> str:
    name = end.release.name if end.release is not None else end.text
    dynamo = dynamo_of(name)
    return f"{name}, Dynamo {dynamo}" if dynamo else name


def dynamo_of(release: str) -> str:
    """The versions of Dynamo that bring a release of Grove: ``1.1, 1.2, 1.3``; empty if none does."""
    return ", ".join(version for one in table.releases() if one.name == release for version in one.dynamo)


def codes(findings: Iterable[model.Finding]) -> list[str]:
    """The codes of findings, each once."""
    return sorted({finding.code for finding in findings})


def finding_rows(label: str, findings: Iterable[model.Finding]) -> Iterator[str]:
    """The findings, grouped by code: what it is, a few objects, and what to do."""
    for group in grouped(findings):
        times = f" ({words.count(len(group.findings), 'finding')})" if len(group.findings) > 1 else ""
        yield words.row(label, f"{group.code} {words.sentence(group.title)}{times}", indent=2)
        yield from (words.row("", f"  {text}", indent=4) for text in _texts(group))
        yield from (words.row("", f"  -> {words.sentence(remedy)}", indent=5) for remedy in group.remedies[:NAMED])


def _texts(group: FindingGroup) -> Iterator[str]:
    statements = group.statements
    for message, refs in statements[:NAMED]:
        text = words.readable(message)
        yield f"{names(refs)}: {text}" if refs else words.sentence(text)
    if rest := statements[NAMED:]:
        others = tuple(ref for _, refs in rest for ref in refs)
        yield f"And {len(rest):,} more: {names(others)}" if others else f"And {len(rest):,} more."


def not_checked(unchecked: Iterable[model.NotChecked]) -> list[str]:
    """The guards that could not be judged; those with one reason share a text."""
    reasons: dict[str, list[str]] = {}
    for one in unchecked:
        reasons.setdefault(one.reason, []).append(f"{one.code} {one.what}")
    return [f"{'; '.join(members)} ({reason})" for reason, members in reasons.items()]


def issue_rows(advisories: Iterable[model.Advice]) -> Iterator[str]:
    """The known issues: what it is, where, what to do, and where that is said."""
    for advice, refs in advice_groups(advisories):
        issue = advice.issue
        yield words.row("issue", f"{issue.code} {words.sentence(issue.title)}", indent=2)
        yield words.row("", f"  {names(refs)}: {advice.message}", indent=4)
        yield words.row("", f"  -> {words.sentence(advice.remedy)}", indent=5)
        yield words.row("", f"  Source: {issue.source}; {issue.confidence}.", indent=4)


def _sets(plan: model.Plan) -> str:
    """A row for each set, and their sum."""
    if not plan.set_plans:
        return ""
    # Refused sets first; of many sets those that can be migrated, and those that are done, are a number.
    set_plans = sorted(plan.set_plans, key=lambda one: one.state is not model.SetState.REFUSED)
    states = _FOLDED if len(set_plans) > MANY else ()
    folded = [alike for state in states if (alike := [one for one in set_plans if one.state is state])]
    shown = [one for one in set_plans if one.state not in states]
    reverts = _is_revert(plan)
    rows = [_row(f"{one.tree.ref.namespace}/{one.tree.ref.name}", _state(one, reverts=reverts), [one]) for one in shown]
    noun = "other set" if shown else "set"
    rows += [
        _row(f"{words.count(len(alike), noun)}: see -o json", _state(alike[0], reverts=reverts), alike)
        for alike in folded
    ]
    if shown or len(folded) > 1:
        rows.append(_row(f"total: {words.count(len(set_plans), 'set')}", "", set_plans))
    source, target = upgrade(plan)
    sources = sorted({str(set_plan.source) for set_plan in set_plans if set_plan.source})
    targets = [str(set_plans[0].target)]  # all have one
    schemes = f"Stored hashes: {_releases_of(sources, source)}. Target: {_releases_of(targets, target)}."
    return words.wrapped(schemes) + "\n" + words.columns(("SET", "STATE", *_NUMBERS), rows, numbers=_NUMBERS)


def _releases_of(schemes: Sequence[str], releases: str) -> str:
    """Schemes, and behind them the releases, unless the user named a scheme. Without a scheme nothing is certain."""
    if not schemes:
        return "unknown"
    return ", ".join(schemes) + (f" ({releases})" if releases not in schemes else "")


def _row(name: str, state: str, set_plans: Sequence[model.SetPlan]) -> tuple[str, ...]:
    lost = sum((one.disruption for one in set_plans), model.Disruption())
    changes = sum(len(one.changes) for one in set_plans)
    return name, state, f"{changes:,}", f"{lost.pods:,}", f"{lost.gpus:,}"


def _state(set_plan: model.SetPlan, *, reverts: bool) -> str:
    """``refused GM-101 +2``, ``migrate``, ``revert``."""
    first, *more = codes(set_plan.refusals) or [""]
    state = "revert" if reverts and set_plan.state is model.SetState.MIGRATE else set_plan.state.value
    return f"{state} {first}{f' +{len(more)}' if more else ''}".rstrip()


def paragraphs(*paragraphs: str) -> str:
    """Those that are not empty, with a line between them."""
    return "\n".join(filter(None, paragraphs))


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """All findings of one code that refuse, or that warn."""

    code: str
    refuses: bool
    findings: tuple[model.Finding, ...]

    @property
    def title(self) -> str:
        """The guard's title."""
        return CATALOGUE[self.code].title

    @property
    def statements(self) -> list[tuple[str, tuple[Ref, ...]]]:
        """Each message, with every object that it is about."""
        objects: dict[str, dict[Ref, None]] = {}
        for finding in self.findings:
            objects.setdefault(finding.message, {}).update({finding.ref: None} if finding.ref is not None else {})
        return [(text, tuple(refs)) for text, refs in objects.items()]

    @property
    def remedies(self) -> list[str]:
        """What to do, each remedy once."""
        return list(dict.fromkeys(finding.remedy for finding in self.findings if finding.remedy))


def grouped(findings: Iterable[model.Finding]) -> list[FindingGroup]:
    """Findings by code, refusals first."""

    def key(finding: model.Finding) -> tuple[bool, str]:
        return finding.severity is model.Severity.WARNING, finding.code

    groups = groupby(sorted(json.in_order(findings), key=key), key)
    return [FindingGroup(code, not warns, tuple(members)) for (warns, code), members in groups]


def advice_groups(advisories: Iterable[model.Advice]) -> list[tuple[model.Advice, tuple[Ref, ...]]]:
    """Known issues by code: the first advice, and every object concerned."""
    by_code: dict[str, list[model.Advice]] = {}
    for advice in advisories:
        by_code.setdefault(advice.issue.code, []).append(advice)
    return [(members[0], tuple(dict.fromkeys(one.ref for one in members))) for _, members in sorted(by_code.items())]


def names(refs: tuple[Ref, ...]) -> str:
    """The first few objects, and how many more; a kind is printed where it changes."""
    shown, kind = [], ""
    for ref in refs[:NAMED]:
        path = f"{ref.namespace}/{ref.name}".removeprefix("/")
        shown.append(path if ref.kind == kind else f"{ref.kind} {path}")
        kind = ref.kind
    left = len(refs) - NAMED
    return ", ".join(shown) + (f" and {left:,} more" if left > 0 else "")
