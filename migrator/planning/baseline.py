"""From a tree's plan to the table that is recorded of it: pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from migrator.grove.model import PodClique, PodCliqueScalingGroup, PodCliqueSet, TreePlan
from migrator.grove.places import PROGRESS_FIELDS, stored_hashes
from migrator.planning.planner import template_digest
from migrator.planning.tables import CliqueBaseline, Kept, ReplicaBaseline, Table


def table_of(plan: TreePlan) -> Table:
    """The table of a tree that will be written to; raises ``ValueError`` for one without source and hashes."""
    source, target, pcs = plan.source_hashes, plan.target_hashes, plan.tree.pcs
    if plan.source is None or source is None or target is None:
        raise ValueError(f"{pcs.ref} has no source, so nothing of it can be translated")
    kept = tuple(
        Kept(item.ref, item.field, item.value)
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
        baseline={pod_clique.ref.name: _clique(pod_clique) for pod_clique in plan.tree.pod_cliques},
        group_baseline={group.ref.name: _replicas(group) for group in plan.tree.scaling_groups},
        set_baseline=_replicas(pcs),
    )


def update_started(status: Mapping[str, Any]) -> str | None:
    """When an object's newest update began, as the operator wrote it; ``None`` if there was none."""
    for name in PROGRESS_FIELDS:
        started = (status.get(name) or {}).get("updateStartedAt")
        if started:
            return str(started)
    return None


def _clique(pod_clique: PodClique) -> CliqueBaseline:
    live = [pod.created for pod in pod_clique.pods if not pod.terminating]
    replicas = _replicas(pod_clique)
    return CliqueBaseline(
        pods=len(live),
        newest=max(live, default=""),
        updated_replicas=replicas.updated_replicas,
        replicas=replicas.replicas,
        update_started=replicas.update_started,
    )


def _replicas(item: PodCliqueSet | PodCliqueScalingGroup | PodClique) -> ReplicaBaseline:
    return ReplicaBaseline(
        updated_replicas=item.status.get("updatedReplicas"),
        replicas=item.status.get("replicas"),
        update_started=update_started(item.status),
    )
