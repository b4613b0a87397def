"""``plan``: what shall change, what refuses, and what is at stake."""

from __future__ import annotations

import json
import sys
import threading
from typing import TYPE_CHECKING

import click

from migrator.cli import output
from migrator.cli.options import ClusterFlags, Session, cluster_options, complete_scheme, verbose_option

if TYPE_CHECKING:
    from migrator.grove.model import Plan

EXIT_REFUSED = 3
EXIT_CHANGES = 10


@click.command(
    short_help="What changes, what refuses, what is at stake.",
    epilog="""\b
    Examples:
      grove-migrator plan --to v0.1.0-alpha.11
      kubectl get podcliquesets,podcliques,podcliquescalinggroups,pods -A -o yaml > dump.yaml
      grove-migrator plan -f dump.yaml --to v0.1.0-alpha.11 -o html > plan.html
      grove-migrator plan --to v0.1.0-alpha.11 -n inference -l app=web -o yaml
      grove-migrator plan --detailed-exitcode --to v0.1.0-alpha.11    3 refused, 10 changes pending
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
    "--from",
    "source",
    default="auto",
    show_default=True,
    metavar="SCHEME|RELEASE|auto",
    shell_complete=complete_scheme,
    help="What the operator stores now; auto finds it for each set.",
)
@click.option(
    "--to",
    "target",
    default="canonical",
    show_default=True,
    metavar="SCHEME|RELEASE|canonical",
    shell_complete=complete_scheme,
    help="What the next operator expects. Only builds of Grove's pull request #566 speak the canonical schemes.",
)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "json", "yaml", "html"]),
    default="table",
    show_default=True,
    help="A tree on a terminal and a table elsewhere, data for scripts, or a page to send around.",
)
@click.option(
    "--detailed-exitcode", is_flag=True, help="Exit with 3 if anything refuses, with 10 if changes are pending."
)
@cluster_options
@verbose_option
@click.pass_obj
def plan(
    session: Session,
    *,
    dump: str | None,
    source: str,
    target: str,
    form: str,
    detailed_exitcode: bool,
    cluster: ClusterFlags,
) -> int:
    """Show what a migration would change, what refuses it, and what the upgrade recreates without it.

    Nothing is written, refusals or not, and the exit code is 0 unless --detailed-exitcode asks for more.
    """
    from migrator.cli import progress, wiring  # noqa: PLC0415
    from migrator.planning.options import PlanOptions, direction  # noqa: PLC0415
    from migrator.render import summary  # noqa: PLC0415
    from migrator.run.dry_run import preview  # noqa: PLC0415
    from migrator.store import DryRun  # noqa: PLC0415

    options = PlanOptions(source=source, target=target, selection=wiring.selection(cluster))
    direction(options)  # a mistyped release is answered before a cluster is asked
    with progress.shown(sys.stderr) as shown:
        surroundings = wiring.context(session, threading.Event(), stream=shown.stream)
        with shown.stage("reading"):
            store = shown.watch(wiring.open_store(cluster, dump, dry_run=DryRun.CLIENT))
        with shown.stage("planning"):
            namespace = surroundings.namespace or wiring.DEFAULT_NAMESPACE
            made = preview(store, options, now=surroundings.now, namespace=namespace)
    _print(made, form)
    if detailed_exitcode and summary.refusals_of(made):
        return EXIT_REFUSED
    if detailed_exitcode and summary.has_changes(made):
        return EXIT_CHANGES
    return 0


def _print(made: Plan, form: str) -> None:
    from migrator.cli import log  # noqa: PLC0415 - --help needs none of it
    from migrator.render import summary, terminal  # noqa: PLC0415

    if form != "table" and summary.CANONICAL_NOTE in summary.notes(made):
        log.write_warning("canonical_target", summary.CANONICAL_NOTE)  # a table says it itself
    if form == "json":
        output.write(json.dumps(summary.plan_json(made), indent=2, ensure_ascii=False) + "\n")
    elif form == "yaml":
        import yaml  # noqa: PLC0415 - one form of four

        output.write(yaml.safe_dump(summary.plan_json(made), sort_keys=False, allow_unicode=True, width=10**9))
    elif form == "html":
        from migrator.render import page  # noqa: PLC0415 - one form of four

        output.write(page.render(made))
    elif sys.stdout.isatty():
        terminal.print_plan(made, sys.stdout, colour=log.wants_colour(sys.stdout))
    else:
        output.write(terminal.plan_text(made))
