"""``verify``: whether every stored hash is the target's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from migrator import words
from migrator.cli import connect, flags
from migrator.cli.stdout import as_json, write
from migrator.cli.target import require_target
from migrator.errors import VerificationFailed
from migrator.planning.options import PlanOptions
from migrator.planning.verification import Problem
from migrator.report.json import object_json
from migrator.run import verify as core
from migrator.run.operator import OperatorFlags

#: How many problems are printed; -o json has all.
_SHOWN: Final = 3


@flags.command(
    "verify",
    "Check that every stored hash matches the target.",
    """
    grove-migrator verify --to v0.1.0-alpha.11
    grove-migrator verify --to v0.1.0-alpha.11 --after-upgrade --wait 5m
    """,
)
@flags.target("What every stored hash must match.")
@flags.TO_BINARY
@flags.option(
    "--after-upgrade",
    "Once the new operator runs: also check that it is ready, that no other one runs, and that no update that began "
    "after the migration is open or has replaced pods.",
)
@flags.duration("--wait", "Retry for up to this long before reporting problems.", "0")
@flags.OPERATOR
@flags.output_format(["text", "json"])
@flags.CLUSTER
def verify(
    *,
    to: str | None,
    to_binary: str | None,
    after_upgrade: bool,
    wait: float,
    operator: str | None,
    target_image: str | None,
    output: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Check that every stored hash is the target's; exit with 7 if one is not.

    With the update strategy OnDelete, hashes of older templates may remain where Grove keeps them on purpose.
    """
    chosen = require_target(to, to_binary, target_image)
    options = core.VerifyOptions(
        PlanOptions(chosen),
        flags=OperatorFlags.parse(operator),
        target_image=target_image,
        wait=wait,
        after_upgrade=after_upgrade,
    )
    progress = connect.progress()
    run_context = connect.context(progress)
    cluster = connect.connect(kubeconfig, context)
    with progress.stage("verifying"), connect.naming_the_account(cluster):
        result = core.verify(cluster, options, run_context)
    # What is not about one value decides: without its operator no value can be right.
    problems = sorted(result.problems, key=lambda problem: bool(problem.field))
    commands = list(dict.fromkeys(command for problem in problems for command in problem.commands))
    if result.resumes is not None:  # what a run left half-way, or can still keep, comes before anything else
        commands = [flags.next_command("run", *result.resumes, "--stop-operator")]
    elif not after_upgrade and _unmigrated(problems):
        commands.append(flags.next_command("run", "--stop-operator"))
    if output == "json":
        write(as_json(_json(str(options.plan.target), result, problems, commands)))
    else:
        write(_text(options, result, problems, commands))
    outcome, code = ("failed", VerificationFailed.exit_code) if problems else ("done", 0)
    numbers = {"trees": result.sets, "hashes": result.stored, "problems": len(problems)}
    first = [problem.message for problem in problems[:_SHOWN]]
    run_context.log.info("summary", outcome=outcome, exit_code=code, **numbers, first=first, next=commands)
    if problems:
        message = f"Verification failed: {words.count(len(problems), 'problem')}."
        raise VerificationFailed(message, ref=problems[0].ref, field=problems[0].field)


def _unmigrated(problems: Sequence[Problem]) -> int:
    """How many sets are not migrated: what was edited since holds no hash of the source."""
    return sum(problem.ref.kind == "PodCliqueSet" and problem.missed for problem in problems)


def _json(
    target: str, result: core.VerifyResult, problems: Sequence[Problem], commands: Sequence[str]
) -> dict[str, Any]:
    return {
        "to": target,
        "podCliqueSets": result.sets,
        "storedHashes": result.stored,
        "comparedWithRecord": result.older is not None,
        "podsOlderThanMigration": result.older,
        "podsYoungerThanMigration": result.younger,
        "problems": [{**object_json(one.ref), "field": one.field, "message": one.message} for one in problems],
        "next": list(commands),
    }


def _promise(older: int, younger: int) -> str:
    """What the migration promised, in numbers."""
    are = "is" if older == 1 else "are"
    rest = f"; {words.count(younger, 'is', 'are')} younger, and no update replaced them" if younger else ""
    return f"{older:,} of {words.count(older + younger, 'pod')} {are} older than the migration{rest}."


def _text(
    options: core.VerifyOptions, result: core.VerifyResult, problems: Sequence[Problem], commands: Sequence[str]
) -> str:
    """The verdict, the first problems, and the commands that are next."""
    if problems:
        rows = _problem_rows(options, problems)
    elif result.sets:
        rows = _verified_rows(options, result)
    else:
        return words.wrapped(f"Nothing to verify: {words.NO_SETS}")
    leads_on = not (options.after_upgrade or commands)
    note = words.row("note", "`grove-migrator plan` shows what is next.") if leads_on else ""
    return "".join([*rows, note, words.command_rows("next", commands)])


def _verified_rows(options: core.VerifyOptions, result: core.VerifyResult) -> Iterator[str]:
    stored, sets = words.count(result.stored, "stored hash", "stored hashes"), words.count(result.sets, "set")
    yield words.row("verified", f"{stored} of {sets}, against {options.plan.target}.")
    if options.after_upgrade and result.older is None:
        yield words.row("note", "No record tells when the run was: only values and operators were checked.")
    if result.older is not None and result.younger is not None:
        done = "The operator is ready: the upgrade is complete."
        yield words.row("pods", f"{_promise(result.older, result.younger)} {done}")
    yield from (words.row("noticed", words.readable(noticed.message)) for noticed in result.noticed)


def _problem_rows(options: core.VerifyOptions, problems: Sequence[Problem]) -> Iterator[str]:
    if not options.after_upgrade and (unmigrated := _unmigrated(problems)):
        sets_are = words.count(unmigrated, "set is", "sets are")
        yield words.wrapped(f"{sets_are} not migrated to {options.plan.target} yet.")
    yield from (words.row("problem", words.readable(problem.message), indent=2) for problem in problems[:_SHOWN])
    if len(problems) > _SHOWN:
        yield words.row("", f"And {len(problems) - _SHOWN:,} more: -o json lists all.")
