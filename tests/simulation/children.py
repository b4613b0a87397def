"""What an operator makes and removes below a set because of replicas, not of hashes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from testbed.trees import Hashes, Object, grow, of_kind
from tests.simulation.cluster import key_of
from tests.simulation.tree import GROUP, PART_OF, Tree
from tests.support.memory_objects import copied

_GROUPS: Final = "PodCliqueScalingGroup"


def sync(tree: Tree, pcs: Object, hashes: Hashes) -> None:
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
            tree.add(item, owners[labels.get(GROUP, labels[PART_OF])])
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
