"""What the next operator recreates if nobody migrates: pods, and the GPUs that they hold.

Grove replaces pods per PodClique for standalone cliques and per scaling group replica for the others
(``operator/internal/controller/podclique/components/pod/rollingupdate.go`` and
``operator/internal/controller/podcliquescalinggroup/components/podclique/rollingupdate.go``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from migrator.hashing.schemes import CANONICAL, Scheme
from migrator.model import (
    LABEL_POD_TEMPLATE_HASH,
    LABEL_SCALING_GROUP_REPLICA_INDEX,
    BlastRadius,
    Pod,
    PodClique,
    SetHashes,
    Tree,
)

_GPU_RESOURCES: Final = frozenset({"nvidia.com/gpu", "amd.com/gpu"})
_GPU_PREFIXES: Final = ("nvidia.com/mig-", "gpu.intel.com/")


def blast_radius(tree: Tree, *, source: Scheme | None, target: Scheme, hashes: SetHashes) -> BlastRadius:
    """Count what an operator that speaks ``target`` recreates of this tree as it stands.

    ``hashes`` are the tree's under ``target``. Terminating pods are not counted, nor are GPUs that are claimed
    by dynamic resource allocation. OnDelete recreates nothing by itself. A canonical operator accepts the
    legacy hash of its own layout (PR #566), so that step recreates nothing either.
    """
    pcs = tree.pcs
    if pcs.on_delete or pcs.terminating or pcs.generation_hash in {None, hashes.generation}:
        return BlastRadius()
    if source is not None and target.algorithm == CANONICAL and source.minor == target.minor:
        return BlastRadius()
    gpus = {str(clique.get("name")): clique_gpus(clique) for clique in pcs.cliques}
    total = BlastRadius()
    replicas: dict[tuple[str | None, str | None], list[PodClique]] = defaultdict(list)
    for pod_clique in tree.pod_cliques:
        if pod_clique.standalone:
            expected = hashes.templates.get(pod_clique.clique or "")
            total += _count(pod_clique, _live(pod_clique, unless=expected), gpus)
        else:
            index = pod_clique.labels.get(LABEL_SCALING_GROUP_REPLICA_INDEX)
            replicas[pod_clique.owner_uid, index].append(pod_clique)
    for members in replicas.values():
        if any(
            member.labels.get(LABEL_POD_TEMPLATE_HASH) != hashes.templates.get(member.clique or "")
            for member in members
        ):
            for member in members:
                total += _count(member, _live(member), gpus)
    return total


def live_pods(tree: Tree) -> int:
    """How many pods of the tree are not on their way out."""
    return sum(1 for pod_clique in tree.pod_cliques for pod in pod_clique.pods if not pod.terminating)


def clique_gpus(clique: Mapping[str, Any]) -> int:
    """GPUs of one pod of a clique: the larger of what its containers sum up to and its largest init container."""
    pod_spec = (clique.get("spec") or {}).get("podSpec") or {}
    containers = sum(_gpus(container) for container in pod_spec.get("containers") or ())
    init = max((_gpus(container) for container in pod_spec.get("initContainers") or ()), default=0)
    return max(containers, init)


def _live(pod_clique: PodClique, *, unless: str | None = None) -> Iterable[Pod]:
    return (pod for pod in pod_clique.pods if not pod.terminating and (unless is None or pod.template_hash != unless))


def _count(pod_clique: PodClique, pods: Iterable[Pod], gpus: Mapping[str, int]) -> BlastRadius:
    number = sum(1 for _ in pods)
    return BlastRadius(number, number * gpus.get(pod_clique.clique or "", 0))


def _gpus(container: Mapping[str, Any]) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    return sum(
        _whole(str(quantity))
        for name, quantity in limits.items()
        if name in _GPU_RESOURCES or str(name).startswith(_GPU_PREFIXES)
    )


def _whole(quantity: str) -> int:
    # Kubernetes admits only whole numbers of extended resources, so suffixes are a curiosity ("1k", "2000m").
    scale = {"k": Decimal(1000), "m": Decimal("0.001")}.get(quantity[-1:], Decimal(1))
    try:
        return int(Decimal(quantity.rstrip("km")) * scale)
    except (InvalidOperation, ValueError):
        return 0
