"""``run``: migrate, or undo a migration."""

from __future__ import annotations

import signal
from typing import Final

from migrator import words
from migrator.cli import connect, dialogue, flags, log, stdout
from migrator.cli.target import require_target
from migrator.errors import OutputError, bug
from migrator.planning.guards import allowed_codes
from migrator.planning.options import PlanOptions, source_of
from migrator.report import json, table
from migrator.run import migration
from migrator.run.context import RunOptions, RunResult
from migrator.run.operator import OperatorFlags

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@flags.command(
    "run",
    "Migrate the stored hashes, or revert a migration.",
    """
    grove-migrator run --to v0.1.0-alpha.11 --stop-operator --dry-run
    grove-migrator run --to v0.1.0-alpha.11 --stop-operator
    grove-migrator run --to v0.1.0-alpha.11 --stop-operator --revert
    """,
)
@flags.target("What the next operator expects.")
@flags.TO_BINARY
@flags.SOURCE
@flags.option("--stop-operator", "Scale the operator to zero first; otherwise an operator that runs blocks the run.")
@flags.option("--dry-run", "Check your permissions, and send every patch with dryRun=All: nothing is changed.")
@flags.option("--skip-refused", "Migrate the other sets; the upgrade recreates the pods of refused ones.")
@flags.option(
    "--allow GM-nnn",
    "Run despite refusals of this code; `guards` lists the codes that accept this. May be repeated.",
    multiple=True,
)
@flags.duration("--wait", "Wait up to this long for updates in flight to end, before the operator is touched.", "0")
@flags.duration("--timeout", "End the run after this long, counted from the end of --wait. Default: no limit.")
@flags.option("--revert", "Undo the run with the same --from and --to.")
@flags.option("--yes", "Do not ask. A run asks on a terminal only, and never in a pod or in CI.")
@flags.OPERATOR
@flags.output_format(["text", "json"], "Output format of the result.")
@flags.CLUSTER
def run(
    *,
    to: str | None,
    to_binary: str | None,
    source: str,
    stop_operator: bool,
    dry_run: bool,
    skip_refused: bool,
    allow: tuple[str, ...],
    wait: float,
    timeout: float | None,
    revert: bool,
    yes: bool,
    operator: str | None,
    target_image: str | None,
    output: str,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Replace every stored hash of the old operator with the new operator's.

    A value is replaced only if it equals the old operator's hash of the current spec. A rerun finishes what a crash
    interrupted, and --revert restores the old hashes. grove-migrator never deletes or restarts a pod.
    """
    chosen = require_target(to, to_binary, target_image)
    options = RunOptions(
        PlanOptions(chosen, source_of(source), allowed_codes(allow), skip_refused=skip_refused),
        revert=revert,
        stop_operator=stop_operator,
        wait=wait,
        flags=OperatorFlags.parse(operator),
        target_image=target_image,
    )
    progress = connect.progress()
    run_context = connect.context(progress, timeout or None)
    cluster = connect.connect(kubeconfig, context, run_context.deadline)
    cluster = cluster.in_dry_run() if dry_run else cluster
    if dialogue.can_ask(in_a_pod=run_context.namespace is not None):
        with connect.naming_the_account(cluster):
            dialogue.announce(cluster, options, run_context, progress, yes=yes)
    with connect.stop_on(run_context.stop, *_SIGNALS):
        with progress.stage("migrating"), connect.naming_the_account(cluster):
            result = migration.run(cluster, options, run_context)
            for number in _SIGNALS:  # the run has ended, and its exit code must be the one that is true
                signal.signal(number, signal.SIG_IGN)
        ending = dialogue.Ending()
        if dry_run:
            result.plan = dialogue.with_crds(cluster, result.plan, options)
        else:
            try:
                ending = dialogue.ending(cluster, result, options)
            except Exception as error:  # noqa: BLE001 - the run has ended, and its exit code must be the one that is true
                log.write_warning("untold_ending", f"What is next cannot be told: {bug(error)}")
        _print_if_read(_text(result, output, dry_run=dry_run, revert=revert, ending=ending), dry_run=dry_run)
        numbers = {"trees": len(result.sets), "patches": result.patches}
        state = {"operator": ending.operator, "next": ending.commands}
        run_context.log.info("summary", outcome="done", exit_code=0, dry_run=dry_run, **numbers, **state)
    return 0


def _print_if_read(text: str, *, dry_run: bool) -> None:
    try:
        stdout.write(text)
    except BrokenPipeError:
        pass  # the run has ended, whether anybody reads its last line or not
    except OutputError as error:
        if dry_run:
            raise  # a dry run has no other result
        log.write_warning("unwritable_output", str(error))


def _text(result: RunResult, output_format: str, *, dry_run: bool, revert: bool, ending: dialogue.Ending) -> str:
    if output_format == "json":
        return stdout.as_json(
            {
                "dryRun": dry_run,
                "trees": len(result.sets),
                "patches": result.patches,
                "operator": ending.operator,
                "next": list(ending.commands),
                "plan": json.plan_json(result.plan),
            }
        )
    reverts_nothing, patches = revert and not result.plan.set_plans, words.count(result.patches, "patch", "patches")
    if dry_run and not reverts_nothing:
        proof = f"The API server accepts all {patches}, and your permissions suffice. " if result.patches else ""
        again = flags.next_command("run", again=True)
        return table.plan_text(result.plan, next_command=again, proof=f"Dry run: {proof}Nothing was written.")
    skipped = "" if revert else table.left_behind(result.plan)
    done = f"Nothing to do: no stored hash needs a change for {result.plan.target}."
    if revert:
        done = "Nothing to revert: no stored hash comes from this migration."
    elif not result.plan.set_plans:
        done = f"Nothing to do: {words.NO_SETS}"
    elif skipped:
        done = "Nothing was migrated."
    if result.patches:
        done = f"{'Reverted' if revert else 'Migrated'} {words.count(len(result.sets), 'set')} with {patches}."
    back = result.patches and not revert
    undo = [flags.next_command("run", "--stop-operator", "--revert")] if back else []
    return "".join(
        [
            words.wrapped(f"{done} {skipped}"),
            words.rows("operator", filter(None, [ending.operator])),
            words.command_rows("next", ending.commands),
            words.command_rows("undo", undo),
        ]
    )
