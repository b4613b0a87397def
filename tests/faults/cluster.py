"""The clusters that faults are injected into: what is in them, and what they must be afterwards.

A standalone set that was never updated, one with a scaling group and a finished update, and one under OnDelete with
outdated pods. A few values are the target's from the beginning: a revert must not touch those.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from migrator.grove.objects import LABEL_PART_OF, LABEL_POD_TEMPLATE_HASH
from migrator.hashing import podcliqueset, schemes
from testbed import operator_installation as installation
from testbed import workloads
from testbed.controlplane.trees import GROVE
from testbed.trees import Object, State, grow
from tests.support.builders import clique
from tests.support.memory_objects import copied
from tests.support.translation import new_hashes, translated

SOURCE: Final = "legacy-1.34"
TARGET: Final = "legacy-1.35"
OLD_IMAGE: Final = installation.image("v0.1.0-alpha.9")
NEW_IMAGE: Final = installation.image("v0.1.0-alpha.11")
NAMESPACE: Final = installation.NAMESPACE
DEPLOYMENT: Final = installation.NAME
LEASE: Final = installation.LEASE
LABELS: Final = installation.LABELS
HASH_LABEL: Final = LABEL_POD_TEMPLATE_HASH
OLDER: Final = "4567b"  # the hash of a template of long ago

RESOURCES: Final = {resource.kind: resource for resource in GROVE}
_MOVING: Final = frozenset({"resourceVersion", "managedFields"})

Key = tuple[str, str, str]


def sets() -> list[tuple[Object, State]]:
    """The three sets, and how far the operator of alpha.9 has come with each; small: more crashes can be tried."""
    group = {"name": "workers", "cliqueNames": ["prefill", "decode"], "replicas": 1, "minAvailable": 1}
    return [
        (workloads.pod_clique_set("web", [clique("router", replicas=1), clique("frontend")]), State()),
        (
            workloads.pod_clique_set(
                "disagg",
                [clique("frontend", replicas=1), clique("prefill", replicas=1), clique("decode")],
                groups=[group],
                startup="CliqueStartupTypeInOrder",
            ),
            State(("updateProgress",)),
        ),
        (
            # In the order in which a canonical operator has them, so that its legacy hash is the canonical one too.
            workloads.pod_clique_set("patient", [clique("frontend", containers=("a", "b"))], on_delete=True),
            State(("updateProgress",), leftovers={"frontend": OLDER}),
        ),
    ]


def grown(scheme: str = SOURCE) -> list[Object]:
    """Every object of the three sets under a scheme."""
    source = schemes.by_name(scheme)
    return [item for pcs, state in sets() for item in grow(pcs, podcliqueset.SetHasher(pcs).under(source), state)]


def trees() -> list[Object]:
    """Every object of the three sets under ``SOURCE``, a few values of ``TARGET`` among them."""
    objects = grown()
    words = _new_hashes(objects)
    found = {(item["kind"], item["metadata"]["name"]): item for item in objects}
    ready = next(item for (kind, name), item in found.items() if kind == "Pod" and name.startswith("web-0-frontend"))
    ready["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] = words[ready["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH]]
    for status, field in (
        (found["PodClique", "disagg-0-workers-0-decode"]["status"], "currentPodTemplateHash"),
        (found["PodCliqueScalingGroup", "disagg-0-workers"]["status"]["updateProgress"], "podCliqueSetGenerationHash"),
    ):
        status[field] = words[status[field]]
    return objects


def edit(pcs: Object, name: str) -> None:
    """Give one clique of a set another image, as a user does."""
    found = next(item for item in pcs["spec"]["template"]["cliques"] if item["name"] == name)
    found["spec"]["podSpec"]["containers"][0]["image"] = "another:2"


def key_of(item: Object) -> Key:
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]


def by_key(objects: Iterable[Object]) -> dict[Key, Object]:
    """Grove's objects by kind, namespace and name, without what every write moves."""
    found: dict[Key, Object] = {}
    for item in objects:
        metadata = item["metadata"]
        if (
            item["kind"] in RESOURCES
            and metadata.get("labels", {}).get("app.kubernetes.io/component") != LABELS["app.kubernetes.io/component"]
        ):
            kept = copied(item)
            for name in _MOVING:
                kept["metadata"].pop(name, None)
            found[key_of(item)] = kept
    return found


def migrated(before: Mapping[Key, Object]) -> dict[Key, Object]:
    """What the objects must be after the migration: every source hash, where it is a whole value, the target's."""
    return translated(before, _new_hashes(before.values()))


def reverted(before: Mapping[Key, Object]) -> dict[Key, Object]:
    """The opposite: also where a hash was the target's from the beginning."""
    return translated(before, {new: old for old, new in _new_hashes(before.values()).items()})


@cache
def computed(spec: str, scheme: str) -> podcliqueset.SetHashes:
    """The hashes that a scheme gives a set with this spec, which is JSON."""
    return podcliqueset.SetHasher({"spec": json.loads(spec)}).under(schemes.by_name(scheme))


def hashes(objects: Mapping[Key, Object]) -> dict[Key, Object]:
    """Labels and statuses: a scale moves other fields."""
    return {key: {**(item["metadata"].get("labels") or {}), **item.get("status", {})} for key, item in objects.items()}


def set_of(item: Object) -> str:
    name: str = item["metadata"].get("labels", {}).get(LABEL_PART_OF, item["metadata"]["name"])
    return name


def _new_hashes(objects: Iterable[Object]) -> dict[str, str]:
    return new_hashes(objects, schemes.by_name(SOURCE), schemes.by_name(TARGET))
