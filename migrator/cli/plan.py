"""``plan``: the changes of a migration, its refusals, and the pods at stake."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from migrator import __version__
from migrator.cli import output
from migrator.cli.operators import binary_options, named_by_binaries
from migrator.cli.options import (
    ClusterFlags,
    Seconds,
    Session,
    cluster_options,
    file_option,
    log_options,
    output_option,
    source_option,
    target_option,
)

if TYPE_CHECKING:
    from migrator.grove.model import Plan
    from migrator.planning.outlook import Target
    from migrator.render.summary import Origin

EXIT_REFUSED = 3
EXIT_CHANGES = 10


@click.command(
    short_help="The changes, the refusals, and the pods at stake.",
    epilog="""\b
    Examples:
      grove-migrator plan                                   each release that could come next
      grove-migrator plan --to v0.1.0-alpha.11
      grove-migrator plan -f dump.yaml --to v0.1.0-alpha.11 -o html --group-by team --reload-time 25m > plan.html
      grove-migrator plan --to v0.1.0-alpha.11 -n inference -l app=web -o yaml
      grove-migrator plan --detailed-exitcode --to v0.1.0-alpha.11    3 refused, 10 changes pending

    \b
    A dump, with every kind of Grove that the cluster has:
      kubectl get pods,$(kubectl api-resources --verbs=list -o name |
        grep 'grove.io$' | paste -sd, -) -A -o yaml > dump.yaml
    """,
)
@file_option(
    "dumps",
    "Read the output of kubectl get instead of a cluster (YAML or JSON, gzip too; - is stdin). May be repeated.",
    multiple=True,
)
@source_option("What the operator stores now; auto finds it for each set.")
@target_option(
    "What the next operator expects. Without it: a line for each scheme that a release speaks. Only builds of "
    "Grove's pull request #566 speak the canonical schemes."
)
@output_option(
    "table",
    "wide",
    "json",
    "yaml",
    "csv",
    "html",
    default=None,
    meaning="A table, a wider one, data for scripts and sheets, or a page. Default: a table; on a terminal a tree.",
)
@click.option(
    "--detailed-exitcode",
    is_flag=True,
    help="Exit with 3 if anything refuses, with 10 if changes are pending; needs --to.",
)
@click.option(
    "--group-by", metavar="LABEL", help="With html: also totals for each value of this label of the PodCliqueSets."
)
@click.option(
    "--reload-time",
    type=Seconds(),
    default="10m",
    show_default=True,
    help="With html: how long a recreated pod is assumed to be away, for the GPU-hours.",
)
@binary_options
@cluster_options
@log_options
@named_by_binaries()
@click.pass_obj
def plan(
    session: Session,
    *,
    dumps: tuple[str, ...],
    source: str,
    target: str | None,
    form: str | None,
    detailed_exitcode: bool,
    group_by: str | None,
    reload_time: float,
    cluster: ClusterFlags,
) -> int:
    """Show what a migration would change, what refuses it, and what the upgrade recreates without it.

    Nothing is written. The exit code is 0, with refusals too, unless --detailed-exitcode asks for more.
    """
    from migrator.cli import log, progress, wiring  # noqa: PLC0415
    from migrator.errors import NotAuthorised, UsageError  # noqa: PLC0415
    from migrator.hashing import schemes  # noqa: PLC0415
    from migrator.planning.options import PlanOptions, Selection, direction  # noqa: PLC0415
    from migrator.render import summary  # noqa: PLC0415
    from migrator.run.dry_run import preview, preview_targets  # noqa: PLC0415
    from migrator.store import DryRun  # noqa: PLC0415

    selection = wiring.selection(cluster)
    goal = schemes.CANONICAL if target is None else target
    options = PlanOptions(source=source, target=goal, selection=selection, describes=True)
    if target is None and detailed_exitcode:
        raise UsageError("--detailed-exitcode needs a target: give --to")
    if target is None or schemes.unread_release(target) is None:
        direction(options)  # a mistyped release is answered before a cluster is asked
    with progress.shown(sys.stderr, quiet=session.quiet) as shown:
        surroundings = wiring.context(session, threading.Event(), stream=shown.stream)
        with shown.stage("reading"):
            store = wiring.open_store(cluster, *dumps, dry_run=DryRun.CLIENT)
        given: Any = {"now": surroundings.now, "namespace": surroundings.namespace or wiring.DEFAULT_NAMESPACE}
        origin = summary.Origin(getattr(store, "name", None), datetime.now(UTC).isoformat("T", "seconds"), __version__)
        with shown.stage("planning"):
            try:
                if target is not None:
                    made = preview(shown.watch(store), options, **given)
                else:
                    targets = preview_targets(shown.watch(store), options, **given)
                    text = _targets(targets, form, source, origin, reload_time)
            except NotAuthorised as error:
                one = "" if cluster.namespace else ", and -n plans one namespace with the rights in it"
                raise NotAuthorised(f"{error}; `check plan` lists the missing rights{one}") from error
    if target is None:
        output.write(text)
        return 0
    if made.known and not made.trees and selection != Selection():
        log.write_warning("empty_selection", "no PodCliqueSet is in this namespace with these labels (-n, -l)")
    _print(made, form, origin, reload_time, group_by)
    if detailed_exitcode and summary.refusals_of(made):
        return EXIT_REFUSED
    if detailed_exitcode and summary.has_changes(made):
        return EXIT_CHANGES
    return 0


def _targets(targets: Iterator[Target], form: str | None, source: str, origin: Origin, reload_time: float) -> str:
    """All targets; one plan is in memory at a time."""
    from migrator.render import summary, terminal  # noqa: PLC0415 - --help needs none of it
    from migrator.render.text import sheet  # noqa: PLC0415

    if form in {"json", "yaml"}:
        document = {"from": source, "targets": [summary.target_json(t) for t in targets], **origin.as_json()}
        return _document(document, form)
    if form == "csv":
        return sheet(summary.CSV_COLUMNS, (row for target in targets for row in summary.csv_rows(target.plan)))
    rows = [summary.target_row(target) for target in targets]
    if form == "html":
        from migrator.render import page  # noqa: PLC0415 - one form of six

        return page.render_targets(rows, origin, reload_seconds=reload_time)
    return terminal.targets_text(rows)


def _print(made: Plan, form: str | None, origin: Origin, reload_time: float, group_by: str | None) -> None:
    from migrator.cli import log  # noqa: PLC0415 - --help needs none of it
    from migrator.render import summary, terminal  # noqa: PLC0415
    from migrator.render.text import sheet  # noqa: PLC0415

    if form not in {None, "table", "wide"} and summary.CANONICAL_NOTE in summary.notes(made):
        log.write_warning("canonical_target", summary.CANONICAL_NOTE)  # a table has it itself
    if form in {"json", "yaml"}:
        output.write(_document(summary.plan_json(made, origin), form))
    elif form == "csv":
        output.write(sheet(summary.CSV_COLUMNS, summary.csv_rows(made)))
    elif form == "html":
        from migrator.render import page  # noqa: PLC0415 - one form of six

        output.write(page.render(made, origin, reload_seconds=reload_time, group_by=group_by))
    elif form is None and sys.stdout.isatty():
        terminal.print_plan(made, sys.stdout, colour=log.wants_colour(sys.stdout))
    else:
        output.write(terminal.plan_text(made, wide=form == "wide"))


def _document(document: dict[str, Any], form: str | None) -> str:
    if form == "json":
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    import yaml  # noqa: PLC0415 - one form of six

    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=10**9))
