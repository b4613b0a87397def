"""``plan``: the changes of a migration, its refusals, and the pods at stake."""

from __future__ import annotations

from typing import Final

from migrator import __version__, errors
from migrator.cli import connect, dialogue, flags, log
from migrator.cli.stdout import as_json, write
from migrator.cli.target import choose_target
from migrator.cluster import Cluster
from migrator.planning.model import Plan, SetState
from migrator.planning.options import AUTO, PlanOptions, source_of
from migrator.planning.outlook import Outlook, Target, newer_releases, recreated_by_installed
from migrator.releases.table import named, releases
from migrator.report import json, page, status, table
from migrator.report.json import PlanHeader
from migrator.run import preview
from migrator.run.context import RunOptions, RunResult
from migrator.run.seen import Observation

EXIT_CHANGES: Final = 10


@flags.command(
    "plan",
    "Show what a migration would change and what blocks it.",
    """
    grove-migrator plan                        # the operator, newer releases
    grove-migrator plan --to v0.1.0-alpha.11   # what that upgrade needs
    grove-migrator plan --to v0.1.0-alpha.11 -o html --group-by team > plan.html
    grove-migrator plan --to v0.1.0-alpha.11 -n inference
    grove-migrator plan --to v0.1.0-alpha.11 --detailed-exitcode
    # A dump has all kinds of Grove and the pods:
    kubectl get pods,$(kubectl api-resources --verbs=list -o name |
      grep 'grove.io$' | paste -sd, -) -A -o yaml > dump.yaml
    """,
)
@flags.option(
    "-f, --filename DUMP",
    "Read the output of kubectl get instead of a cluster (YAML or JSON; - is stdin). May be repeated.",
    multiple=True,
)
@flags.target("What the next operator expects. Without it: a row for each scheme of newer releases.")
@flags.TO_BINARY
@flags.SOURCE
@flags.output_format(["table", "json", "html"], "A table, data for scripts, or (with a target) a page for your team.")
@flags.option("--group-by LABEL", "With -o html: also totals for each value of this label of the PodCliqueSets.")
@flags.option(
    "--detailed-exitcode", "Exit with 3 on refusals or an empty selection, and with 10 on changes; needs a target."
)
@flags.option("-n, --namespace NAME", "Only PodCliqueSets in this namespace; a run migrates all of them.")
@flags.CLUSTER
def plan(
    *,
    filename: tuple[str, ...],
    to: str | None,
    to_binary: str | None,
    source: str,
    output: str,
    group_by: str | None,
    detailed_exitcode: bool,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Show what a migration would change, what blocks it, and what the upgrade recreates without it.

    Nothing is written. The exit code is 0, with refusals too, unless --detailed-exitcode asks for more.
    """
    _refuse_flags_without_effect(filename, output, has_target=to is not None or to_binary is not None)
    chosen = choose_target(to, to_binary)
    any_release = named(releases()[-1].name)  # a first look plans for every release
    options = PlanOptions(chosen or any_release, source_of(source), namespace=namespace)
    result: Plan | None = None
    progress = connect.progress()
    if filename:
        with progress.stage("reading"):
            cluster: Cluster = connect.read_dump(*filename)
    else:  # nothing is drawn: a credential plugin may ask for a login
        cluster = connect.connect(kubeconfig, context)
    header = PlanHeader(cluster.name, connect.now().isoformat("T", "seconds"), __version__)
    hint = ". With permissions in one namespace, plan that one with -n." if namespace is None else ""
    with progress.stage("planning"), connect.naming_the_account(cluster, hint):
        try:
            if chosen is None:
                text = _first_look(cluster, options, output, header)
            else:
                result = preview.preview(cluster, options, now=connect.now)
                text = _plan_text(result, output, header, group_by)
        except RecursionError as error:  # newer Pythons read what is deeper than they can walk
            raise errors.InputError("an object is nested too deeply") from error
    is_empty = result is not None and not result.set_plans and namespace is not None
    if is_empty:
        log.write_warning("empty_selection", f"Namespace {namespace} has no PodCliqueSet (-n).")
    if group_by and result and not any(group_by in one.tree.pcs.labels for one in result.set_plans):
        log.write_warning("unknown_label", f"No PodCliqueSet has the label {group_by} (--group-by).")
    write(text)
    if result is None or not detailed_exitcode:
        return 0
    if result.refusals or is_empty:
        return errors.Refused.exit_code
    return EXIT_CHANGES if result.number_of(SetState.MIGRATE) else 0


def _refuse_flags_without_effect(dumps: tuple[str, ...], output_format: str, *, has_target: bool) -> None:
    if dumps:
        flags.refuse_flags("names a cluster, and -f reads a file: leave one of them out.", "kubeconfig", "context")
    if output_format != "html":
        flags.refuse_flags("goes with -o html.", "group_by")
    if not has_target:
        flags.refuse_flags("needs a target: give --to.", "detailed_exitcode")
        if output_format == "html":
            raise errors.UsageError("-o html needs a target: give --to or --to-binary.")


def _first_look(cluster: Cluster, options: PlanOptions, output_format: str, header: PlanHeader) -> str:
    """The cluster as it is, and every release that an upgrade may lead to."""
    look, targets, seen = preview.first_look(cluster, options, now=connect.now)
    if output_format == "json":
        return as_json(json.first_look_json(look, targets, str(options.source or AUTO), header))
    plans = list(targets)
    newer = newer_releases(plans, look.running)
    if look.resumes:
        commands: tuple[str, ...] = (flags.next_command("run", *look.resumes, "--stop-operator"),)
    else:
        commands = _after_run(cluster, seen, look.reached) or (_plan_or_releases(look, plans, newer),)
    return status.outlook_text(look, plans, newer, commands=commands)


def _plan_or_releases(look: Outlook, targets: list[Target], newer: list[str]) -> str:
    """The plan of the installed release if the stored hashes are not its own; otherwise that of the newest one."""
    newest = newer[-1] if newer else None
    release = look.installed if recreated_by_installed(look, targets).pods else newest
    return flags.next_command("plan", "--to", release) if release else flags.next_command("releases")


def _after_run(cluster: Cluster, seen: Observation, reached: Plan | None) -> tuple[str, ...]:
    """The commands that the last run, which has ended, printed, if sets are as it left them and none is to migrate."""
    last = seen.record
    if last is None or reached is None or reached.number_of(SetState.MIGRATE):
        return ()
    if reached.set_plans and not reached.number_of(SetState.DONE):  # an old operator has taken all of it back
        return ()
    options = RunOptions(PlanOptions(named(last.target)))
    result = RunResult(reached, operator=seen.operator)
    return dialogue.ending(cluster, result, options, "--to", last.target).commands


def _plan_text(result: Plan, output_format: str, header: PlanHeader, group_by: str | None) -> str:
    if output_format == "json":
        return as_json(json.plan_json(result, header))
    migrates = result.number_of(SetState.MIGRATE) and not result.refusals
    following = flags.next_command("run", "--stop-operator") if migrates else ""
    skipping = flags.next_command("run", "--stop-operator", "--skip-refused")
    if output_format == "html":
        return page.render(result, header, group_by=group_by, next_command=following, skipping=skipping)
    return table.plan_text(result, next_command=following, skipping=skipping)
