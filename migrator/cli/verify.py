"""``verify``: whether every stored hash is the target's."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import Any

import click

from migrator.cli import operators, output, progress, wiring
from migrator.cli.options import ClusterFlags, session
from migrator.errors import LostRace, UsageError, VerificationFailed
from migrator.planning.options import PlanOptions, direction
from migrator.render.summary import count, object_json
from migrator.render.text import printable
from migrator.run import verify as core
from migrator.run.context import Context
from migrator.run.operator import OperatorFlags
from migrator.run.problems import Problem
from migrator.run.verify import VerifyOptions, VerifyResult
from migrator.store import DryRun, Store


def main(
    *,
    dump: str | None,
    close: bool,
    yes: bool,
    form: str,
    operator: OperatorFlags,
    cluster: ClusterFlags,
    **given: Any,  # noqa: ANN401 - those of directions and VerifyOptions
) -> None:
    """Verify, or remove the record with ``--close``."""
    source, found, digests = operators.directions(given, None if dump else cluster, required=True)
    plan = PlanOptions(source=source, target=str(found), selection=wiring.selection(cluster))
    options = VerifyOptions(plan, flags=operator, target_digests=digests, **given)
    if dump is not None and (close or options.after_upgrade):
        raise UsageError("--close and --after-upgrade need a cluster: a file has no record")
    if close and options.after_upgrade:
        raise UsageError("--close gives up the record that --after-upgrade compares with: leave one of them out")
    direction(plan)  # a mistyped release is reported before a cluster is asked
    shown = progress.shown(sys.stderr, quiet=session().quiet)
    with wiring.stop_on(signal.SIGTERM) as stop:
        context = wiring.context(shown.stream, stop)
        namespace = context.namespace or wiring.DEFAULT_NAMESPACE
        result: VerifyResult | None = None
        failure: VerificationFailed | None = None
        with shown:
            with shown.stage("reading"):
                writes = DryRun.NONE if options.after_upgrade or close else DryRun.CLIENT
                store = shown.watch(wiring.open_store(cluster, *filter(None, [dump]), dry_run=writes))
            with shown.stage("verifying"):
                if close:
                    home, gives_up = core.closing(store, options, namespace=namespace)
                else:
                    try:
                        result = core.verify(store, options, context, namespace=namespace)
                    except VerificationFailed as error:
                        failure = error
        if close:
            _close(store, home, gives_up, context, form, yes=yes)
            return
    problems = failure.problems if failure else ()
    if form == "json":
        output.write(output.as_json(_json(options.plan.target, result, problems)))
    else:
        output.write(_text(options, result, problems))
    if failure is not None:
        raise failure


def _close(store: Store, home: str, gives_up: Sequence[str], context: Context, form: str, *, yes: bool) -> None:
    lines = "".join(f"gives up {what}\n" for what in gives_up)
    output.write(output.as_json({"givesUp": list(gives_up)}) if form == "json" else lines)
    if not yes and sys.stdin.isatty() and not click.confirm("Remove the record?", err=True):
        raise LostRace("declined: the record stays, and nothing was touched")
    core.close(store, home, context)
    if form != "json":
        output.write("the record is removed\n")


def _json(target: str, result: VerifyResult | None, problems: Sequence[Problem]) -> dict[str, Any]:
    return {
        "to": target,
        "podCliqueSets": result.trees if result else None,
        "storedHashes": result.stored if result else None,
        "comparedWithRecord": result.compared if result else None,
        "problems": [{**object_json(one.ref), "field": one.field, "message": one.message} for one in problems],
    }


def _text(options: VerifyOptions, result: VerifyResult | None, problems: Sequence[Problem]) -> str:
    lines = []
    if result is not None:
        stored, sets = count(result.stored, "stored hash", "stored hashes"), count(result.trees, "set")
        lines.append(f"verified: {stored} of {sets} are those of {options.plan.target}")
        if options.after_upgrade and not result.compared:
            lines.append("no record of a run was found, so earlier pods and updates are not compared")
        lines += [f"noticed: {printable(noticed.message)}" for noticed in result.noticed]
    lines += [f"problem: {printable(problem.message)}" for problem in problems]
    return "".join(f"{line}\n" for line in lines)
