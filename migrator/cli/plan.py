"""``plan``: the changes of a migration, its refusals, and the pods at stake."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from migrator import __version__
from migrator.cli import log, operators, output, progress, wiring
from migrator.cli.options import ClusterFlags, session
from migrator.errors import NotAuthorised, Refused, UsageError
from migrator.hashing import schemes
from migrator.planning.model import Plan, TreeState
from migrator.planning.options import NOTHING_SELECTED, PlanOptions, Selection, direction
from migrator.planning.outlook import Target
from migrator.render import page, summary, terminal
from migrator.render.summary import Origin
from migrator.render.text import csv_text
from migrator.run.dry_run import preview, preview_targets
from migrator.store import DryRun

EXIT_CHANGES = 10


def main(
    *,
    dumps: tuple[str, ...],
    form: str | None,
    detailed_exitcode: bool,
    group_by: str | None,
    reload_time: float,
    cluster: ClusterFlags,
    **given: Any,  # noqa: ANN401 - those of directions
) -> int:
    """Print the plan, or all plans without a target."""
    source, target, _ = operators.directions(given, None if dumps else cluster)
    goal = schemes.CANONICAL if target is None else target
    options = PlanOptions(source, goal, selection=wiring.selection(cluster), describes=True)
    if target is None and detailed_exitcode:
        raise UsageError("--detailed-exitcode needs a target: give --to")
    if target is None or schemes.unread_release(target) is None:
        direction(options)  # a mistyped release is reported before a cluster is asked
    with progress.shown(sys.stderr, quiet=session().quiet) as shown:
        context = wiring.context(shown.stream, threading.Event())
        with shown.stage("reading"):
            store = wiring.open_store(cluster, *dumps, dry_run=DryRun.CLIENT)
        origin = Origin(getattr(store, "name", None), datetime.now(UTC).isoformat("T", "seconds"), __version__)
        where: Any = {"now": context.now, "namespace": context.namespace or wiring.DEFAULT_NAMESPACE}
        with shown.stage("planning"):
            try:
                if target is None:
                    targets = preview_targets(shown.watch(store), options, **where)
                    text = _targets(targets, form, source, origin, reload_time)
                else:
                    made = preview(shown.watch(store), options, **where)
            except NotAuthorised as error:
                one = "" if cluster.namespace else ", and -n plans one namespace with the rights in it"
                raise NotAuthorised(f"{error}; `check plan` lists the missing rights{one}") from error
    if target is None:
        output.write(text)
        return 0
    nothing = made.known and not made.trees and options.selection != Selection()
    if nothing:
        log.write_warning("empty_selection", NOTHING_SELECTED)
    if form not in {None, "table", "wide"} and summary.CANONICAL_NOTE in summary.notes(made):
        log.write_warning("canonical_target", summary.CANONICAL_NOTE)  # a table has it itself
    if form is None and sys.stdout.isatty():
        terminal.print_plan(made, sys.stdout, colour=log.wants_colour(sys.stdout))
    else:
        output.write(_text(made, form, origin, reload_time, group_by))
    if detailed_exitcode and (summary.refusals_of(made) or nothing or not made.known):
        return Refused.exit_code
    return EXIT_CHANGES if detailed_exitcode and summary.number(made, TreeState.MIGRATE) else 0


def _targets(targets: Iterator[Target], form: str | None, source: str, origin: Origin, reload_time: float) -> str:
    """All targets; one plan is in memory at a time."""
    if form in {"json", "yaml"}:
        return _document({"from": source, "targets": list(map(summary.target_json, targets)), **asdict(origin)}, form)
    if form == "csv":
        return csv_text(summary.CSV_COLUMNS, (row for target in targets for row in summary.csv_rows(target.plan)))
    rows = list(map(summary.target_row, targets))
    if form == "html":
        return page.render_targets(rows, origin, reload_seconds=reload_time)
    return terminal.targets_text(rows)


def _text(made: Plan, form: str | None, origin: Origin, reload_time: float, group_by: str | None) -> str:
    if form in {"json", "yaml"}:
        return _document(summary.plan_json(made, origin), form)
    if form == "csv":
        return csv_text(summary.CSV_COLUMNS, summary.csv_rows(made))
    if form == "html":
        return page.render(made, origin, reload_seconds=reload_time, group_by=group_by)
    return terminal.plan_text(made, wide=form == "wide")


def _document(document: dict[str, Any], form: str | None) -> str:
    if form == "json":
        return output.as_json(document)
    import yaml  # noqa: PLC0415 - for one form of six

    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=10**9))
