"""What a cluster holds, and must hold after a migration, found without the planner: each old hash by the new one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from migrator.hashing import podcliqueset
from migrator.hashing.schemes import Scheme
from migrator.releases.table import named
from testbed.controlplane.client import Client
from testbed.trees import Object

Key = TypeVar("Key")

GROVE: Final = "grove.io/v1alpha1"
#: What a set and all that belongs to it are, owners first.
KINDS: Final = (
    (GROVE, "PodCliqueSet"),
    (GROVE, "PodCliqueScalingGroup"),
    (GROVE, "PodClique"),
    (GROVE, "PodGangMap"),
    ("scheduler.grove.io/v1alpha1", "PodGang"),
    ("v1", "Pod"),
)


def stored(client: Client, namespace: str, kinds: Iterable[tuple[str, str]] = KINDS) -> dict[tuple[str, str], Object]:
    """Everything of the sets in a namespace, by kind and name, without what every write changes."""
    found = {}
    for api_version, kind in kinds:
        for item in client.list(api_version, kind, namespace):
            # The hashes of a PodGangMap are in its spec.
            for key in ("resourceVersion", "managedFields", *(("generation",) if kind == "PodGangMap" else ())):
                item["metadata"].pop(key, None)
            found[kind, item["metadata"]["name"]] = item
    return found


def migrated(objects: Mapping[Key, Object], old: str, new: str) -> dict[Key, Object]:
    """What objects must be after a migration from one release to another."""
    return translated(objects, new_hashes(objects.values(), named(old).scheme, named(new).scheme))


def new_hashes(objects: Iterable[Object], source: Scheme, target: Scheme) -> dict[str, str]:
    """The target's hash for each source hash of the PodCliqueSets among the objects."""
    words: dict[str, str] = {}
    for pcs in (item for item in objects if item["kind"] == "PodCliqueSet"):
        before = podcliqueset.SetHasher(pcs).under(source)
        after = podcliqueset.SetHasher(pcs).under(target)
        words[before.generation] = after.generation
        words |= {value: after.templates[name] for name, value in before.templates.items()}
    return words


def translated(objects: Mapping[Key, Object], words: Mapping[str, str]) -> dict[Key, Object]:
    """The objects with each of these words, wherever it is a whole value, replaced."""
    return {key: _translated(item, words) for key, item in objects.items()}


def _translated(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _translated(item, words) for key, item in value.items()}
    if isinstance(value, list):
        return [_translated(item, words) for item in value]
    return words.get(value, value) if isinstance(value, str) else value
