"""``check``: whether the account has the rights that a plan or a run needs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from migrator.cli import output
from migrator.cli.options import (
    Choice,
    ClusterFlags,
    OperatorFlags,
    Session,
    cluster_options,
    log_options,
    operator_options,
    output_option,
)

if TYPE_CHECKING:
    from migrator.run.rights import Need
    from migrator.store import Store

EXIT_LACKING = 1


@click.command(
    short_help="Whether your rights suffice for a plan or a run.",
    epilog="""\b
    Examples:
      grove-migrator check
      grove-migrator check plan -n inference
      grove-migrator check run -o json
    """,
)
@click.argument("what", type=Choice(["plan", "run"]), default="run", metavar="[plan|run]")
@output_option("table", "json")
@operator_options
@cluster_options
@log_options
@click.pass_obj
def check(session: Session, *, what: str, form: str, operator: OperatorFlags, cluster: ClusterFlags) -> int:
    """Ask the API server for every right that `plan` or `run` needs; nothing is written.

    The default is `run`, with the rights of --stop-operator. `check plan -n` asks for the rights to plan one namespace.
    The exit code is 1 if the command does not work without a missing right.
    """
    from migrator.cli import progress, wiring  # noqa: PLC0415 - --help needs none of it
    from migrator.run import rights  # noqa: PLC0415
    from migrator.store import DryRun  # noqa: PLC0415

    with progress.shown(sys.stderr, quiet=session.quiet) as shown, shown.stage("asking"):
        store = wiring.connect(cluster, dry_run=DryRun.SERVER)
        answers = [(need, rights.allowed(store, need.right)) for need in _needs(store, what, operator, cluster)]
    lacking = [need for need, allowed in answers if not allowed]
    blocking = [need for need in lacking if not need.without]
    if form == "json":
        output.write(_json(what, getattr(store, "name", None), answers))
    else:
        _print(what, answers, lacking, blocking)
    return EXIT_LACKING if blocking else 0


def _needs(store: Store, what: str, operator: OperatorFlags, cluster: ClusterFlags) -> tuple[Need, ...]:
    from migrator.cli import wiring  # noqa: PLC0415 - --help needs none of it
    from migrator.errors import NotAuthorised  # noqa: PLC0415
    from migrator.grove.sweep import GROUPS  # noqa: PLC0415
    from migrator.run import rights  # noqa: PLC0415
    from migrator.run.operator import Found, find  # noqa: PLC0415

    flags = operator.of_run()
    try:
        found = find(store, flags)
    except NotAuthorised:
        found = Found()
    home = found.home or flags.namespace or wiring.DEFAULT_NAMESPACE
    kinds = [kind for group in GROUPS for kind in store.kinds(group)]
    if what == "plan":
        return rights.of_plan(kinds, home, cluster.namespace)
    return rights.of_run(kinds, home, found.operator, flags)


def _print(what: str, answers: list[tuple[Need, bool]], lacking: list[Need], blocking: list[Need]) -> None:
    from migrator.render.text import columns  # noqa: PLC0415 - --help needs none of it

    output.write(columns(("ALLOWED", "RIGHT"), [("yes" if allowed else "NO", str(n.right)) for n, allowed in answers]))
    output.write("\n")
    for without in dict.fromkeys(need.without for need in lacking if need.without):
        rights = [str(need.right) for need in lacking if need.without == without]
        output.write(f"without {', '.join(rights)}: {without}\n")
    if not lacking:
        output.write(f"you have every right that `{what}` needs\n")
    elif not blocking:
        output.write(f"`{what}` works without the missing rights\n")
    else:
        file = "manifests/planner/planner.yaml" if what == "plan" else "manifests/base/rbac.yaml"
        output.write(f"`{what}` does not work without {len(blocking)} of them: {file} grants all that it needs\n")


def _json(what: str, cluster: str | None, answers: list[tuple[Need, bool]]) -> str:
    rights = [
        {
            "verb": need.right.verb,
            "group": need.right.resource.group,
            "resource": need.right.resource.plural,
            "subresource": need.right.subresource or None,
            "namespace": need.right.namespace or None,
            "name": need.right.name or None,
            "allowed": allowed,
            "needed": not need.without,
        }
        for need, allowed in answers
    ]
    return json.dumps({"check": what, "cluster": cluster, "rights": rights}, indent=2) + "\n"
