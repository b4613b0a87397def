"""``run``: migrate, or undo a migration."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Mapping
from typing import Any, Final

from migrator.cli import log, operators, output, progress, screens, termination, wiring
from migrator.cli.operators import Directions
from migrator.cli.options import ClusterFlags, session
from migrator.cli.progress import Progress
from migrator.cli.screens import Ending
from migrator.errors import Interrupted, MigratorError, OutputError, UsageError
from migrator.planning.guards import check_allowed
from migrator.planning.options import PlanOptions, direction
from migrator.render import summary, terminal
from migrator.render.text import printable
from migrator.run import loop
from migrator.run.context import Context, RunOptions, RunResult
from migrator.run.observation import look_ahead
from migrator.run.operator import OperatorFlags
from migrator.store import DryRun, Store
from migrator.stores.dump.file import STDIO

_DRY: Final = "\ndry run: nothing was written\n"


def main(
    *,
    dump: str | None,
    out: str | None,
    dry_run: str,
    timeout: float | None,
    concurrency: int | None,
    yes: bool,
    form: str,
    cluster: ClusterFlags,
    **given: Any,  # noqa: ANN401 - the other flags
) -> int:
    """Run, and leave a summary of the success or the failure."""
    mode = DryRun(dry_run)
    dry = {} if mode is DryRun.NONE else {"dry_run": mode.value}
    shown = progress.shown(sys.stderr, quiet=session().quiet)
    context: Context | None = None
    store: Store | None = None
    with wiring.stop_on(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as stop:
        try:
            names = operators.directions(given, None if dump else cluster, required=True)
            _check_files(dump, out, form, writes=mode is DryRun.NONE)
            options = _options(names, cluster, **given)
            context = wiring.context(shown.stream, stop, timeout or None, concurrency=concurrency)
            if dump is None:
                store = wiring.connect(cluster, dry_run=mode, deadline=context.deadline)
                _announce(store, options, context, shown, cluster, yes=yes)
            with shown:
                if store is not None:
                    result = loop.run(shown.watch(store), options, context)
                else:
                    with shown.stage(f"migrating {printable(str(dump))}"):
                        held = wiring.read_dump(str(dump), dry_run=mode)
                        result = loop.run(held, options, context)
                        if out is not None and mode is DryRun.NONE:
                            held.write(out)
        except MigratorError as error:
            log.write_failure(error.code, error.exit_code, str(error), details=error.details)
            if context is not None:
                context.log.error(  # noqa: TRY400 - the sentence is printed, and no traceback belongs to it
                    "summary", outcome="failed", **dry, code=error.code, exit_code=error.exit_code
                )
            reason = {"exitCode": error.exit_code, "code": error.code, "message": str(error), **error.details}
            termination.write({"outcome": "failed", **reason})
            return error.exit_code
        if out != STDIO:
            ending = screens.ending(store, result, options) if store is not None and not dry else None
            _print_if_read(result, form, mode, revert=options.revert, ending=ending)
        _summarise(context, result, dry)
    return 0


def _options(
    names: Directions,
    cluster: ClusterFlags,
    *,
    allow: tuple[str, ...],
    skip_refused: bool,
    operator: OperatorFlags,
    **more: Any,  # noqa: ANN401 - the fields of RunOptions with these names
) -> RunOptions:
    plan = PlanOptions(
        names.source,
        str(names.target),
        frozenset(allow),
        skip_refused=skip_refused,
        selection=wiring.selection(cluster),
    )
    check_allowed(allow)
    direction(plan)  # a mistyped release is reported before a cluster is asked
    return RunOptions(plan, flags=operator, target_digests=names.digests, **more)


def _check_files(dump: str | None, out: str | None, form: str, *, writes: bool) -> None:
    if dump is None and out is not None:
        raise UsageError("--write goes with -f DUMP: a cluster is written to directly")
    if out == STDIO and form == "json":
        raise UsageError("--write - and -o json both go to stdout: leave one of them out")
    if dump is not None and out is None and writes:
        raise UsageError("-f DUMP needs --write OUT, or --dry-run=client to write nothing")


def _announce(
    store: Store, options: RunOptions, context: Context, shown: Progress, cluster: ClusterFlags, *, yes: bool
) -> None:
    """On a terminal: show where the run takes place and what it will do, and ask; raises ``LostRace`` for a no."""
    if not screens.can_ask(in_a_pod=context.namespace is not None) or (session().quiet and yes):
        return
    with shown, shown.stage("reading"):
        ahead = look_ahead(shown.watch(store), options, context)
    where = (getattr(store, "name", None), wiring.context_of(cluster))
    log.write_line(sys.stderr, screens.describe(ahead, options, store.dry_run, where).removesuffix("\n"))
    session().shown.update(screens.findings_in(ahead))
    shown.expected = ahead.patch_count
    if context.stop.is_set():
        raise Interrupted("interrupted before anything was written")
    if store.dry_run is DryRun.NONE and ahead.writes and not yes:
        screens.ask("Revert?" if options.revert else "Migrate?")


def _print_if_read(result: RunResult, form: str, mode: DryRun, *, revert: bool, ending: Ending | None) -> None:
    try:
        if form != "json" and mode is not DryRun.NONE and sys.stdout.isatty():
            terminal.print_plan(result.plan, sys.stdout, colour=log.wants_colour(sys.stdout))
            output.write(_DRY)
        else:
            output.write(_text(result, form, mode, revert=revert, ending=ending))
        output.flush()
    except output.ReaderGone:
        pass  # the run has ended, whether anybody reads its last line or not
    except OutputError as error:
        if mode is not DryRun.NONE:
            raise  # a dry run has no other result
        log.write_warning("unwritable_output", str(error))


def _text(result: RunResult, form: str, mode: DryRun, *, revert: bool, ending: Ending | None) -> str:
    if form == "json":
        document = {
            "dryRun": mode.value,
            "trees": result.trees,
            "patches": result.patches,
            "seconds": result.seconds,
            "operator": ending.operator if ending else None,
            "next": list(ending.commands) if ending else [],
            "plan": summary.plan_json(result.plan),
        }
        return output.as_json(document)
    if mode is not DryRun.NONE:
        return terminal.plan_text(result.plan) + _DRY
    done = "nothing to do: every value is already as it must be"
    if not result.plan.trees and not revert:
        done = "nothing to do: no PodCliqueSet was found; is it the right cluster?"
    if result.patches:
        patches = summary.count(result.patches, "patch", "patches")
        done = f"{'put back' if revert else 'migrated'} {summary.count(result.trees, 'set')} with {patches}"
    return f"{done}\n{ending.text(result.plan.requested_target) if ending else ''}"


def _summarise(context: Context, result: RunResult, dry: Mapping[str, str]) -> None:
    termination.write(
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
    context.log.info(
        "summary",
        outcome="done",
        exit_code=0,
        **dry,
        trees=result.trees,
        patches=result.patches,
        seconds=result.seconds,
        **{re.sub("([A-Z])", r"_\1", key).lower(): value for key, value in summary.summary(result.plan).items()},
    )
