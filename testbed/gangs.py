"""PodGangs and PodGangMaps of a grown tree, as an operator with PodGangMaps leaves them (pull request 778, alpha.12).

There is a base PodGang for each PodCliqueSet replica, and one for each scaling group replica beyond ``minAvailable``;
names carry the epoch of the entry that they stand for (``operator/api/common/namegen.go``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

Object = dict[str, Any]

#: Of each replica's anchor entry, and of the entry of what lies beyond minAvailable.
ANCHOR_EPOCH: Final = "1767323045000000000"
_TAIL_EPOCH: Final = "1767323045000000001"
_REPLICA: Final = "grove.io/podcliqueset-replica-index"


def gang_name(base: str, group: str = "", index: int = 0, least: int = 1) -> str:
    """Name the PodGang of a PodClique.

    ``base`` is ``<set>-<replica>``; ``group`` is a scaling group's configured name, ``index`` its replica and
    ``least`` its minAvailable.
    """
    return f"{base}-{_TAIL_EPOCH}-{group}-{index}" if group and index >= least else f"{base}-{ANCHOR_EPOCH}"


def pod_gangs(pcs: Object, objects: Sequence[Object]) -> Iterator[Object]:
    """Bodies (apiVersion, kind, name, labels, spec, status) of a tree's PodGangs, and of its PodGangMaps."""
    value = pcs["status"]["currentGenerationHash"]
    members: dict[str, list[Object]] = defaultdict(list)
    for item in objects:
        if item["kind"] == "PodClique":
            members[item["metadata"]["labels"]["grove.io/podgang"]].append(item)
    anchors = [name for name in members if name.endswith(ANCHOR_EPOCH)]
    for name, cliques in sorted(members.items()):
        labels = {
            "app.kubernetes.io/component": "podgang",
            _REPLICA: cliques[0]["metadata"]["labels"][_REPLICA],
            "grove.io/podcliqueset-generation-hash": value,
        }
        groups = [{"name": one["metadata"]["name"], "minReplicas": 1, "podReferences": []} for one in cliques]
        yield {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "metadata": {"name": name, "labels": labels},
            "spec": {"podgroups": groups},
            "status": {"phase": "Running"},
        }
    entry = {"podCliqueSetGenerationHash": value}
    anchor = {**entry, "epoch": ANCHOR_EPOCH, "role": "Anchor", "anchorIndex": 0}
    tail = {**entry, "epoch": _TAIL_EPOCH, "role": "Tail", "dependsOn": [ANCHOR_EPOCH]}
    for replica in sorted({cliques[0]["metadata"]["labels"][_REPLICA] for cliques in members.values()}):
        entries = [anchor] if len(anchors) == len(members) else [anchor, tail]
        yield {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodGangMap",
            "metadata": {
                "name": f"{pcs['metadata']['name']}-{replica}",
                "labels": {"app.kubernetes.io/component": "pcs-podgangmap", _REPLICA: replica},
            },
            "spec": {"podCliqueSetReplicaIndex": int(replica), "entries": entries},
        }
