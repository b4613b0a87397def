"""What the next operator recreates if nobody migrates: pods, and the GPUs that they hold.

Grove replaces pods per PodClique for standalone cliques and per scaling group replica for the others
(``operator/internal/controller/podclique/components/pod/rollingupdate.go`` and
``operator/internal/controller/podcliquescalinggroup/components/podclique/rollingupdate.go``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from migrator.grove.model import (
    LABEL_POD_TEMPLATE_HASH,
    LABEL_SCALING_GROUP_REPLICA_INDEX,
    BlastRadius,
    Pod,
    PodClique,
    SetHashes,
    Tree,
)
from migrator.hashing import quantity
from migrator.hashing.schemes import CANONICAL, Scheme

_GPU_RESOURCES: Final = frozenset({"nvidia.com/gpu", "amd.com/gpu"})
_GPU_PREFIXES: Final = ("nvidia.com/mig-", "gpu.intel.com/")
_LARGEST_SCALE: Final = 18  # as large as an int64 gets; nobody has more


def blast_radius(
    tree: Tree, *, source: Scheme, target: Scheme, source_hashes: SetHashes, target_hashes: SetHashes
) -> BlastRadius:
    """Count what an operator that speaks ``target`` recreates of this tree as it stands.

    Terminating pods are not counted, nor are GPUs that are claimed by dynamic resource allocation. OnDelete
    recreates nothing by itself. A canonical operator accepts the legacy hash of its own layout (PR #566), so where
    that is what the set stores it recreates nothing either.
    """
    pcs = tree.pcs
    current = {None, target_hashes.generation}  # an operator that finds no hash stores its own
    if target.algorithm == CANONICAL and source.minor == target.minor:
        current.add(source_hashes.generation)
    if pcs.on_delete or pcs.terminating or pcs.generation_hash in current:
        return BlastRadius()
    gpus = {str(clique.get("name")): clique_gpus(clique) for clique in pcs.cliques}
    replicas: dict[tuple[str | None, str | None], list[PodClique]] = defaultdict(list)
    total = BlastRadius()
    for pod_clique in tree.pod_cliques:
        if pod_clique.standalone:
            expected = _expected(pod_clique, target_hashes)
            total += _count(pod_clique, (pod for pod in _live(pod_clique) if pod.template_hash != expected), gpus)
        else:
            index = pod_clique.labels.get(LABEL_SCALING_GROUP_REPLICA_INDEX)
            replicas[pod_clique.owner_uid, index].append(pod_clique)
    for members in replicas.values():
        if any(member.labels.get(LABEL_POD_TEMPLATE_HASH) != _expected(member, target_hashes) for member in members):
            for member in members:
                total += _count(member, _live(member), gpus)
    return total


def live_pods(tree: Tree) -> int:
    """How many pods of the tree are not on their way out."""
    return sum(1 for pod_clique in tree.pod_cliques for _ in _live(pod_clique))


def clique_gpus(clique: Mapping[str, Any]) -> int:
    """GPUs of one pod of a clique: the larger of what its containers sum up to and its largest init container."""
    pod_spec = (clique.get("spec") or {}).get("podSpec") or {}
    containers = sum(_gpus(container) for container in pod_spec.get("containers") or ())
    init = max((_gpus(container) for container in pod_spec.get("initContainers") or ()), default=0)
    return max(containers, init)


def whole_units(token: object) -> int:
    """The value of a quantity as Go's ``Quantity.Value`` gives it, rounded up; 0 for ``null``.

    Raises :class:`~migrator.errors.DecodeError` for what is no quantity.
    """
    if token is None:
        return 0
    parsed = quantity.parse(str(token))
    digits, scale = parsed.value, parsed.scale
    if parsed.unscaled is not None:
        digits, scale = parsed.unscaled, -parsed.decimal_scale
    if not digits:
        return 0
    power = int(10 ** min(abs(scale), _LARGEST_SCALE))
    return digits * power if scale >= 0 else -(-digits // power)


def _expected(pod_clique: PodClique, hashes: SetHashes) -> str:
    """The template hash that the target gives a PodClique; empty, and so equal to none, for an unknown clique."""
    return hashes.templates.get(pod_clique.clique or "", "")


def _live(pod_clique: PodClique) -> Iterable[Pod]:
    return (pod for pod in pod_clique.pods if not pod.terminating)


def _count(pod_clique: PodClique, pods: Iterable[Pod], gpus: Mapping[str, int]) -> BlastRadius:
    number = sum(1 for _ in pods)
    return BlastRadius(number, number * gpus.get(pod_clique.clique or "", 0))


def _gpus(container: Mapping[str, Any]) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    return sum(
        whole_units(amount)
        for name, amount in limits.items()
        if name in _GPU_RESOURCES or str(name).startswith(_GPU_PREFIXES)
    )
