"""What a run shows besides its plan: where and how it will take place, the question, and the next steps at its end."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from migrator import errors, words
from migrator.cli import log
from migrator.cli.flags import given, next_command, session
from migrator.cluster import Cluster
from migrator.planning import crds
from migrator.planning.guards.operators import RUNNING
from migrator.planning.model import Plan, SetState, pending
from migrator.planning.patches import PATCHES_PER_SECOND
from migrator.releases import table
from migrator.report.table import paragraphs, plan_text
from migrator.run import context
from migrator.run.leaving import unread
from migrator.run.migration import look_ahead
from migrator.run.operator import Operator
from migrator.run.seen import Observation

if TYPE_CHECKING:
    from migrator.cli.progress import Progress


def can_ask(*, in_a_pod: bool) -> bool:
    """Whether somebody can be asked: stdin and stderr are terminals, and this is neither a pod nor CI."""
    return not in_a_pod and not os.environ.get("CI") and sys.stdin.isatty() and sys.stderr.isatty()


def announce(
    cluster: Cluster, options: context.RunOptions, run: context.Context, progress: Progress, *, yes: bool
) -> None:
    """Show the plan of a run, where it takes place and what it will do, and ask; raises ``Declined`` for a no."""
    try:
        with progress.stage("reading"):
            preview = look_ahead(cluster, options, run)
    except errors.ClusterError as error:
        if cluster.dry_run:  # which leaves nothing half-way
            raise
        raise unread(error) from None
    rows = words.row("cluster", f"{cluster.name} (context {cluster.context})")
    if not (preview.writes or preview.plan.refusals or cluster.dry_run):
        log.Unbreakable(sys.stderr).write(rows)  # the end of the run says the rest
        return
    told = preview.plan.all_findings
    session().shown.update((one.code, str(one.ref) if one.ref else None, one.field, one.message) for one in told)
    session().refusal = preview.refused.details if preview.refused else {}
    if cluster.dry_run and not preview.plan.refusals:
        return  # the plan is its result
    rows += words.row("operator", words.sentence(_described(preview.operator)))
    rows += words.rows("steps", _steps(preview, options)) if preview.writes else ""
    again = _with_the_stop(preview, dry_run=cluster.dry_run)
    known = preview.plan.set_plans or preview.plan.refusals  # a revert of nothing has no plan
    skipping = next_command("run", "--stop-operator", "--skip-refused", again=True)
    shown = with_crds(cluster, preview.plan, options)
    text = plan_text(shown, next_command=again, skipping=skipping) if known else ""
    # The question is about the steps; a refused run ends with what is next.
    log.Unbreakable(sys.stderr).write(paragraphs(text, rows) if preview.writes else paragraphs(rows, text))
    if cluster.dry_run or yes or not preview.writes:
        return
    try:
        answer = click.confirm("Revert?" if options.revert else "Migrate?", err=True)
    except click.Abort:
        click.echo(err=True)
        raise
    if not answer:
        raise errors.Declined("Cancelled. Nothing was changed.")


def with_crds(cluster: Cluster, plan: Plan, options: context.RunOptions) -> Plan:
    """The plan with the CRDs that are in the way of its upgrade; a run does not read them, and cannot fail for them."""
    found = () if options.revert else crds.advise(options.plan.target, _served(cluster))
    return replace(plan, advisories=(*plan.advisories, *found))


def _served(cluster: Cluster) -> Mapping[str, str]:
    """The kinds of Grove by short name; empty if discovery does not answer."""
    try:
        return cluster.short_names(crds.GROUP)
    except errors.MigratorError:
        return {}


def _with_the_stop(preview: Observation, *, dry_run: bool) -> str:
    """The same command with ``--stop-operator``, if nothing else refuses the run; otherwise empty."""
    has_deployment = preview.operator is not None and preview.operator.deployment
    if not has_deployment or {one.code for one in preview.plan.refusals} != {RUNNING.code}:
        return ""
    return next_command("run", *(["--dry-run"] if dry_run else []), "--stop-operator", again=True)


@dataclass(frozen=True, slots=True)
class Ending:
    """What a run says at its end: the operator's state, and the next commands."""

    operator: str | None = None
    commands: tuple[str, ...] = ()


def ending(cluster: Cluster, result: context.RunResult, options: context.RunOptions, *target_flags: str) -> Ending:
    """What is next after a run on a cluster.

    ``target_flags`` are `--to` and the run's target, if this command was not given them.
    """
    operator, target = result.operator, options.plan.target
    up, old = operator is not None and operator.live, _if_old(operator, options)
    state = words.sentence(_described(operator))
    state += "" if up else " Until an operator runs, Grove does not create, scale or replace pods."
    if options.revert:
        return Ending(state, _after_revert(cluster, result, options))
    is_migrated = result.patches or any(one.state is SetState.DONE for one in result.plan.set_plans)
    if old is not None and table.release_in(old.image) is not None and not up and is_migrated:
        state += " Do not start this release again: it recreates every pod that has a new hash."
    is_installed = operator is not None and (up or bool(operator.deployment)) and options.is_upgraded(operator.image)
    commands = _crd_steps(cluster, target, only_missing=is_installed)
    release, namespace = _helm_release(operator)
    if not is_installed:
        version = f"--version {target.chart_version} --reset-then-reuse-values"
        commands += (f'helm upgrade {release} "$CHART" -n {namespace} {version}',)
    elif operator is not None and not up:
        commands += (operator.start_command,)
    is_recognised = options.target_image is not None or (target.builds and not given("to_binary"))
    image = "" if is_recognised else ' --target-image "$IMAGE"'
    verify = f"{next_command('verify', *target_flags)}{image} --after-upgrade --wait 5m"
    return Ending(state, (*commands, verify))


def _after_revert(cluster: Cluster, result: context.RunResult, options: context.RunOptions) -> tuple[str, ...]:
    """The commands that are next after a revert: the old operator runs, can be started, or must be brought back."""
    operator, source = result.operator, options.plan.source or result.plan.source
    old = _if_old(operator, options)
    installed = table.release_in(old.image if old is not None else result.reverted_to)
    steps = _crd_steps(cluster, table.named(installed.name) if installed else source, only_missing=True)
    if operator is not None and operator.live:
        return steps
    restored = [source.scheme] if source is not None else options.plan.candidates
    if old is not None and old.deployment and table.accepts(old.image, set(map(str, restored))):
        return (*steps, old.start_command)
    release, namespace = _helm_release(operator)
    # Without a revision Helm takes the one before the last: the new operator's again, if that was upgraded twice.
    rollback = f'helm rollback {release} "$REVISION" -n {namespace}'
    return (*steps, f"helm history {release} -n {namespace}", rollback)


def _crd_steps(cluster: Cluster, build: table.Named | None, *, only_missing: bool) -> tuple[str, ...]:
    """The commands that replace the CRDs by those of the build that comes next, or comes back.

    ``only_missing``: none if an operator of that build can start without them.
    """
    served = _served(cluster)
    if build is None:
        return ()
    if only_missing:
        return tuple(command for problem in crds.problems_of(build, served) for command in problem.commands)
    return crds.steps(build, served)


def _if_old(operator: Operator | None, options: context.RunOptions) -> Operator | None:
    """The operator, if there is one and it is not the target's."""
    return None if operator is None or options.is_target(operator.image) else operator


def _described(operator: Operator | None) -> str:
    return operator.description if operator is not None else "none was found"


def _steps(preview: Observation, options: context.RunOptions) -> Iterator[str]:
    """What the run does, each line a sentence of its own: no line may read as if pods were deleted."""
    installed = preview.operator
    if options.stop_operator and installed is not None and installed.live:
        until = "the old operator is started again" if options.revert else "you upgrade"
        yield f"Stop the operator. It stays at zero replicas until {until}."
    elif options.revert and _if_old(installed, options) and preview.record and preview.record.operator:
        yield "Start the operator again when the revert ends."
    if preview.to_open:
        names = ", ".join(sorted({one.configuration for one in preview.to_open}))
        yield f"Exempt {preview.account} from {names} until the run ends: its other edits pass unchecked."
    hashes = words.count(sum(len(one.changes) for one in pending(preview.plan)), "hash", "hashes")
    verb = "Restore" if options.revert else "Replace"
    patches = words.count(preview.patch_count, "patch", "patches")
    yield (
        f"{'Resume the earlier run. ' if preview.open_record is not None else ''}{verb} {hashes} with {patches}: "
        f"{words.duration(preview.patch_count / PATCHES_PER_SECOND)} at {PATCHES_PER_SECOND} a second."
    )
    yield "Pods keep running: grove-migrator does not delete or restart any pod."
    if not options.revert:
        yield "To undo this, run the same command with `--revert`."


def _helm_release(operator: Operator | None) -> tuple[str, str]:
    """The name and the namespace of the Helm release that the operator's Deployment belongs to, for a shell."""
    if operator is None:
        return '"$RELEASE"', '"$NAMESPACE"'
    name = operator.annotations.get("meta.helm.sh/release-name")
    namespace = operator.annotations.get("meta.helm.sh/release-namespace", operator.namespace)
    return shlex.quote(name) if name else '"$RELEASE"', shlex.quote(namespace)
