"""Every place of a tree that holds a hash (docs/how-it-works.md lists them as H1 to H9).

Grove: ``operator/api/core/v1alpha1/{podcliqueset,podclique,scalinggroup}.go`` and
``operator/api/common/labels.go``. A field that is absent or empty holds no hash and is left absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from migrator.grove.model import (
    LABEL_GENERATION_HASH,
    LABEL_POD_TEMPLATE_HASH,
    POINTER_GENERATION_HASH_LABEL,
    POINTER_TEMPLATE_HASH_LABEL,
    Place,
    Pod,
    PodClique,
    PodCliqueScalingGroup,
    PodGang,
    PodGangMap,
    StoredHash,
    Tree,
)

#: ``updateProgress`` since alpha.7, ``rollingUpdateProgress`` up to alpha.8; both are written where both are.
PROGRESS_FIELDS: Final = ("updateProgress", "rollingUpdateProgress")

POINTER_SET_GENERATION: Final = "/status/currentGenerationHash"
POINTER_TEMPLATE: Final = "/status/currentPodTemplateHash"
POINTER_GENERATION: Final = "/status/currentPodCliqueSetGenerationHash"

#: Stands for the clique of a PodClique whose labels do not name it; a template never has this name.
UNKNOWN_CLIQUE: Final = ""


def stored_hashes(tree: Tree) -> Iterator[StoredHash]:
    """Yield every stored hash of a tree in the order in which a migration writes them.

    Pods, PodClique labels, PodClique status, scaling groups, PodGangMaps and PodGangs (whose entries the
    operator compares with the set's hash), and last the PodCliqueSet's ``currentGenerationHash``: it is the
    commit record of the tree.
    """
    for pod_clique in tree.pod_cliques:
        for pod in pod_clique.pods:
            yield from pod_hashes(pod, pod_clique)
    for pod_clique in tree.pod_cliques:
        yield from pod_clique_label(pod_clique)
    for pod_clique in tree.pod_cliques:
        yield from pod_clique_status(pod_clique)
    for group in tree.scaling_groups:
        yield from scaling_group_status(group)
    for gang_map in tree.pod_gang_maps:
        yield from gang_map_entries(gang_map)
    for gang in tree.pod_gangs:
        yield from gang_label(gang)
    if tree.pcs.generation_hash is not None:
        yield StoredHash(tree.pcs.ref, Place.SET_GENERATION, POINTER_SET_GENERATION, tree.pcs.generation_hash, None)


def pod_hashes(pod: Pod, owner: PodClique) -> Iterator[StoredHash]:
    """A pod's label, unless the pod is being deleted."""
    if pod.template_hash and not pod.terminating:
        yield StoredHash(pod.ref, Place.POD_LABEL, POINTER_TEMPLATE_HASH_LABEL, pod.template_hash, _clique(owner))


def pod_clique_label(pod_clique: PodClique) -> Iterator[StoredHash]:
    """The label that new pods copy."""
    value = pod_clique.labels.get(LABEL_POD_TEMPLATE_HASH)
    if value:
        yield StoredHash(pod_clique.ref, Place.CLIQUE_LABEL, POINTER_TEMPLATE_HASH_LABEL, value, _clique(pod_clique))


def pod_clique_status(pod_clique: PodClique) -> Iterator[StoredHash]:
    """The current hashes, and those of a finished update: the operator copies the latter back."""
    ref, status, clique = pod_clique.ref, pod_clique.status, _clique(pod_clique)
    if value := _text(status, "currentPodTemplateHash"):
        yield StoredHash(ref, Place.CLIQUE_TEMPLATE, POINTER_TEMPLATE, value, clique)
    if value := _text(status, "currentPodCliqueSetGenerationHash"):
        yield StoredHash(ref, Place.CLIQUE_GENERATION, POINTER_GENERATION, value, None)
    for name, progress in _progress(status):
        if value := _text(progress, "podTemplateHash"):
            yield StoredHash(ref, Place.CLIQUE_PROGRESS, f"/status/{name}/podTemplateHash", value, clique)
        if value := _text(progress, "podCliqueSetGenerationHash"):
            yield StoredHash(ref, Place.CLIQUE_PROGRESS, f"/status/{name}/podCliqueSetGenerationHash", value, None)


def scaling_group_status(group: PodCliqueScalingGroup) -> Iterator[StoredHash]:
    """The generation hashes of a scaling group."""
    if value := _text(group.status, "currentPodCliqueSetGenerationHash"):
        yield StoredHash(group.ref, Place.GROUP_GENERATION, POINTER_GENERATION, value, None)
    for name, progress in _progress(group.status):
        if value := _text(progress, "podCliqueSetGenerationHash"):
            yield StoredHash(group.ref, Place.GROUP_PROGRESS, f"/status/{name}/podCliqueSetGenerationHash", value, None)


def gang_map_entries(gang_map: PodGangMap) -> Iterator[StoredHash]:
    """The generation hash of each entry of a PodGangMap (alpha.12 and later).

    Entries are addressed by position and identified by ``epoch``.
    """
    for index, entry in enumerate(gang_map.spec.get("entries") or ()):
        if isinstance(entry, Mapping) and (value := _text(entry, "podCliqueSetGenerationHash")):
            path = f"/spec/entries/{index}"
            epoch = _text(entry, "epoch")
            yield StoredHash(
                gang_map.ref,
                Place.GANG_MAP_ENTRY,
                f"{path}/podCliqueSetGenerationHash",
                value,
                None,
                identity=(f"{path}/epoch", epoch) if epoch else None,
            )


def gang_label(gang: PodGang) -> Iterator[StoredHash]:
    """The generation hash in a PodGang's label (alpha.12 and later), unless the PodGang is being deleted."""
    if (value := gang.labels.get(LABEL_GENERATION_HASH)) and not gang.terminating:
        yield StoredHash(gang.ref, Place.GANG_LABEL, POINTER_GENERATION_HASH_LABEL, value, None)


def _clique(pod_clique: PodClique) -> str:
    return pod_clique.clique or UNKNOWN_CLIQUE


def _progress(status: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in PROGRESS_FIELDS:
        progress = status.get(name)
        if isinstance(progress, Mapping):
            yield name, progress


def _text(mapping: Mapping[str, Any], key: str) -> str | None:
    value = mapping.get(key)
    return value if isinstance(value, str) and value else None
