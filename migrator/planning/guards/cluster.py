"""Guards on the cluster or the dump as a whole: sets that are left out, and kinds that were not read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from migrator.errors import DUMP_COMMAND
from migrator.grove.objects import Snapshot
from migrator.grove.places import GROUPS
from migrator.planning import model
from migrator.planning.guards import base
from migrator.planning.options import PlanOptions
from migrator.words import count

NOT_LISTED: Final = base.Guard(
    "GM-137",
    "kind-not-listed",
    "You are not allowed to list a kind of Grove",
    f"grant list on the API groups {' and '.join(GROUPS)}",
    overridable=True,
    question="whether a kind of Grove holds hashes in unknown places",
)
MISSING: Final = base.Guard(
    "GM-138",
    "kinds-missing",
    "The dump lacks kinds that the cluster must have",
    f"dump again with `{DUMP_COMMAND}`",
    warns=True,
)
OTHER_SETS: Final = base.Guard(
    "GM-201",
    "other-sets",
    "Other sets need this migration too",
    "plan without -n; a run has no such flag",
    warns=True,
    question="whether other sets need this migration too",
)

GUARDS: Final[tuple[base.Guard, ...]] = (NOT_LISTED, MISSING, OTHER_SETS)


def check_cluster(snapshot: Snapshot, plans: Sequence[model.SetPlan], options: PlanOptions) -> Iterator[model.Finding]:
    """All findings about the cluster as a whole."""
    pending = [p for p in plans if p.state in {model.SetState.MIGRATE, model.SetState.REFUSED}]
    others = [p for p in pending if not options.selects(p.tree.pcs)]
    if others:
        sets = count(len(others), "PodCliqueSet")
        message = (
            f"the upgrade also affects {sets} in other namespaces: the operator serves the whole cluster and would "
            "recreate their pods"
        )
        yield OTHER_SETS.found(None, None, message)
    must_be_read = snapshot.only is None and any(p.changes for p in plans)
    for kind in snapshot.forbidden_kinds if must_be_read else ():
        message = f"you are not allowed to list {kind}, so grove-migrator did not search it for hashes"
        yield NOT_LISTED.found(None, None, message, overridable=True)
    if snapshot.missing_kinds:
        message = (
            f"the dump has pods, but no {' and no '.join(snapshot.missing_kinds)}: hashes in such objects are not seen"
        )
        yield MISSING.found(None, None, message)
