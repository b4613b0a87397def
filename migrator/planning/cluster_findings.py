"""Findings about the cluster as a whole: the selection, and kinds that could not be read. Pure."""

from __future__ import annotations

from migrator.grove.model import Finding, Ref, Snapshot, TreePlan, TreeState
from migrator.grove.sweep import GROUPS
from migrator.grove.trees import DUMP_COMMAND
from migrator.planning.guards.base import judge, warn
from migrator.planning.options import PlanOptions


def narrowed(others: tuple[TreePlan, ...], options: PlanOptions) -> list[Finding]:
    """Sets outside ``-n`` and ``-l`` that need the migration too."""
    pending = [p for p in others if p.state in {TreeState.MIGRATE, TreeState.REFUSED}]
    if not pending:
        return []
    one = len(pending) == 1
    some = f"{len(pending)} PodCliqueSet{'' if one else 's'} outside the selection also need{'s' if one else ''}"
    message = (
        f"{some} this migration, {pending[0].tree.ref} for instance: the operator "
        "serves the whole cluster and would recreate their pods; give `run` neither -n nor -l, or --allow GM-201"
    )
    refuses = not options.describes and "GM-201" not in options.allow
    return [judge("GM-201", pending[0].tree.ref, None, message, refuses=refuses)]


def others_unseen(snapshot: Snapshot) -> list[Finding]:
    """Sets outside the only namespace that could be read."""
    if snapshot.only is None:
        return []
    message = (
        f"only namespace {snapshot.only} may be read: sets in other namespaces are neither seen nor counted; `run` "
        "needs rights in the whole cluster, see `check run`"
    )
    return [warn("GM-201", None, None, message)]


def operator_unseen(why: str) -> list[Finding]:
    """The checks that were left out, because the rights do not allow to look for an operator."""
    remedy = "ask for the rights of `check plan`"
    return [
        warn("GM-122", None, None, f"not seen: whether an operator is running ({why}); {remedy}"),
        warn("GM-202", None, None, f"not seen: whether the authorizer webhook refuses label changes; {remedy}"),
    ]


def record_unseen(why: str) -> Finding:
    """The record of an earlier run that the rights do not allow to read."""
    message = f"not seen: the record of an earlier run, which decides about half-written sets ({why})"
    return warn("GM-205", None, None, f"{message}; ask for the rights of `check plan`")


def unlisted(snapshot: Snapshot, options: PlanOptions) -> list[Finding]:
    """Kinds that were not searched for hashes."""
    refuses = not options.describes and "GM-137" not in options.allow
    remedy = f"grant list on the API groups {' and '.join(GROUPS)}, or --allow GM-137"
    message = f"may not be listed, so it was not searched for hashes of an operator: {remedy}"
    return [judge("GM-137", None, None, f"{kind} {message}", refuses=refuses) for kind in snapshot.unlisted]


def lacking_kinds(snapshot: Snapshot) -> list[Finding]:
    """Kinds that a dump lacks."""
    if not snapshot.lacking:
        return []
    message = (
        f"the dump has pods, but no {' and no '.join(snapshot.lacking)}: hashes in such objects are not seen; dump "
        f"again with `{DUMP_COMMAND}`"
    )
    return [warn("GM-138", None, None, message)]


def not_checked() -> list[Finding]:
    """The checks that a dump does not allow."""
    return [
        warn("GM-122", None, None, "not checked on a dump: whether an operator is running"),
        warn("GM-202", None, None, "not checked on a dump: whether the authorizer webhook refuses label changes"),
    ]


def orphan(ref: Ref, reason: str) -> Finding:
    """A Grove object without a set."""
    return warn("GM-124", ref, None, f"{ref} is labelled as Grove's, but {reason}; it is left alone")
