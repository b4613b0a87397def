"""What Grove's objects say at one moment, and whether they have come to rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from migrator.grove.objects import LABEL_PART_OF, LABEL_POD_CLIQUE, LABEL_POD_TEMPLATE_HASH, LABEL_SCALING_GROUP
from testbed.controlplane.client import Object
from tests.faults.ownership import clique_of

GROVE: Final = "grove.io/v1alpha1"
SET: Final = "PodCliqueSet"
GROUP: Final = "PodCliqueScalingGroup"
CLIQUE: Final = "PodClique"
POD: Final = "Pod"
PROGRESS: Final = ("updateProgress", "rollingUpdateProgress")  # the second until alpha.8
_COUNTED: Final = ("replicas", "readyReplicas", "updatedReplicas")
_BUSY: Final = ("currentlyUpdating", "readyPodsSelectedToUpdate", "readyReplicaIndicesSelectedToUpdate")

Key = tuple[str, str]


@dataclass(frozen=True)
class Photo:
    """All sets with what belongs to them, by kind and name."""

    objects: Mapping[Key, Object]

    def of(self, kind: str) -> list[Object]:
        return [item for (found, _), item in sorted(self.objects.items()) if found == kind]

    def of_set(self, pcs: str) -> set[Key]:
        """A set and all that belongs to it, by kind and name."""
        parts = {key for key, item in self.objects.items() if _labels(item).get(LABEL_PART_OF) == pcs}
        return parts | {(SET, pcs)}

    def pods(self, pcs: str | None = None) -> dict[str, str]:
        """The names of pods that are not on their way out, by uid; all of them, or those of one set."""
        return {
            pod["metadata"]["uid"]: pod["metadata"]["name"]
            for pod in self.of(POD)
            if not pod["metadata"].get("deletionTimestamp") and pcs in (None, pod["metadata"]["labels"][LABEL_PART_OF])
        }

    def outdated(self, hashes: Mapping[str, Object]) -> set[str]:
        """The uids of pods whose label is not their template's hash, of hashes by set as the tool tells them."""
        found = set()
        for uid, name in self.pods().items():
            labels = self.objects[POD, name]["metadata"]["labels"]
            clique = clique_of(self.objects[CLIQUE, labels[LABEL_POD_CLIQUE]])
            if labels[LABEL_POD_TEMPLATE_HASH] != hashes[labels[LABEL_PART_OF]]["podTemplateHashes"][clique]:
                found.add(uid)
        return found

    def labels(self) -> dict[Key, str | None]:
        """The hash that each object carries as a label; a set's is in its status."""
        return {
            key: item["status"].get("currentGenerationHash")
            if key[0] == SET
            else item["metadata"]["labels"].get(LABEL_POD_TEMPLATE_HASH)
            for key, item in self.objects.items()
        }

    def updated_replicas(self) -> dict[Key, int]:
        return {key: item["status"].get("updatedReplicas", 0) for key, item in self.objects.items() if key[0] != POD}

    def updates(self) -> dict[Key, str]:
        """When the last update of each object began, if one ever did."""
        found = {}
        for key, item in self.objects.items():
            for progress in _progress(item):
                found[key] = str(progress["updateStartedAt"])
        return found

    def without_progress(self) -> set[Key]:
        """The standalone PodCliques without ``updateProgress``: never updated, or for the last time before alpha.7."""
        return {
            key
            for key, item in self.objects.items()
            if key[0] == CLIQUE and LABEL_SCALING_GROUP not in _labels(item) and not item["status"].get(PROGRESS[0])
        }

    def versions(self) -> dict[Key, str]:
        """What every write moves."""
        return {key: item["metadata"]["resourceVersion"] for key, item in self.objects.items()}

    def unrest(self) -> list[str]:
        """What still has to happen until an operator has no more to do, in words."""
        return [f"{kind} {name}: {reason}" for (kind, name), item in self.objects.items() for reason in self._why(item)]

    def _why(self, item: Object) -> Iterator[str]:
        metadata, status = item["metadata"], item["status"]
        if metadata.get("deletionTimestamp"):
            yield "is being deleted"
        if item["kind"] == POD:
            if not any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ()):
                yield "is not ready"
            return
        if status.get("observedGeneration") != metadata["generation"]:  # operators write it when all is made
            yield "its spec is not observed"
        for progress in _progress(item):
            if not progress.get("updateEndedAt") or any(progress.get(name) for name in _BUSY):
                yield "an update is in flight"
        pcs = self.objects[SET, _labels(item).get(LABEL_PART_OF, metadata["name"])]
        # It may hold pods of an older template for as long as nobody deletes them.
        on_delete = pcs["spec"].get("updateStrategy", {}).get("type") == "OnDelete"
        if item["kind"] == CLIQUE:
            yield from self._why_clique(item, on_delete=on_delete)
        wanted = pcs["status"].get("currentGenerationHash")
        current = wanted if item["kind"] == SET else status.get("currentPodCliqueSetGenerationHash")
        if not wanted or (current != wanted and LABEL_SCALING_GROUP not in _labels(item) and not on_delete):
            yield f"its generation hash is {current}, and its set's {wanted}"

    def _why_clique(self, item: Object, *, on_delete: bool) -> Iterator[str]:
        replicas, labels, status = item["spec"]["replicas"], item["metadata"]["labels"], item["status"]
        owned = [pod for pod in self.of(POD) if pod["metadata"]["labels"][LABEL_POD_CLIQUE] == item["metadata"]["name"]]
        counts = {name: status.get(name, 0) for name in (_COUNTED[:2] if on_delete else _COUNTED)}
        if len(owned) != replicas or set(counts.values()) != {replicas}:
            yield f"{len(owned)} of {replicas} pods; its status says {counts}"
        if status.get("currentPodTemplateHash") != labels.get(LABEL_POD_TEMPLATE_HASH) and not on_delete:
            yield "its current template hash is not its label's"


def take(items: Sequence[Object]) -> Photo:
    """A photo of these objects; one that nobody has reported of has an empty status."""
    return Photo({(item["kind"], item["metadata"]["name"]): {"status": {}, **item} for item in items})


def _labels(item: Object) -> Mapping[str, str]:
    return item["metadata"].get("labels") or {}


def _progress(item: Object) -> list[Mapping[str, Any]]:
    status = item["status"]
    return [status[name] for name in PROGRESS if status.get(name)]
