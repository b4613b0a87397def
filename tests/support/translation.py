"""What a cluster must hold after a migration, found without the planner: each old hash replaced by the new one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from migrator.hashing import podcliqueset
from migrator.hashing.schemes import Scheme
from testbed.trees import Object

Key = TypeVar("Key")


def new_hashes(objects: Iterable[Object], source: Scheme, target: Scheme) -> dict[str, str]:
    """The target's hash for each source hash of the PodCliqueSets among the objects."""
    words: dict[str, str] = {}
    for pcs in (item for item in objects if item["kind"] == "PodCliqueSet"):
        before = podcliqueset.hash_pod_clique_set(pcs, source)
        after = podcliqueset.hash_pod_clique_set(pcs, target)
        words[before.generation_hash] = after.generation_hash
        words |= {value: after.pod_template_hashes[name] for name, value in before.pod_template_hashes.items()}
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
