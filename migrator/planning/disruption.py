"""The disruption of an upgrade: the pods, and their GPUs, that the next operator recreates.

Grove replaces pods per PodClique for standalone cliques and per scaling group replica for the others
(``operator/internal/controller/podclique/components/pod/rollingupdate.go`` and
``operator/internal/controller/podcliquescalinggroup/components/podclique/rollingupdate.go``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from migrator.errors import DecodeError
from migrator.grove import objects
from migrator.hashing import quantity
from migrator.hashing.podcliqueset import SetHashes
from migrator.planning.detect import HashPair, next_has_begun
from migrator.planning.model import Disruption
from migrator.releases import quirks

_GPU_RESOURCES: Final = frozenset({"nvidia.com/gpu", "amd.com/gpu"})
_GPU_PREFIXES: Final = ("nvidia.com/mig-", "gpu.intel.com/")
_UPDATED_TO: Final = "podCliqueSetGenerationHash"
_LARGEST_SCALE: Final = 18  # as large as an int64 gets


def disruption_of(tree: objects.Tree, pair: HashPair, builds: Sequence[str], *, migrated: bool = False) -> Disruption:
    """The pods of a set that an operator of the target recreates; ``migrated``: once the set is.

    Then the source's hash of a field counts as the target's. Pods that are being deleted do not count. ``builds`` are
    those that the operator may be, oldest first; the least harmful one counts. GPUs claimed by dynamic resource
    allocation do not count.
    """
    pcs, is_rc1_or_newer = tree.pcs, quirks.from_rc1_on(builds)
    ended = [clique for _, cliques in quirks.gangs_below_minimum(tree) for clique in cliques] if is_rc1_or_newer else []
    terminated = [(clique, pod) for clique in ended for pod in clique.pods]
    if pcs.on_delete and quirks.knows_on_delete(builds):
        return _count(tree, terminated)
    new = [pair.target, *([pair.source] if migrated else [])]
    # An operator that finds no hash stores its own and updates nothing; to Go an empty text is not the absence of one.
    current = [None, pair.target.generation, *([pair.source.generation] if migrated or pair.is_accepted else [])]
    is_idle = pcs.status.get("currentGenerationHash") in current and not next_has_begun(tree, pair)
    updated = () if is_idle else _updated(tree, new)
    spurious = quirks.updates_without_progress(builds)
    stray = _stray(tree, new, spurious=spurious) if is_rc1_or_newer else ()
    return _count(tree, terminated, stray, updated)


def all_pods(tree: objects.Tree) -> Disruption:
    """All pods of the set that are not being deleted, and their GPUs."""
    return _count(tree, ((clique, pod) for clique in tree.pod_cliques for pod in clique.pods))


def _updated(tree: objects.Tree, new: Sequence[SetHashes]) -> Iterator[tuple[objects.PodClique, objects.Pod]]:
    """The pods that a rolling update replaces: those without one of the ``new`` hashes, and their scaling group's."""
    replicas: dict[tuple[str | None, str | None], list[objects.PodClique]] = defaultdict(list)
    for clique in tree.pod_cliques:
        if clique.standalone:
            yield from _without(clique, new)
        else:
            replicas[clique.owner_uid, clique.group_index].append(clique)
    for members in replicas.values():
        if any(member.template_hash not in _templates(member, new) for member in members):
            yield from ((member, pod) for member in members for pod in member.pods)


def _stray(
    tree: objects.Tree, new: Sequence[SetHashes], *, spurious: bool
) -> Iterator[tuple[objects.PodClique, objects.Pod]]:
    """The pods without one of the ``new`` hashes of each standalone PodClique that is updated though its set is idle.

    Grove: ``podclique/reconcilespec.go:shouldResetOrTriggerUpdate``. ``spurious``: all without progress are updated.
    """
    generations = [hashes.generation for hashes in new]
    for clique in tree.pod_cliques:
        status, progress = clique.status, clique.status.get("updateProgress")
        stored = progress.get(_UPDATED_TO) if progress else status.get("currentPodCliqueSetGenerationHash")
        if clique.standalone and (stored not in generations or (spurious and not progress)):
            yield from _without(clique, new)


def _without(clique: objects.PodClique, new: Sequence[SetHashes]) -> Iterator[tuple[objects.PodClique, objects.Pod]]:
    """The pods of a PodClique that have none of its ``new`` hashes."""
    templates = _templates(clique, new)
    return ((clique, pod) for pod in clique.pods if pod.template_hash not in templates)


def _templates(clique: objects.PodClique, new: Sequence[SetHashes]) -> set[str]:
    """The ``new`` hashes of a PodClique; none for one that the template lacks, so that every pod of it is replaced."""
    found = (hashes.templates.get(clique.clique) for hashes in new)
    return {template for template in found if template is not None}


def clique_gpus(clique: Mapping[str, Any]) -> int:
    """GPUs of one pod of a clique: the sum over its containers, or those of its largest init container if more."""
    pod_spec = objects.pod_spec_of(clique)
    containers = sum(_gpus(container) for container in pod_spec.get("containers") or ())
    init = max((_gpus(container) for container in pod_spec.get("initContainers") or ()), default=0)
    return max(containers, init)


def limits_of(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """The limits of a container by resource; empty if it has none."""
    return (container.get("resources") or {}).get("limits") or {}


def whole_units(token: object) -> int:
    """The value of a quantity as Go's ``Quantity.Value`` gives it, rounded up.

    It is 0 for ``null``, and for what is no quantity: whoever hashes the set names its path.
    """
    try:
        parsed = quantity.parse(str(token))
    except DecodeError:
        return 0
    digits, scale = parsed.value, parsed.scale
    if parsed.unscaled is not None:
        digits, scale = parsed.unscaled, -parsed.decimal_scale
    power = int(10 ** min(abs(scale), _LARGEST_SCALE))
    return digits * power if scale >= 0 else -(-digits // power)


def _count(tree: objects.Tree, *found: Iterable[tuple[objects.PodClique, objects.Pod]]) -> Disruption:
    """These pods, each once, but for those that go whatever happens: they, or their PodCliques, are being deleted.

    A finished pod counts with its GPUs, because it runs again: Grove compares its label as any other's and never asks
    for its phase (``computeUpdateWork``; operators before alpha.7 leave it if its PodClique is standalone).
    """
    staying = {clique.ref.uid for clique in tree.staying}
    pairs = ((clique, pod) for clique, pod in chain(*found) if not pod.terminating and clique.ref.uid in staying)
    pods = {pod.ref.uid: clique.clique for clique, pod in pairs}
    gpus = {str(clique.get("name")): clique_gpus(clique) for clique in tree.pcs.cliques} if pods else {}
    return Disruption(pods=len(pods), gpus=sum(gpus.get(clique, 0) for clique in pods.values()))


def _gpus(container: Mapping[str, Any]) -> int:
    return sum(
        whole_units(amount)
        for name, amount in limits_of(container).items()
        if name in _GPU_RESOURCES or str(name).startswith(_GPU_PREFIXES)
    )
