"""What was found of no tree in particular: the selection, and what could not be read. Pure."""

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
    """What lies outside the one namespace that could be read."""
    if snapshot.only is None:
        return []
    message = (
        f"only namespace {snapshot.only} may be read: sets in other namespaces are not seen and not counted; `run` "
        "needs rights in the whole cluster, see `check run`"
    )
    return [warn("GM-201", None, None, message)]


def operator_unseen(why: str) -> list[Finding]:
    """What is not known of an operator that may not be looked for."""
    remedy = "ask for the rights of `check plan`"
    return [
        warn("GM-122", None, None, f"not seen: whether an operator is running ({why}); {remedy}"),
        warn("GM-202", None, None, f"not seen: whether the authorizer webhook refuses label changes; {remedy}"),
    ]


def record_unseen(why: str) -> Finding:
    """What is not known of a record that may not be read."""
    message = f"not seen: what an earlier run recorded, which decides about sets that it left half-written ({why})"
    return warn("GM-205", None, None, f"{message}; ask for the rights of `check plan`")


def unlisted(snapshot: Snapshot, options: PlanOptions) -> list[Finding]:
    """Kinds that were not searched for hashes."""
    refuses = not options.describes and "GM-137" not in options.allow
    return [
        judge(
            "GM-137",
            None,
            None,
            f"{kind} may not be listed, so nobody can see whether an operator keeps hashes there: grant list on the "
            f"API groups {' and '.join(GROUPS)}, or --allow GM-137",
            refuses=refuses,
        )
        for kind in snapshot.unlisted
    ]


def lacking_kinds(snapshot: Snapshot) -> list[Finding]:
    """Kinds that a dump was made without."""
    if not snapshot.lacking:
        return []
    message = (
        f"the dump has pods, but no {' and no '.join(snapshot.lacking)}: a hash that an operator keeps there goes "
        f"unseen; dump again with `{DUMP_COMMAND}`"
    )
    return [warn("GM-138", None, None, message)]


def not_checked() -> list[Finding]:
    """What a dump cannot show."""
    return [
        warn("GM-122", None, None, "not checked on a dump: whether an operator is running"),
        warn("GM-202", None, None, "not checked on a dump: whether the authorizer webhook refuses label changes"),
    ]


def orphan(ref: Ref, reason: str) -> Finding:
    """An object of Grove's that belongs to no set."""
    return warn("GM-124", ref, None, f"{ref} is labelled as Grove's, but {reason}; it is left alone")
