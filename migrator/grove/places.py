"""Every place of a tree that holds a hash (docs/how-it-works.md lists them as H1 to H9).

Grove: ``operator/api/core/v1alpha1/{podcliqueset,podclique,scalinggroup}.go`` and
``operator/api/common/labels.go``. A field that is absent or empty holds no hash and is left absent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

from migrator.grove.model import (
    LABEL_GENERATION_HASH,
    LABEL_POD_TEMPLATE_HASH,
    POINTER_TEMPLATE_HASH_LABEL,
    Place,
    PodClique,
    PodCliqueScalingGroup,
    PodGangMap,
    Ref,
    StoredHash,
    Tree,
)
from migrator.resources import pointer

#: ``updateProgress`` since alpha.7, ``rollingUpdateProgress`` up to alpha.8; an object may have both.
PROGRESS_FIELDS: Final = ("updateProgress", "rollingUpdateProgress")

POINTER_SET_GENERATION: Final = "/status/currentGenerationHash"

#: Stands for the clique of a PodClique whose labels do not name it; a template never has this name.
UNKNOWN_CLIQUE: Final = ""

_LABELS: Final = ("metadata", "labels")
_STATUS: Final = ("status",)
_GENERATION: Final = "podCliqueSetGenerationHash"
#: The keys of hashes of a clique's template; all others are of generation hashes.
_OF_TEMPLATE: Final = frozenset({LABEL_POD_TEMPLATE_HASH, "currentPodTemplateHash", "podTemplateHash"})
_CLIQUE_STATUS: Final = {
    "currentPodTemplateHash": Place.CLIQUE_TEMPLATE,
    "currentPodCliqueSetGenerationHash": Place.CLIQUE_GENERATION,
}
_CLIQUE_UPDATE: Final = {"podTemplateHash": Place.CLIQUE_PROGRESS, _GENERATION: Place.CLIQUE_PROGRESS}
_GROUP_STATUS: Final = {"currentPodCliqueSetGenerationHash": Place.GROUP_GENERATION}
_GROUP_UPDATE: Final = {_GENERATION: Place.GROUP_PROGRESS}


def stored_hashes(tree: Tree) -> Iterator[StoredHash]:
    """Yield every stored hash of a tree in the order in which a migration writes them.

    Last is the PodCliqueSet's ``currentGenerationHash``, with which the operator compares the others: it is the commit
    record of the tree. Pods and PodGangs that are being deleted hold no hash.
    """
    for clique in tree.pod_cliques:
        name = _clique(clique)
        for pod in clique.pods:
            if pod.template_hash and not pod.terminating:
                yield StoredHash(pod.ref, Place.POD_LABEL, POINTER_TEMPLATE_HASH_LABEL, pod.template_hash, name)
    for clique in tree.pod_cliques:
        label = {LABEL_POD_TEMPLATE_HASH: Place.CLIQUE_LABEL}
        yield from _held(clique.ref, clique.labels, _LABELS, label, _clique(clique))
    for clique in tree.pod_cliques:
        yield from _in_status(clique, _CLIQUE_STATUS, _CLIQUE_UPDATE, _clique(clique))
    for group in tree.scaling_groups:
        yield from _in_status(group, _GROUP_STATUS, _GROUP_UPDATE)
    for gang_map in tree.pod_gang_maps:
        yield from _in_entries(gang_map)
    for gang in tree.pod_gangs:
        if not gang.terminating:
            yield from _held(gang.ref, gang.labels, _LABELS, {LABEL_GENERATION_HASH: Place.GANG_LABEL})
    yield from _held(tree.pcs.ref, tree.pcs.status, _STATUS, {"currentGenerationHash": Place.SET_GENERATION})


def _in_entries(gang_map: PodGangMap) -> Iterator[StoredHash]:
    """The hash of each entry of a PodGangMap, which is addressed by position and identified by ``epoch``."""
    for index, entry in enumerate(gang_map.spec.get("entries") or ()):
        path, epoch = ("spec", "entries", index), entry.get("epoch")
        identity = (pointer(*path, "epoch"), epoch) if isinstance(epoch, str) and epoch else None
        for stored in _held(gang_map.ref, entry, path, {_GENERATION: Place.GANG_MAP_ENTRY}):
            yield replace(stored, identity=identity)


def _in_status(
    item: PodClique | PodCliqueScalingGroup, current: Mapping[str, Place], update: Mapping[str, Place], clique: str = ""
) -> Iterator[StoredHash]:
    """The current hashes, and those of a finished update: the operator copies the latter back."""
    yield from _held(item.ref, item.status, _STATUS, current, clique)
    for name, progress in _progress(item.status):
        yield from _held(item.ref, progress, (*_STATUS, name), update, clique)


def _held(
    ref: Ref, holder: Mapping[str, Any], path: tuple[str | int, ...], places: Mapping[str, Place], clique: str = ""
) -> Iterator[StoredHash]:
    """The hashes of one holder by their keys; ``clique`` is the one whose template hash it has."""
    for key, place in places.items():
        value = holder.get(key)
        if isinstance(value, str) and value:
            yield StoredHash(ref, place, _pointer(*path, key), value, clique if key in _OF_TEMPLATE else None)


_pointer: Final = cache(pointer)  # thousands of objects share each


def _clique(pod_clique: PodClique) -> str:
    return sys.intern(pod_clique.clique or UNKNOWN_CLIQUE)  # one of each name, for thousands of pods


def _progress(status: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in PROGRESS_FIELDS:
        progress = status.get(name)
        if isinstance(progress, Mapping):
            yield name, progress
