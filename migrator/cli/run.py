"""``run``: migrate, or undo a migration."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING, Any, Literal

import click

from migrator.cli import output
from migrator.cli.operators import from_binary_option, named_by_binaries, to_binary_option
from migrator.cli.options import ClusterFlags, Seconds, Session, cluster_options, complete_scheme, verbose_option
from migrator.errors import MigratorError, UsageError
from migrator.render.text import printable

if TYPE_CHECKING:
    from migrator.run.context import Context, RunOptions, RunResult
    from migrator.store import DryRun


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
@click.option(
    "-f",
    "--filename",
    "dump",
    metavar="DUMP",
    help="Migrate what kubectl get printed instead of a cluster (YAML or JSON, gzip too; - is stdin).",
)
@click.option(
    "--write",
    "out",
    metavar="OUT",
    help="With -f: write the migrated dump to this file, in the form of the input; - is stdout.",
)
@click.option(
    "--to",
    "target",
    metavar="SCHEME|RELEASE|canonical",
    shell_complete=complete_scheme,
    help="What the next operator expects.",
)
@click.option(
    "--from",
    "source",
    default="auto",
    show_default=True,
    metavar="SCHEME|RELEASE|auto",
    shell_complete=complete_scheme,
    help="What the operator stores now; auto finds it for each set.",
)
@click.option(
    "--dry-run",
    "dry_run",
    type=click.Choice(["none", "client", "server"]),
    default="none",
    show_default=True,
    help="client sends no write; server sends every patch with dryRun=All. Both refuse where the run would.",
)
@click.option("--stop-operator", is_flag=True, help="Scale the operator to zero first; without it a live one refuses.")
@click.option("--skip-refused", is_flag=True, help="Leave sets that refuse as they are, and migrate the others.")
@click.option(
    "--allow",
    multiple=True,
    metavar="GM-nnn",
    help="Turn this refusal into a warning; may be repeated. Only codes that can be overridden.",
)
@click.option(
    "--wait-for-idle", type=Seconds(), help="Wait this long for refusals to go away, such as an update in flight."
)
@click.option(
    "--max-downtime", type=Seconds(), help="Refuse, before the operator is stopped, if it would be away for longer."
)
@click.option(
    "--on-conflict",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="When a set changes under us: put everything back and stop, or put that set back and go on.",
)
@click.option("--timeout", type=Seconds(), help="Give up waiting for others after this long; 0 for no limit.")
@click.option(
    "--qps", type=click.FloatRange(min=0, min_open=True), metavar="N", help="At most so many requests per second."
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    metavar="N",
    help="At most so many patches at a time (default 32); fewer while the API server is slow or throttles.",
)
@click.option("--revert", is_flag=True, help="Undo the run with the same --from and --to.")
@click.option("--operator-namespace", metavar="NAMESPACE", help="Where the operator is; default: found by its labels.")
@click.option("--operator-deployment", metavar="NAME", help="The operator's Deployment; default: found by its labels.")
@click.option("--lease-name", metavar="NAME", help="The operator's Lease; default: read from its configuration.")
@click.option(
    "--target-image",
    metavar="IMAGE",
    help="An image of the next operator whose tag is no release, so that it is known.",
)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output format of the result.",
)
@to_binary_option
@from_binary_option
@cluster_options
@verbose_option
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
    operator_namespace: str | None,
    operator_deployment: str | None,
    lease_name: str | None,
    target_image: str | None,
    form: str,
    cluster: ClusterFlags,
) -> int:
    """Replace every stored hash of the old operator by the one that the next operator computes.

    A value is replaced only where it equals the old operator's hash of the current spec. A rerun finishes what
    a crash interrupted, and --revert undoes it. No pod is deleted or restarted.
    """
    from migrator.cli import log, progress, wiring  # noqa: PLC0415 - --help needs none of it
    from migrator.planning.options import PlanOptions, check_allowed, direction  # noqa: PLC0415
    from migrator.run import loop  # noqa: PLC0415
    from migrator.run.context import RunOptions  # noqa: PLC0415
    from migrator.run.operator import Flags  # noqa: PLC0415
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
        flags=Flags(operator_namespace, operator_deployment, lease_name),
        target_image=target_image,
        target_digests=session.target_digests,
    )
    mode = DryRun(dry_run)
    try:
        _check_files(dump, out, writes=mode is DryRun.NONE)
        check_allowed(allow)
        direction(options.plan)  # a mistyped release is answered before a cluster is asked
    except MigratorError as error:
        _leave_behind(_failure(error))
        raise
    shown = progress.shown(sys.stderr)
    with wiring.stopping(signal.SIGTERM, signal.SIGINT) as stop:
        surroundings = wiring.context(session, stop, timeout or None, at_once=concurrency, stream=shown.stream)
        try:
            with shown:
                if dump is None:
                    store = wiring.connect(cluster, dry_run=mode, qps=qps, deadline=surroundings.deadline)
                    result = loop.run(shown.watch(store), options, surroundings)
                else:
                    with shown.stage(f"migrating {printable(dump)}"):
                        result = _run_on_dump(dump, out, mode, options, surroundings)
        except MigratorError as error:
            log.write_failure(error.code, error.exit_code, str(error))
            _summarise(surroundings, None, error)
            return error.exit_code
        if out != "-":
            _print_if_read(result, form, mode)
        _summarise(surroundings, result, None)
    return 0


def _print_if_read(result: RunResult, form: str, mode: DryRun) -> None:
    try:
        _print(result, form, mode)
        output.flush()
    except output.ReaderGone:
        output.abandon()  # what is done is done, whether its last line is read or not


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


def _print(result: RunResult, form: str, mode: DryRun) -> None:
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
            "plan": report.plan_json(result.plan),
        }
        output.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    elif mode is DryRun.NONE:
        output.write(
            f"migrated {report.count(result.trees, 'set')} with {report.count(result.patches, 'patch', 'patches')}\n"
        )
    else:
        if sys.stdout.isatty():
            terminal.print_plan(result.plan, sys.stdout, colour=log.wants_colour(sys.stdout))
        else:
            output.write(terminal.plan_text(result.plan))
        output.write("\ndry run: nothing was written\n")


def _summarise(surroundings: Context, result: RunResult | None, error: MigratorError | None) -> None:
    """The one event that tells the whole run, last."""
    from migrator.render import summary as report  # noqa: PLC0415 - --help needs none of it

    if error is not None or result is None:
        outcome = {"code": error.code, "exit_code": error.exit_code} if error else {}
        surroundings.log.error("summary", outcome="failed", **outcome)
        if error is not None:
            _leave_behind(_failure(error))
        return
    _leave_behind(
        {
            "outcome": "done",
            "exitCode": 0,
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
        trees=result.trees,
        patches=result.patches,
        seconds=result.seconds,
        **{_snake(key): value for key, value in report.summary(result.plan).items()},
    )


def _failure(error: MigratorError) -> dict[str, Any]:
    return {"outcome": "failed", "exitCode": error.exit_code, "code": error.code, "message": str(error)}


def _leave_behind(summary: dict[str, Any]) -> None:
    """The same for ``kubectl describe pod``, if a pod is what we are."""
    from migrator.cli import termination, wiring  # noqa: PLC0415

    termination.write(summary, termination.path(in_a_pod=wiring.own_namespace() is not None))


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
