"""Grove's objects in the hands of an operator: who owns what, what is made, and what goes with what is removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from migrator.grove.objects import (
    LABEL_PART_OF,
    LABEL_POD_CLIQUE,
    LABEL_POD_TEMPLATE_HASH,
    LABEL_SCALING_GROUP,
    LABEL_SCALING_GROUP_REPLICA_INDEX,
    LABEL_SET_REPLICA_INDEX,
)
from testbed.trees import Hashes, Object, controlled_by, grow, of_kind
from tests.faults.cluster import Key, key_of
from tests.support.memory_objects import copied

FOREVER: Final = 10**9
_GROUPS: Final = "PodCliqueScalingGroup"


@dataclass
class OwnershipTree:
    """The objects, which are changed in place.

    ``now`` is what is written as the time. ``deleted`` are the pods that were replaced, by name; those that a scale-in
    or the end of a set takes away are not among them. ``left`` is how many may still be replaced.
    """

    objects: dict[Key, Object]
    now: str
    deleted: list[str] = field(default_factory=list)
    left: int = FOREVER
    _names: Iterator[int] = field(default_factory=lambda: count(1))

    def all(self, kind: str) -> list[Object]:
        """The objects of a kind, by namespace and name."""
        return [item for key, item in sorted(self.objects.items()) if key[0] == kind]

    def owned(self, kind: str, owner: Object) -> list[Object]:
        """The objects of a kind that another controls."""
        uid = owner["metadata"]["uid"]
        return [
            item
            for item in self.all(kind)
            if any(ref["uid"] == uid for ref in item["metadata"].get("ownerReferences") or ())
        ]

    def replace(self, pods: Sequence[Object]) -> bool:
        """Delete pods; others are made later. Returns whether all of them are gone, or the operator ended before."""
        for pod in pods:
            if self.left <= 0:
                return False
            self.left -= 1
            self.deleted.append(pod["metadata"]["name"])
            del self.objects[key_of(pod)]
        return True

    def remove(self, item: Object) -> None:
        """Take an object away, and all that it owns."""
        self.objects.pop(key_of(item), None)
        for kind in ("PodCliqueScalingGroup", "PodClique", "Pod"):
            for child in self.owned(kind, item):
                self.remove(child)

    def add(self, item: Object, owner: Object) -> None:
        """A new object, controlled by another."""
        metadata = item["metadata"]
        metadata["uid"] = f"uid-{metadata['name']}-{self.now}"
        metadata["ownerReferences"] = controlled_by(owner)
        self.objects[key_of(item)] = item

    def create_pod(self, pod_clique: Object) -> None:
        """A new pod: it gets all labels of its PodClique (``podclique/components/pod/pod.go:getLabels``)."""
        metadata = pod_clique["metadata"]
        names = (f"{metadata['name']}-n{number}" for number in self._names)
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": next(name for name in names if ("Pod", metadata["namespace"], name) not in self.objects),
                "namespace": metadata["namespace"],
                "labels": {**metadata["labels"], LABEL_POD_CLIQUE: metadata["name"]},
                "creationTimestamp": self.now,
            },
            "spec": {"containers": containers_of(pod_clique["spec"])},
            "status": {"phase": "Running"},
        }
        self.add(pod, pod_clique)


def sync(tree: OwnershipTree, pcs: Object, hashes: Hashes) -> None:
    """Make what the template and the replicas ask for and is missing, remove what is there beyond that.

    ``podcliqueset/components/podclique/podclique.go:Sync``,
    ``podcliquescalinggroup/components/podclique/sync.go:createExpectedPCLQs``; a scaling group that exists keeps its
    own replicas. No hash is compared here, but what is new gets those of the present template.
    """
    groups = tree.owned(_GROUPS, pcs)
    names = _expected(pcs, {group["metadata"]["name"]: group["spec"]["replicas"] for group in groups})
    for owner in (pcs, *groups):
        for child in (*tree.owned(_GROUPS, owner), *tree.owned("PodClique", owner)):
            if child["metadata"]["name"] not in names:
                tree.remove(child)
    namespace = pcs["metadata"]["namespace"]
    if all(any((kind, namespace, name) in tree.objects for kind in (_GROUPS, "PodClique")) for name in names):
        return
    owners = {pcs["metadata"]["name"]: pcs}
    for item in _grown(pcs, groups, hashes):
        labels, key = item["metadata"]["labels"], key_of(item)
        if key[2] in names and key not in tree.objects:
            tree.add(item, owners[labels.get(LABEL_SCALING_GROUP, labels[LABEL_PART_OF])])
        if key in tree.objects:
            owners[key[2]] = tree.objects[key]


def _expected(pcs: Object, replicas: Mapping[str, int]) -> set[str]:
    """The names of all scaling groups and PodCliques (``operator/api/common/namegen.go``)."""
    template, name = pcs["spec"]["template"], pcs["metadata"]["name"]
    configs = template.get("podCliqueScalingGroups") or ()
    grouped = {clique for config in configs for clique in config["cliqueNames"]}
    found = set()
    for index in range(pcs["spec"].get("replicas", 1)):
        base = f"{name}-{index}"
        found |= {f"{base}-{clique['name']}" for clique in template["cliques"] if clique["name"] not in grouped}
        for config in configs:
            group = f"{base}-{config['name']}"
            found.add(group)
            for number in range(replicas.get(group, config.get("replicas", 1))):
                found |= {f"{group}-{number}-{clique}" for clique in config["cliqueNames"]}
    return found


def _grown(pcs: Object, groups: list[Object], hashes: Hashes) -> Iterator[Object]:
    """Scaling groups, with the replicas that they begin with, and then PodCliques for the most that any has."""
    configs = pcs["spec"]["template"].get("podCliqueScalingGroups") or ()
    yield from of_kind(grow(pcs, hashes), _GROUPS)
    template = copied(pcs)
    most = max((group["spec"]["replicas"] for group in (*groups, *({"spec": c} for c in configs))), default=1)
    for config in template["spec"]["template"].get("podCliqueScalingGroups") or ():
        config["replicas"] = most
    yield from of_kind(grow(template, hashes), "PodClique")


def containers_of(spec: Object) -> list[Object]:
    """What a pod of a PodClique with this spec runs, by name and image."""
    found: Sequence[Object] = (spec.get("podSpec") or {}).get("containers") or ()
    return [{"name": item["name"], "image": item["image"]} for item in found]


def clique_of(item: Object) -> str:
    """The clique of a PodClique or of a pod.

    ``operator/internal/utils/componentname.go:GetPodCliqueNameFromPodCliqueFQN``.
    """
    labels = item["metadata"]["labels"]
    name = labels.get(LABEL_POD_CLIQUE, item["metadata"]["name"])
    if LABEL_SCALING_GROUP in labels:
        prefix = f"{labels[LABEL_SCALING_GROUP]}-{labels[LABEL_SCALING_GROUP_REPLICA_INDEX]}-"
    else:
        prefix = f"{labels[LABEL_PART_OF]}-{labels[LABEL_SET_REPLICA_INDEX]}-"
    return str(name.removeprefix(prefix))


def hash_of(item: Object) -> str | None:
    value = item["metadata"].get("labels", {}).get(LABEL_POD_TEMPLATE_HASH)
    return value if isinstance(value, str) else None
