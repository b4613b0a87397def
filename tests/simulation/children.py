"""What an operator makes and removes below a set because of replicas, not of hashes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from testbed.trees import Hashes, Object, grow, of_kind
from tests.simulation.cluster import Key, key_of
from tests.support.memory_store import copied

_GROUPS: Final = "PodCliqueScalingGroup"
_PART_OF: Final = "app.kubernetes.io/part-of"
_GROUP: Final = "grove.io/podcliquescalinggroup"


class Operator(Protocol):
    """What is asked of an operator here."""

    objects: dict[Key, Object]

    def owned(self, kind: str, owner: Object) -> list[Object]:
        """The objects of a kind that another controls."""

    def add(self, item: Object, owner: Object) -> None:
        """A new object, controlled by another."""

    def remove(self, item: Object) -> None:
        """Take an object away, and all that it owns."""


def sync(operator: Operator, pcs: Object, hashes: Hashes) -> None:
    """Make what the template and the replicas ask for and is missing, remove what is there beyond that.

    ``podcliqueset/components/podclique/podclique.go:Sync``,
    ``podcliquescalinggroup/components/podclique/sync.go:createExpectedPCLQs``; a scaling group that exists keeps its
    own replicas. No hash is compared here, but what is new gets those of the present template.
    """
    groups = operator.owned(_GROUPS, pcs)
    names = _expected(pcs, {group["metadata"]["name"]: group["spec"]["replicas"] for group in groups})
    for owner in (pcs, *groups):
        for child in (*operator.owned(_GROUPS, owner), *operator.owned("PodClique", owner)):
            if child["metadata"]["name"] not in names:
                operator.remove(child)
    namespace = pcs["metadata"]["namespace"]
    if all(any((kind, namespace, name) in operator.objects for kind in (_GROUPS, "PodClique")) for name in names):
        return
    owners = {pcs["metadata"]["name"]: pcs}
    for item in _grown(pcs, groups, hashes):
        labels, key = item["metadata"]["labels"], key_of(item)
        if key[2] in names and key not in operator.objects:
            operator.add(item, owners[labels.get(_GROUP, labels[_PART_OF])])
        if key in operator.objects:
            owners[key[2]] = operator.objects[key]


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
