"""The way back: the plan of ``run --revert``. Pure.

Every target value becomes the source's again, except those that were the target's before the run.
"""

from __future__ import annotations

from collections.abc import Mapping

from migrator.errors import UsageError
from migrator.grove.hash_fields import stored_hashes
from migrator.grove.objects import Snapshot, Tree
from migrator.hashing import schemes
from migrator.planning.detect import Pair, Verdict, hashes_of
from migrator.planning.guards.base import report
from migrator.planning.model import Plan, SetPlan, Table
from migrator.planning.options import AUTO, Direction, PlanOptions, direction
from migrator.planning.planner import changes_of, to_do, written_by


def make_revert(snapshot: Snapshot, options: PlanOptions, *, tables: Mapping[str, Table]) -> Plan:
    """Plan the way back of all sets of a migrated cluster, whichever are selected.

    ``--from`` and ``--to`` must be those of the run that is undone, and ``tables`` its tables, by PodCliqueSet uid. A
    table has the hashes from before any later edit. If there is none, ``--from`` must name the source. Values of
    neither scheme stay as they are, and so does a set that is being deleted.
    """
    way = direction(options)
    if not tables and options.source == AUTO and snapshot.trees:
        raise UsageError("--revert found no record of that run: name the scheme or release to return to with --from")
    present = (tree for tree in snapshot.trees if not tree.pcs.terminating)
    trees = (tree for tree in present if options.source != AUTO or tree.ref.uid in tables)
    back = tuple(_turn_back(tree, way, tables.get(tree.ref.uid)) for tree in trees)
    return Plan(options.source, options.target, back)


def _turn_back(tree: Tree, way: Direction, table: Table | None) -> SetPlan:
    old = schemes.by_name(table.source) if table is not None else way.candidates[0]
    new = way.target_of(old)
    hashes = hashes_of(tree.pcs)
    pairs = [Pair(hashes(new), hashes(old), tree.pcs.on_delete)]
    if table is not None:
        pairs.append(Pair(table.target_hashes, table.source_hashes, tree.pcs.on_delete))
    changes = changes_of(stored_hashes(tree), *pairs)
    if table is not None:
        changes = written_by(table, changes)
    which = f"which is neither {old.name}'s nor {new.name}'s; it is left alone"
    findings = (
        report("GM-112", item.ref, item.field, f"{item.ref} holds {item.value}, {which}")
        for item in stored_hashes(tree)
        if {pair.verdict(item) for pair in pairs}.isdisjoint({Verdict.SOURCE, Verdict.TARGET})
    )
    return SetPlan(
        tree=tree,
        source=new.name,
        target=old.name,
        state=to_do(changes),
        changes=changes,
        findings=tuple(findings),
        source_hashes=pairs[0].source,
        target_hashes=pairs[0].target,
    )
