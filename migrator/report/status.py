"""The first look, in 80 columns: the cluster as it is, and what each newer release would recreate. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from migrator import errors, words
from migrator.planning import model
from migrator.planning.outlook import Outlook, Target, recreated_by_installed
from migrator.releases.table import build_range, builds
from migrator.report import json, table
from migrator.words import row

_NUMBERS: Final = ("PODS", "GPUS", "PODS WITH MIGRATION")


def outlook_text(outlook: Outlook, targets: Sequence[Target], newer: Sequence[str], *, commands: Sequence[str]) -> str:
    """The first look: the cluster as it is, what each of the ``newer`` releases would recreate, and what is next."""
    if not outlook.sets:
        return table.paragraphs("".join(_facts(outlook)), words.wrapped(table.NOTHING_SELECTED))
    by_release = {release: target.plan for target in targets for release in target.releases}
    plans, unfit = [by_release[release] for release in newer], _unfit(outlook, recreated_by_installed(outlook, targets))
    unchecked = dict.fromkeys(one for plan in plans for one in plan.not_checked)
    # What other releases would do is no question before the installed operator fits the hashes.
    ahead = () if outlook.resumes or unfit else _ahead(by_release, newer, is_checked=not unchecked)
    return table.paragraphs(
        "".join(_facts(outlook)) + unfit,
        _unfinished(outlook) if outlook.resumes else "",
        *ahead,
        words.rows("unchecked", table.not_checked(unchecked)),
        words.command_rows("next", commands),
    )


def _unfinished(outlook: Outlook) -> str:
    """How far a run got that did not end, and what is next."""
    stay = "" if outlook.running else f"{errors.STAY_AT_ZERO} "
    or_revert = "" if "--revert" in outlook.resumes else errors.OR_REVERT
    return words.wrapped(f"{_progress(outlook.reached)}{stay}Run the next command{or_revert}.")


def _progress(plan: model.Plan | None) -> str:
    """How many sets are migrated, by the plan to the run's target, as a sentence; empty if none is."""
    sets = plan.set_plans if plan is not None else ()
    done = sum(one.state is model.SetState.DONE for one in sets)
    return f"{done:,} of {words.count(len(sets), 'set')} {'is' if done == 1 else 'are'} migrated. " if done else ""


def _ahead(by_release: Mapping[str, model.Plan], newer: Sequence[str], *, is_checked: bool) -> Iterator[str]:
    """What would block a migration, what the newer releases would recreate, and their known issues."""
    plans = [by_release[release] for release in newer]
    blocked = "".join(_blocked(common_refusals(plans)))
    ready, states = "", {set_plan.state for plan in plans for set_plan in plan.set_plans}
    if model.SetState.REFUSED in states:
        ready = row("blocked", "Some releases are blocked: see `plan --to RELEASE`.")
    elif model.SetState.MIGRATE in states:
        ready = row(
            "ready", "Nothing blocks a migration." if is_checked else "Nothing that was checked blocks a migration."
        )
    yield blocked or ready
    yield _releases(by_release, newer)
    yield "".join(table.issue_rows(dict.fromkeys(advice for plan in plans for advice in plan.advisories)))


def common_refusals(plans: Iterable[model.Plan]) -> list[model.Finding]:
    """What refuses a migration whatever the target: the findings of every plan that has anything to change."""
    found = [plan.refusals for plan in plans if any(set_plan.changes for set_plan in plan.set_plans)]
    shared = set.intersection(*({json.place(one) for one in refusals} for refusals in found)) if found else set()
    return [one for one in found[0] if json.place(one) in shared] if found else []


def _facts(outlook: Outlook) -> Iterator[str]:
    yield row("cluster" if outlook.is_cluster else "dump", outlook.name)
    if outlook.record:
        yield row("record", outlook.record)
    nothing = "None was found" if outlook.is_cluster else "Not read from a dump"
    yield row("operator", words.sentence(outlook.operator or nothing))
    if outlook.running:
        dynamo = table.dynamo_of(outlook.running)
        yield row("", f"Grove {outlook.running}{f' (Dynamo {dynamo})' if dynamo else ''}.")
    pods, gpus = words.count(outlook.pods, "pod"), words.count(outlook.gpus, "GPU")
    yield row("sets", f"{words.count(outlook.sets, 'PodCliqueSet')}, {pods}, {gpus}.")


def _unfit(outlook: Outlook, lost: model.Disruption) -> str:
    """What the installed operator would do, if the stored hashes are not its own."""
    if not lost.pods:
        return ""
    when = ", which is running: it" if outlook.running else ": if that release starts, it"
    return row("hashes", f"Stored hashes do not match {outlook.installed}{when} recreates {table.amount(lost)}.")


def _blocked(findings: Iterable[model.Finding]) -> Iterator[str]:
    """A row for each code: what it is, and a few objects."""
    for group in table.grouped(findings):
        refs = tuple(dict.fromkeys(finding.ref for finding in group.findings if finding.ref is not None))
        where = f": {table.names(refs)}" if refs else ""
        yield row("blocked", f"{group.code} {group.title}{where}.", indent=2)


def _releases(plans: Mapping[str, model.Plan], newer: Sequence[str]) -> str:
    """A row for the newer releases of each scheme, which recreate the same, and the older ones in one line."""
    if not newer:
        return "No newer release that changes the hashes is known.\n"
    alike = (tuple(names) for _, names in groupby(newer, key=lambda release: plans[release].target.scheme))
    shown = [(build_range(names), *_numbers(plans[names[0]])) for names in alike]
    header = ("NEWER RELEASES", *_NUMBERS)
    others = tuple(release for release in builds() if release in plans and release not in newer)
    folded = f"Not shown, as they are not newer: {build_range(others)}.\n" if others else ""
    return f"What the upgrade recreates:\n\n{words.columns(header, shown, numbers=_NUMBERS)}{folded}"


def _numbers(plan: model.Plan) -> tuple[str, ...]:
    without, rest = plan.cluster_disruption, plan.remaining
    return tuple(f"{number:,}" for number in (without.pods, without.gpus, rest.pods))
