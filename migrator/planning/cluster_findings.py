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
    message = (
        f"{len(pending)} PodCliqueSets outside the selection still need this migration, {pending[0].tree.ref} among "
        "them: the operator serves the whole cluster and would recreate their pods; run without -n and -l, or "
        "--allow GM-201"
    )
    refuses = not options.describes and "GM-201" not in options.allow
    return [judge("GM-201", pending[0].tree.ref, None, message, refuses=refuses)]


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
