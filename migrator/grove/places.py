"""Every place of a tree that holds a hash (docs/how-it-works.md lists them as H1 to H9).

Grove: ``operator/api/core/v1alpha1/{podcliqueset,podclique,scalinggroup}.go`` and
``operator/api/common/labels.go``. A field that is absent or empty holds no hash and is left absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from migrator.grove.model import LABEL_GENERATION_HASH, POINTER_TEMPLATE_HASH_LABEL, Place, Ref, StoredHash, Tree
from migrator.resources import pointer

#: ``updateProgress`` since alpha.7, ``rollingUpdateProgress`` up to alpha.8; an object may have both.
PROGRESS_FIELDS: Final = ("updateProgress", "rollingUpdateProgress")

POINTER_SET_GENERATION: Final = "/status/currentGenerationHash"

#: Stands for the clique of a PodClique whose labels do not name it; a template never has this name.
UNKNOWN_CLIQUE: Final = ""

_OF_TEMPLATE: Final = frozenset({"currentPodTemplateHash", "podTemplateHash"})
_GENERATION: Final = "podCliqueSetGenerationHash"
_POINTER_GANG_LABEL: Final = pointer("metadata", "labels", LABEL_GENERATION_HASH)

#: The fields of a status that hold hashes, by progress field (empty for none): the key, JSON Pointer and place of each,
#: and whether it holds a template hash; all others hold generation hashes.
_Fields: TypeAlias = Mapping[str, Sequence[tuple[str, str, Place, bool]]]


def _status(current: Mapping[str, Place], update: Mapping[str, Place]) -> _Fields:
    """The current hashes, and those of an update, even of a finished one: the operator copies the latter back."""
    return {
        name: [
            (key, pointer(*filter(None, ("status", name, key))), place, key in _OF_TEMPLATE)
            for key, place in (update if name else current).items()
        ]
        for name in ("", *PROGRESS_FIELDS)
    }


_CLIQUE: Final = _status(
    {
        "currentPodTemplateHash": Place.CLIQUE_TEMPLATE,
        "currentPodCliqueSetGenerationHash": Place.CLIQUE_GENERATION,
    },
    {"podTemplateHash": Place.CLIQUE_PROGRESS, _GENERATION: Place.CLIQUE_PROGRESS},
)
_GROUP: Final = _status(
    {"currentPodCliqueSetGenerationHash": Place.GROUP_GENERATION}, {_GENERATION: Place.GROUP_PROGRESS}
)


def stored_hashes(tree: Tree) -> Iterator[StoredHash]:
    """Yield every stored hash of a tree in the order in which a migration writes them.

    Last is the PodCliqueSet's ``currentGenerationHash``, with which the operator compares the others: it is the commit
    record of the tree. Pods and PodGangs that are being deleted hold no hash.
    """
    for clique in tree.pod_cliques:
        name = clique.clique or UNKNOWN_CLIQUE
        for pod in clique.pods:
            if pod.template_hash and not pod.terminating:
                yield StoredHash(pod.ref, Place.POD_LABEL, POINTER_TEMPLATE_HASH_LABEL, pod.template_hash, name)
    for clique in tree.pod_cliques:
        if value := clique.template_hash:
            name = clique.clique or UNKNOWN_CLIQUE
            yield StoredHash(clique.ref, Place.CLIQUE_LABEL, POINTER_TEMPLATE_HASH_LABEL, value, name)
    for clique in tree.pod_cliques:
        yield from _in_status(clique.ref, clique.status, _CLIQUE, clique.clique or UNKNOWN_CLIQUE)
    for group in tree.scaling_groups:
        yield from _in_status(group.ref, group.status, _GROUP)
    yield from _in_gangs(tree)
    if (value := tree.pcs.generation_hash) is not None:
        yield StoredHash(tree.ref, Place.SET_GENERATION, POINTER_SET_GENERATION, value, None)


def _in_status(ref: Ref, status: Mapping[str, Any], known: _Fields, clique: str | None = None) -> Iterator[StoredHash]:
    for progress, fields in known.items():
        holder = status.get(progress) if progress else status
        if not holder:
            continue
        for key, field, place, of_template in fields:
            value = holder.get(key)
            if value and isinstance(value, str):
                yield StoredHash(ref, place, field, value, clique if of_template else None)


def _in_gangs(tree: Tree) -> Iterator[StoredHash]:
    """The entries of PodGangMaps, which are addressed by position and identified by ``epoch``; and labels."""
    for gang_map in tree.pod_gang_maps:
        for index, entry in enumerate(gang_map.spec.get("entries") or ()):
            value, epoch, place = entry.get(_GENERATION), entry.get("epoch"), Place.GANG_MAP_ENTRY
            identity = (pointer("spec", "entries", index, "epoch"), epoch) if epoch and isinstance(epoch, str) else None
            if value and isinstance(value, str):
                field = pointer("spec", "entries", index, _GENERATION)
                yield StoredHash(gang_map.ref, place, field, value, None, identity)
    for gang in tree.pod_gangs:
        value = gang.labels.get(LABEL_GENERATION_HASH)
        if value and not gang.terminating:
            yield StoredHash(gang.ref, Place.GANG_LABEL, _POINTER_GANG_LABEL, value, None)
