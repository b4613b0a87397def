"""PodGangs and PodGangMaps of a grown tree, as an operator leaves them.

Names follow ``operator/api/common/namegen.go``: up to alpha.11 a base PodGang per PodCliqueSet replica and one for
each scaling group replica beyond ``minAvailable``; with PodGangMaps (pull request 778, alpha.12) the names carry the
epoch of the entry that they stand for, and map and PodGang hold the generation hash.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Object = dict[str, Any]

#: The line with PodGangMaps.
MAPPED = "podgangmap"
#: Of each replica's anchor entry, and of the entry of what lies beyond minAvailable.
ANCHOR_EPOCH, TAIL_EPOCH = "1767323045000000000", "1767323045000000001"


def gang_name(line: str, base: str, *, group: str = "", index: int = 0, least: int = 1) -> str:
    """Name the PodGang of a PodClique.

    ``base`` is ``<set>-<replica>``; ``group`` is a scaling group's configured name, ``index`` its replica and
    ``least`` its minAvailable.
    """
    beyond = bool(group) and index >= least
    if line == MAPPED:
        return f"{base}-{TAIL_EPOCH}-{group}-{index}" if beyond else f"{base}-{ANCHOR_EPOCH}"
    return f"{base}-{group}-{index - least}" if beyond else base


def pod_gangs(line: str, pcs: Object, objects: Sequence[Object]) -> list[Object]:
    """Return bodies (apiVersion, kind, name, labels, spec, status) of a tree's PodGangs, and of its PodGangMaps."""
    pods: dict[str, list[str]] = defaultdict(list)
    for item in objects:
        if item["kind"] == "Pod":
            pods[item["metadata"]["labels"]["grove.io/podclique"]].append(item["metadata"]["name"])
    gangs = [_pod_gang(line, pcs, name, cliques, pods) for name, cliques in sorted(_members(objects).items())]
    return gangs + (list(_maps(pcs, gangs)) if line == MAPPED else [])


def _members(objects: Sequence[Object]) -> dict[str, list[Object]]:
    members: dict[str, list[Object]] = defaultdict(list)
    for item in objects:
        if item["kind"] == "PodClique":
            members[item["metadata"]["labels"]["grove.io/podgang"]].append(item)
    return members


def _pod_gang(
    line: str, pcs: Object, name: str, cliques: Sequence[Object], pods: Mapping[str, Sequence[str]]
) -> Object:
    first = cliques[0]["metadata"]["labels"]
    labels = {
        "app.kubernetes.io/component": "podgang",
        "grove.io/podcliqueset-replica-index": first["grove.io/podcliqueset-replica-index"],
    }
    if line == MAPPED:
        is_anchor = name.endswith(ANCHOR_EPOCH)
        labels |= {
            "grove.io/podcliqueset-generation-hash": pcs["status"]["currentGenerationHash"],
            "grove.io/epoch": ANCHOR_EPOCH if is_anchor else TAIL_EPOCH,
            "grove.io/podgang-role": "Anchor" if is_anchor else "Tail",
        }
    return {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {"name": name, "labels": labels},
        "spec": {"podgroups": [_pod_group(clique, pods) for clique in cliques]},
        "status": {"phase": "Running"},
    }


def _pod_group(clique: Object, pods: Mapping[str, Sequence[str]]) -> Object:
    name, namespace = clique["metadata"]["name"], clique["metadata"]["namespace"]
    return {
        "name": name,
        "minReplicas": clique["spec"].get("minAvailable", 1),
        "podReferences": [{"namespace": namespace, "name": pod} for pod in pods.get(name, ())],
    }


def _maps(pcs: Object, gangs: Sequence[Object]) -> Iterator[Object]:
    template = pcs["spec"]["template"]
    groups = template.get("podCliqueScalingGroups") or []
    grouped = {name for group in groups for name in group["cliqueNames"]}
    value = pcs["status"]["currentGenerationHash"]
    anchor: Object = {
        "epoch": ANCHOR_EPOCH,
        "role": "Anchor",
        "anchorIndex": 0,
        "podCliqueSetGenerationHash": value,
        "podCliques": {
            c["name"]: c["spec"].get("replicas", 1) for c in template["cliques"] if c["name"] not in grouped
        },
        "pcsgReplicaIndices": {group["name"]: list(range(group.get("minAvailable", 1))) for group in groups},
    }
    beyond = {
        group["name"]: list(range(group.get("minAvailable", 1), group.get("replicas", 1)))
        for group in groups
        if group.get("replicas", 1) > group.get("minAvailable", 1)
    }
    tail: Object = {
        "epoch": TAIL_EPOCH,
        "role": "Tail",
        "podCliqueSetGenerationHash": value,
        "pcsgReplicaIndices": beyond,
        "dependsOn": [ANCHOR_EPOCH],
    }
    for replica in sorted({gang["metadata"]["labels"]["grove.io/podcliqueset-replica-index"] for gang in gangs}):
        labels = {"app.kubernetes.io/component": "pcs-podgangmap", "grove.io/podcliqueset-replica-index": replica}
        yield {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodGangMap",
            "metadata": {"name": f"{pcs['metadata']['name']}-{replica}", "labels": labels},
            "spec": {"podCliqueSetReplicaIndex": int(replica), "entries": [anchor, tail] if beyond else [anchor]},
        }
