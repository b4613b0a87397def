"""Findings about the cluster as a whole: the selection, and what could not be read. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migrator.grove.model import Snapshot
from migrator.grove.sweep import GROUPS
from migrator.grove.trees import DUMP_COMMAND
from migrator.planning.guards.base import judge, warn
from migrator.planning.model import Finding, TreePlan, TreeState
from migrator.planning.options import PlanOptions


def cluster_findings(snapshot: Snapshot, plans: Sequence[TreePlan], options: PlanOptions) -> Iterator[Finding]:
    """Orphans, sets outside the selection, and kinds, namespaces and checks that were left out."""

    def forbids(code: str) -> bool:
        return not options.describes and code not in options.allow

    for orphan in snapshot.orphans:
        message = f"{orphan.ref} is Grove's, but {orphan.reason}; it is left alone"
        yield warn("GM-124", orphan.ref, None, message)
    pending = [p for p in plans if p.state in {TreeState.MIGRATE, TreeState.REFUSED}]
    others = [p for p in pending if not options.selection.matches(p.tree.pcs)]
    if others:
        some = "1 PodCliqueSet outside the selection also needs"
        if len(others) > 1:
            some = f"{len(others)} PodCliqueSets outside the selection also need"
        message = (
            f"{some} this migration, for instance {others[0].tree.ref}: the operator serves the whole cluster and "
            "would recreate their pods; give `run` neither -n nor -l, or --allow GM-201"
        )
        yield judge("GM-201", others[0].tree.ref, None, message, refuses=forbids("GM-201"))
    for kind in snapshot.unlisted if any(p.changes for p in plans) else ():
        message = (
            f"{kind} may not be listed, so it was not searched for hashes of an operator: grant list on the API groups "
            f"{' and '.join(GROUPS)}, or --allow GM-137"
        )
        yield judge("GM-137", None, None, message, refuses=forbids("GM-137"))
    if snapshot.only is not None:
        message = (
            f"only namespace {snapshot.only} may be read: sets in other namespaces are neither seen nor counted; `run` "
            "needs rights in the whole cluster, see `check run`"
        )
        yield warn("GM-201", None, None, message)
    if snapshot.lacking:
        message = (
            f"the dump has pods, but no {' and no '.join(snapshot.lacking)}: hashes in such objects are not seen; dump "
            f"again with `{DUMP_COMMAND}`"
        )
        yield warn("GM-138", None, None, message)
    if not snapshot.is_cluster and snapshot.trees:
        yield warn("GM-122", None, None, "not checked on a dump: whether an operator is running")
        yield warn("GM-202", None, None, "not checked on a dump: whether the authorizer webhook refuses label changes")


def operator_unseen(why: str) -> list[Finding]:
    """The checks that were left out, because the rights do not allow to look for an operator."""
    remedy = "ask for the rights of `check plan`"
    return [
        warn("GM-122", None, None, f"not checked: whether an operator is running ({why}); {remedy}"),
        warn("GM-202", None, None, f"not checked: whether the authorizer webhook refuses label changes; {remedy}"),
    ]


def record_unseen(why: str) -> Finding:
    """The record of an earlier run that the rights do not allow to read."""
    message = f"not checked: the record of an earlier run, which decides about half-written sets ({why})"
    return warn("GM-205", None, None, f"{message}; ask for the rights of `check plan`")
