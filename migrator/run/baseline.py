"""From a tree's plan to its record: a table of hashes and a baseline. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from migrator.grove.hash_fields import PROGRESS_FIELDS, stored_hashes
from migrator.grove.objects import PodClique, PodCliqueScalingGroup, PodCliqueSet, Tree
from migrator.planning.model import AlreadyNew, SetPlan, Table
from migrator.planning.planner import template_digest
from migrator.run.tables import Baseline, CliqueBaseline, Replicas


def table_of(plan: SetPlan, run: str = "") -> Table:
    """The table of a tree that will be written to; raises ``ValueError`` for a plan without source or hashes."""
    source, target, pcs = plan.source_hashes, plan.target_hashes, plan.tree.pcs
    if plan.source is None or source is None or target is None:
        raise ValueError(f"{pcs.ref} has no source, so its hashes cannot be translated")
    kept = tuple(
        AlreadyNew(item.ref, item.field, item.value)
        for item in stored_hashes(plan.tree)
        if item.value == target.of(item) and item.value != source.of(item)
    )
    return Table(
        namespace=pcs.ref.namespace,
        name=pcs.ref.name,
        uid=pcs.ref.uid,
        generation=pcs.generation,
        source=plan.source,
        target=plan.target,
        source_hashes=source,
        target_hashes=target,
        template_digest=template_digest(pcs),
        kept=kept,
        run=run,
    )


def baseline_of(tree: Tree, run: str = "") -> Baseline:
    """The state with which ``verify`` compares a tree after the upgrade."""
    return Baseline(
        uid=tree.ref.uid,
        run=run,
        pod_cliques={clique.ref.name: _clique(clique) for clique in tree.staying},
        scaling_groups={group.ref.name: replicas_of(group) for group in tree.scaling_groups},
        status=replicas_of(tree.pcs),
    )


def pod_id(uid: str) -> str:
    """8 bytes of a pod's uid, in hexadecimal."""
    return blake2b(uid.encode(), digest_size=8).hexdigest()


def newest_update(status: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The field with the progress of an object's newest update, and the progress; empty if there was none."""
    updates = ((name, status.get(name) or {}) for name in PROGRESS_FIELDS)
    return next((update for update in updates if update[1].get("updateStartedAt")), (PROGRESS_FIELDS[0], {}))


def replicas_of(item: PodCliqueSet | PodCliqueScalingGroup | PodClique) -> Replicas:
    """The replicas in an object's status."""
    _, progress = newest_update(item.status)
    started = progress.get("updateStartedAt")
    return Replicas(item.status.get("updatedReplicas"), item.status.get("replicas"), started and str(started))


def _clique(pod_clique: PodClique) -> CliqueBaseline:
    live = (pod_id(pod.ref.uid) for pod in pod_clique.pods if not pod.terminating)
    return CliqueBaseline(tuple(sorted(live)), replicas_of(pod_clique))
