"""``run``: migrate, or undo a migration."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import click

from migrator.cli import output
from migrator.cli.operators import binary_options, named_by_binaries
from migrator.cli.options import (
    Choice,
    ClusterFlags,
    OperatorFlags,
    Seconds,
    Session,
    cluster_options,
    file_option,
    log_options,
    operator_options,
    output_option,
    source_option,
    target_option,
)
from migrator.errors import Interrupted, MigratorError, UsageError
from migrator.render.text import printable

if TYPE_CHECKING:
    from migrator.cli.progress import Silent
    from migrator.cli.screens import Ending
    from migrator.run.context import Context, RunOptions, RunResult
    from migrator.store import DryRun, Store


@click.command(
    short_help="Migrate the stored hashes, or undo a migration.",
    epilog="""\b
    Examples:
      grove-migrator run --to v0.1.0-alpha.11 --dry-run=server
      grove-migrator run --to v0.1.0-alpha.11 --stop-operator
      grove-migrator run --to v0.1.0-alpha.11 --stop-operator --revert
      grove-migrator run -f dump.yaml --write migrated.yaml --to v0.1.0-alpha.11
    """,
)
@file_option("dump", "Migrate the output of kubectl get instead of a cluster (YAML or JSON, gzip too; - is stdin).")
@click.option(
    "--write",
    "out",
    metavar="OUT",
    help="With -f: write the migrated dump to this file, in the form of the input; - is stdout.",
)
@target_option("What the next operator expects.")
@source_option("What the operator stores now; auto finds it for each set.")
@click.option(
    "--dry-run",
    "dry_run",
    type=Choice(["none", "client", "server"]),
    default="none",
    show_default=True,
    help="client sends no write; server sends every patch with dryRun=All. Both refuse where the run would.",
)
@click.option(
    "--stop-operator", is_flag=True, help="Scale the operator to zero first; without it a running operator refuses."
)
@click.option("--skip-refused", is_flag=True, help="Leave refused sets as they are, and migrate the others.")
@click.option(
    "--allow",
    multiple=True,
    metavar="GM-nnn",
    help="Turn this refusal into a warning, if its code can be overridden; may be repeated.",
)
@click.option(
    "--wait-for-idle", type=Seconds(), help="Wait this long for refusals to end, such as an update in flight."
)
@click.option(
    "--max-downtime", type=Seconds(), help="Refuse, before the operator is stopped, a longer downtime than this."
)
@click.option(
    "--on-conflict",
    type=Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="If a set changes during the run: put everything back and stop, or put that set back and go on.",
)
@click.option("--timeout", type=Seconds(), help="Give up waiting for others after this long; 0 for no limit.")
@click.option(
    "--qps", type=click.FloatRange(min=0, min_open=True), metavar="N", help="At most this many requests per second."
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    metavar="N",
    help="At most this many patches at a time (default 32); fewer while the API server is slow or throttles.",
)
@click.option("--revert", is_flag=True, help="Undo the run with the same --from and --to.")
@click.option("--yes", is_flag=True, help="Do not ask. A run asks only on a terminal, and neither in a pod nor in CI.")
@operator_options
@output_option("table", "json", meaning="Output format of the result.")
@binary_options
@cluster_options
@log_options
@named_by_binaries(required=True, failing=lambda error: _leave_behind(_failure(error)))
@click.pass_obj
def run(
    session: Session,
    *,
    dump: str | None,
    out: str | None,
    target: str,
    source: str,
    dry_run: Literal["none", "client", "server"],
    stop_operator: bool,
    skip_refused: bool,
    allow: tuple[str, ...],
    wait_for_idle: float | None,
    max_downtime: float | None,
    on_conflict: Literal["stop", "skip"],
    timeout: float | None,
    qps: float | None,
    concurrency: int | None,
    revert: bool,
    yes: bool,
    form: str,
    operator: OperatorFlags,
    cluster: ClusterFlags,
) -> int:
    """Replace every stored hash of the old operator by the one that the next operator computes.

    A value is replaced only where it equals the old operator's hash of the current spec. A rerun finishes what
    a crash interrupted, and --revert undoes it. No pod is deleted or restarted.
    """
    from migrator.cli import log, progress, screens, wiring  # noqa: PLC0415 - --help needs none of it
    from migrator.planning.options import PlanOptions, check_allowed, direction  # noqa: PLC0415
    from migrator.run import loop  # noqa: PLC0415
    from migrator.run.context import RunOptions  # noqa: PLC0415
    from migrator.store import DryRun  # noqa: PLC0415

    options = RunOptions(
        plan=PlanOptions(
            source=source,
            target=target,
            allow=frozenset(allow),
            skip_refused=skip_refused,
            selection=wiring.selection(cluster),
        ),
        revert=revert,
        stop_operator=stop_operator,
        wait_for_idle=wait_for_idle,
        max_downtime=max_downtime,
        on_conflict=on_conflict,
        flags=operator.of_run(),
        target_image=operator.target_image,
        target_digests=session.target_digests,
    )
    mode = DryRun(dry_run)
    dry = {} if mode is DryRun.NONE else {"dry_run": mode.value}
    try:
        _check_files(dump, out, writes=mode is DryRun.NONE)
        check_allowed(allow)
        direction(options.plan)  # a mistyped release is answered before a cluster is asked
    except MigratorError as error:
        _leave_behind(_failure(error))
        raise
    shown = progress.shown(sys.stderr, quiet=session.quiet)
    with wiring.stopping(signal.SIGTERM, signal.SIGINT) as stop:
        surroundings = wiring.context(session, stop, timeout or None, concurrency=concurrency, stream=shown.stream)
        store: Store | None = None
        try:
            if dump is None:
                store = wiring.connect(cluster, dry_run=mode, qps=qps, deadline=surroundings.deadline)
                _announce(
                    session, store, options, surroundings, shown=shown, context=wiring.context_of(cluster), yes=yes
                )
            with shown:
                if store is not None:
                    result = loop.run(shown.watch(store), options, surroundings)
                else:
                    with shown.stage(f"migrating {printable(str(dump))}"):
                        result = _run_on_dump(str(dump), out, mode, options, surroundings)
        except MigratorError as error:
            log.write_failure(error.code, error.exit_code, str(error))
            surroundings.log.error(  # noqa: TRY400 - the sentence is printed, and no traceback belongs to it
                "summary", outcome="failed", **dry, code=error.code, exit_code=error.exit_code
            )
            _leave_behind(_failure(error))
            return error.exit_code
        if out != "-":
            ending = screens.ending(store, result, options) if store is not None and not dry else None
            _print_if_read(result, form, mode, revert=revert, ending=ending)
        _summarise(surroundings, result, dry)
    return 0


def _announce(
    session: Session,
    store: Store,
    options: RunOptions,
    surroundings: Context,
    *,
    shown: Silent,
    context: str | None,
    yes: bool,
) -> None:
    """On a terminal: show where the run takes place and what it will do, and ask.

    Raises the errors of reading, and :class:`~migrator.errors.LostRace` for a no.
    """
    from migrator.cli import screens  # noqa: PLC0415 - --help needs none of it
    from migrator.run.observation import look_ahead  # noqa: PLC0415
    from migrator.store import DryRun  # noqa: PLC0415

    if not screens.somebody_answers(in_a_pod=surroundings.namespace is not None) or (session.quiet and yes):
        return
    with shown, shown.stage("reading"):
        ahead = look_ahead(shown.watch(store), options, surroundings)
    cluster = getattr(store, "name", None)
    screens.write(screens.describe(ahead, options, store.dry_run, cluster=cluster, context=context), sys.stderr)
    session.shown |= screens.findings_in(ahead)
    shown.expect(len(ahead.patches))
    if surroundings.stop.is_set():
        raise Interrupted("interrupted before anything was written")
    if store.dry_run is DryRun.NONE and ahead.writes and not yes:
        screens.ask("Revert?" if options.revert else "Migrate?")


def _print_if_read(result: RunResult, form: str, mode: DryRun, *, revert: bool, ending: Ending | None) -> None:
    try:
        _print(result, form, mode, revert=revert, ending=ending)
        output.flush()
    except output.ReaderGone:
        output.abandon()  # the run has ended, whether anybody reads its last line or not


def _check_files(dump: str | None, out: str | None, *, writes: bool) -> None:
    if dump is None and out is not None:
        raise UsageError("--write goes with -f DUMP: a cluster is written to directly")
    if dump is not None and out is None and writes:
        raise UsageError("-f DUMP needs --write OUT, or --dry-run=client to write nothing")


def _run_on_dump(dump: str, out: str | None, mode: DryRun, options: RunOptions, surroundings: Context) -> RunResult:
    from migrator.cli import wiring  # noqa: PLC0415
    from migrator.run import loop  # noqa: PLC0415 - --help needs none of it
    from migrator.store import DryRun  # noqa: PLC0415

    store = wiring.read_dump(dump, dry_run=mode)
    result = loop.run(store, options, surroundings)
    if out is not None and mode is DryRun.NONE:
        store.write(out)
    return result


def _print(result: RunResult, form: str, mode: DryRun, *, revert: bool, ending: Ending | None) -> None:
    from migrator.cli import log  # noqa: PLC0415 - --help needs none of it
    from migrator.render import summary as report  # noqa: PLC0415
    from migrator.render import terminal  # noqa: PLC0415
    from migrator.store import DryRun  # noqa: PLC0415

    if form == "json":
        document: dict[str, Any] = {
            "dryRun": mode.value,
            "trees": result.trees,
            "patches": result.patches,
            "seconds": result.seconds,
            "operator": ending.operator if ending else None,
            "next": list(ending.commands) if ending else [],
            "plan": report.plan_json(result.plan),
        }
        output.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    elif mode is DryRun.NONE:
        output.write(_done(result, revert=revert))
        if ending is not None:
            output.write(ending.text(result.plan.requested_target))
    else:
        if sys.stdout.isatty():
            terminal.print_plan(result.plan, sys.stdout, colour=log.wants_colour(sys.stdout))
        else:
            output.write(terminal.plan_text(result.plan))
        output.write("\ndry run: nothing was written\n")


def _done(result: RunResult, *, revert: bool) -> str:
    from migrator.render.summary import count  # noqa: PLC0415 - --help needs none of it

    if not result.patches:
        return "nothing to do: every value is already as it must be\n"
    what = f"{count(result.trees, 'set')} with {count(result.patches, 'patch', 'patches')}"
    return f"{'put back' if revert else 'migrated'} {what}\n"


def _summarise(surroundings: Context, result: RunResult, dry: Mapping[str, str]) -> None:
    """Log the last event of a run that has succeeded, and leave its summary behind."""
    from migrator.render import summary as report  # noqa: PLC0415 - --help needs none of it

    _leave_behind(
        {
            "outcome": "done",
            "exitCode": 0,
            **({"dryRun": dry["dry_run"]} if dry else {}),
            "from": result.plan.requested_source,
            "to": result.plan.requested_target,
            "podCliqueSets": result.trees,
            "patches": result.patches,
            "operatorReplicas": result.operator_replicas,
            "operatorImage": result.operator_image,
        }
    )
    surroundings.log.info(
        "summary",
        outcome="done",
        exit_code=0,
        **dry,
        trees=result.trees,
        patches=result.patches,
        seconds=result.seconds,
        **{_snake(key): value for key, value in report.summary(result.plan).items()},
    )


def _failure(error: MigratorError) -> dict[str, Any]:
    return {"outcome": "failed", "exitCode": error.exit_code, "code": error.code, "message": str(error)}


def _leave_behind(summary: dict[str, Any]) -> None:
    """Write a summary for ``kubectl describe pod``, if this process runs in a pod."""
    from migrator.cli import termination, wiring  # noqa: PLC0415

    termination.write(summary, termination.path(in_a_pod=wiring.own_namespace() is not None))


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
