"""``check``: whether the account has the rights that a plan or a run needs."""

from __future__ import annotations

import sys

from migrator.cli import output, progress, wiring
from migrator.cli.options import ClusterFlags, session
from migrator.errors import NotAuthorised
from migrator.grove.sweep import GROUPS
from migrator.render.text import columns
from migrator.run import rights
from migrator.run.operator import Found, OperatorFlags, find
from migrator.run.rights import Right
from migrator.store import DryRun, Store

EXIT_LACKING = 1

Answers = list[tuple[Right, bool]]


def main(*, what: str, form: str, operator: OperatorFlags, cluster: ClusterFlags, **_: object) -> int:
    """Ask for every right; the exit code is 1 if one is missing without which the command does not work."""
    with progress.shown(sys.stderr, quiet=session().quiet) as shown, shown.stage("asking"):
        store = wiring.connect(cluster, dry_run=DryRun.SERVER)
        needs = _needs(store, what, operator, cluster.namespace)
        answers = [(right, rights.allowed(store, right)) for right in needs]
    blocking = sum(not allowed and not right.without for right, allowed in answers)
    if form == "json":
        found = {"check": what, "cluster": getattr(store, "name", None), "rights": [_json(*one) for one in answers]}
        output.write(output.as_json(found))
    else:
        output.write(_text(what, answers, blocking))
    return EXIT_LACKING if blocking else 0


def _needs(store: Store, what: str, flags: OperatorFlags, namespace: str | None) -> tuple[Right, ...]:
    try:
        found = find(store, flags)
    except NotAuthorised:
        found = Found()
    home = found.home or flags.namespace or wiring.DEFAULT_NAMESPACE
    kinds = [kind for group in GROUPS for kind in store.kinds(group)]
    if what == "plan":
        return rights.of_plan(kinds, home, namespace)
    return rights.of_run(kinds, home, found.operator, flags)


def _text(what: str, answers: Answers, blocking: int) -> str:
    lacking = [right for right, allowed in answers if not allowed]
    lines = [""]
    for without in dict.fromkeys(right.without for right in lacking if right.without):
        rights_lacking = ", ".join(str(right) for right in lacking if right.without == without)
        lines.append(f"without {rights_lacking}: {without}")
    if not lacking:
        lines.append(f"you have every right that `{what}` needs")
    elif not blocking:
        lines.append(f"`{what}` works without the missing rights")
    else:
        file = "manifests/planner/planner.yaml" if what == "plan" else "manifests/base/rbac.yaml"
        lines.append(f"`{what}` does not work without {blocking} of them: {file} grants all that it needs")
    table = columns(("ALLOWED", "RIGHT"), [("yes" if allowed else "NO", str(right)) for right, allowed in answers])
    return table + "\n".join(lines) + "\n"


def _json(right: Right, allowed: bool) -> dict[str, str | bool | None]:  # noqa: FBT001 - an answer
    return {
        "verb": right.verb,
        "group": right.resource.group,
        "resource": right.resource.plural,
        "subresource": right.subresource or None,
        "namespace": right.namespace or None,
        "name": right.name or None,
        "allowed": allowed,
        "needed": not right.without,
    }
