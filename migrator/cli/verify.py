"""``verify``: whether every stored hash is the target's."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from migrator.cli import output
from migrator.cli.operators import named_by_binaries, to_binary_option
from migrator.cli.options import ClusterFlags, Seconds, Session, cluster_options, complete_scheme, verbose_option
from migrator.errors import VerificationFailed
from migrator.render.text import printable

if TYPE_CHECKING:
    from migrator.run.verify import Problem, VerifyResult


@click.command(
    short_help="Whether every stored hash is the target's.",
    epilog="""\b
    Examples:
      grove-migrator verify --to v0.1.0-alpha.11
      grove-migrator verify --to v0.1.0-alpha.11 --after-upgrade --settle 5m    once the new operator runs
      grove-migrator verify -f migrated.yaml --to v0.1.0-alpha.11
    """,
)
@click.option(
    "-f",
    "--filename",
    "dump",
    metavar="DUMP",
    help="Read what kubectl get printed instead of a cluster (YAML or JSON, gzip too; - is stdin).",
)
@click.option(
    "--to",
    "target",
    metavar="SCHEME|RELEASE|canonical",
    shell_complete=complete_scheme,
    help="What every stored hash must be.",
)
@click.option(
    "--settle",
    type=Seconds(),
    default="0",
    show_default=True,
    help="Read again for this long until a state that is only late becomes true.",
)
@click.option(
    "--interval", type=Seconds(), default="2s", show_default=True, help="How long to wait between two readings."
)
@click.option(
    "--after-upgrade",
    is_flag=True,
    help="Also compare with the record of the run: no update has begun, no pod of before is missing. The record is "
    "removed if all is well.",
)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output format.",
)
@to_binary_option
@cluster_options
@verbose_option
@named_by_binaries(required=True)
@click.pass_obj
def verify(
    session: Session,
    *,
    dump: str | None,
    target: str,
    settle: float,
    interval: float,
    after_upgrade: bool,
    form: str,
    cluster: ClusterFlags,
) -> int:
    """Check that every stored hash is the target's; exit with 7 if one is not.

    With OnDelete, hashes of older templates may remain where Grove keeps them on purpose.
    """
    from migrator.cli import progress, wiring  # noqa: PLC0415
    from migrator.planning.options import PlanOptions, direction  # noqa: PLC0415
    from migrator.run import verify as core  # noqa: PLC0415
    from migrator.store import DryRun  # noqa: PLC0415

    direction(PlanOptions(target=target))  # a mistyped release is answered before a cluster is asked
    options = core.VerifyOptions(
        target=target,
        settle=settle,
        interval=interval,
        after_upgrade=after_upgrade,
        target_digests=session.target_digests,
    )
    shown = progress.shown(sys.stderr)
    with wiring.stopping(signal.SIGTERM) as stop, shown:
        surroundings = wiring.context(session, stop, stream=shown.stream)
        compares = after_upgrade and dump is None
        with shown.stage("reading"):
            store = wiring.open_store(cluster, dump, dry_run=DryRun.NONE if compares else DryRun.CLIENT)
            store = shown.watch(store)
        recorder = wiring.recorder(store, surroundings) if compares else None
        failed: VerificationFailed | None = None
        try:
            with shown.stage("verifying"):
                result = core.verify(store, options, surroundings, recorder=recorder)
        except VerificationFailed as error:
            failed = error
    if failed is not None:  # the progress is gone from the terminal by now
        _print(form, target, None, failed.problems)
        raise failed
    _print(form, target, result, result.problems)
    return 0


def _print(form: str, target: str, result: VerifyResult | None, problems: Sequence[Problem]) -> None:
    if form == "json":
        document: dict[str, Any] = {
            "to": target,
            "podCliqueSets": result.trees if result else None,
            "storedHashes": result.stored if result else None,
            "problems": [
                {
                    "kind": problem.ref.kind,
                    "namespace": problem.ref.namespace or None,
                    "name": problem.ref.name,
                    "field": problem.field,
                    "message": problem.message,
                }
                for problem in problems
            ],
        }
        output.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        return
    if result is not None:
        output.write(f"verified: {result.stored:,} stored hashes of {result.trees:,} sets are those of {target}\n")
    for problem in problems:
        output.write(f"problem: {printable(problem.message)}\n")
