"""``verify``: whether every stored hash is the target's."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from migrator.cli import output
from migrator.cli.operators import binary_options, named_by_binaries
from migrator.cli.options import (
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
from migrator.errors import LostRace, UsageError, VerificationFailed
from migrator.render.text import printable

if TYPE_CHECKING:
    from migrator.planning.aftermath import Problem
    from migrator.run.context import Context
    from migrator.run.verify import Closing, VerifyResult
    from migrator.store import Store


@click.command(
    short_help="Whether every stored hash is the target's.",
    epilog="""\b
    Examples:
      grove-migrator verify --to v0.1.0-alpha.11
      grove-migrator verify --to v0.1.0-alpha.11 --after-upgrade --settle 5m    once the new operator runs
      grove-migrator verify -f migrated.yaml --to v0.1.0-alpha.11
    """,
)
@file_option("dump", "Read the output of kubectl get instead of a cluster (YAML or JSON, gzip too; - is stdin).")
@target_option("What every stored hash must be.")
@source_option("What was stored before. `--to canonical` needs it if no release speaks that layout.")
@click.option(
    "--settle",
    type=Seconds(),
    default="0",
    show_default=True,
    help="Keep reading for at most this long while a problem may still settle by itself.",
)
@click.option(
    "--interval", type=Seconds(), default="2s", show_default=True, help="How long to wait between two readings."
)
@click.option(
    "--after-upgrade",
    is_flag=True,
    help="Also check that the target's operator runs and, by the record of the run, that no update has begun and no "
    "earlier pod is missing. The record is removed if all is well.",
)
@click.option("--close", is_flag=True, help="Remove the record of the run, and print what is given up with it.")
@click.option("--yes", is_flag=True, help="With --close: do not ask.")
@operator_options
@output_option("table", "json")
@binary_options
@cluster_options
@log_options
@named_by_binaries(required=True)
@click.pass_obj
def verify(
    session: Session,
    *,
    dump: str | None,
    target: str,
    source: str,
    settle: float,
    interval: float,
    after_upgrade: bool,
    close: bool,
    yes: bool,
    form: str,
    operator: OperatorFlags,
    cluster: ClusterFlags,
) -> int:
    """Check that every stored hash is the target's; exit with 7 if one is not.

    Under OnDelete, hashes of older templates may remain where Grove keeps them on purpose.
    """
    from migrator.cli import progress, wiring  # noqa: PLC0415 - --help needs none of it
    from migrator.planning.options import PlanOptions, direction  # noqa: PLC0415
    from migrator.run import verify as core  # noqa: PLC0415
    from migrator.store import DryRun  # noqa: PLC0415

    if dump is not None and (close or after_upgrade):
        raise UsageError("--close and --after-upgrade need a cluster: a file has no record")
    plan = PlanOptions(source=source, target=target)
    direction(plan)  # a mistyped release is answered before a cluster is asked
    options = core.VerifyOptions(
        plan,
        settle=settle,
        interval=interval,
        after_upgrade=after_upgrade,
        flags=operator.of_run(),
        target_image=operator.target_image,
        target_digests=session.target_digests,
    )
    shown = progress.shown(sys.stderr, quiet=session.quiet)
    failed: VerificationFailed | None = None
    with wiring.stopping(signal.SIGTERM) as stop:
        surroundings = wiring.context(session, stop, stream=shown.stream)
        namespace = surroundings.namespace or wiring.DEFAULT_NAMESPACE
        with shown:
            with shown.stage("reading"):
                writes = DryRun.NONE if after_upgrade or close else DryRun.CLIENT
                store = shown.watch(wiring.open_store(cluster, dump, dry_run=writes))
            try:
                with shown.stage("verifying"):
                    if close:
                        found = core.closing(store, options, namespace=namespace)
                    else:
                        result = core.verify(store, options, surroundings, namespace=namespace)
            except VerificationFailed as error:
                failed = error
        if close:
            _close(store, found, surroundings, yes=yes)
            return 0
    if failed is not None:  # the progress is gone from the terminal by now
        _print(form, target, None, failed.problems, after_upgrade=after_upgrade)
        raise failed
    _print(form, target, result, (), after_upgrade=after_upgrade)
    return 0


def _close(store: Store, found: Closing, surroundings: Context, *, yes: bool) -> None:
    from migrator.run import verify as core  # noqa: PLC0415 - --help needs none of it

    for what in found.gives_up:
        output.write(f"gives up {what}\n")
    if not yes and sys.stdin.isatty() and not click.confirm("Remove the record?", err=True):
        raise LostRace("declined: the record stays, and nothing was touched")
    core.close(store, found.home, surroundings)
    output.write("the record is removed\n")


def _print(
    form: str, target: str, result: VerifyResult | None, problems: Sequence[Problem], *, after_upgrade: bool
) -> None:
    from migrator.render.summary import object_json  # noqa: PLC0415 - --help needs none of it

    if form == "json":
        document: dict[str, Any] = {
            "to": target,
            "podCliqueSets": result.trees if result else None,
            "storedHashes": result.stored if result else None,
            "comparedWithRecord": result.compared if result else None,
            "problems": [
                {**object_json(problem.ref), "field": problem.field, "message": problem.message} for problem in problems
            ],
        }
        output.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        return
    if result is not None:
        output.write(f"verified: {result.stored:,} stored hashes of {result.trees:,} sets are those of {target}\n")
        if after_upgrade and not result.compared:
            output.write("no record of a run was found: pods and updates of before are not compared\n")
        for noticed in result.noticed:
            output.write(f"noticed: {printable(noticed.message)}\n")
    for problem in problems:
        output.write(f"problem: {printable(problem.message)}\n")
