"""Puts trees on an API server, and reads everything back: the two ends of every integration test."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from migrator import resources
from migrator.resources import Op, Resource
from migrator.store import Store
from tests.support.trees import Object

RESOURCES: Final = {
    resource.kind: resource
    for resource in (
        resources.POD_CLIQUE_SETS,
        resources.POD_CLIQUE_SCALING_GROUPS,
        resources.POD_CLIQUES,
        resources.PODS,
        resources.POD_GANG_MAPS,
        resources.POD_GANGS,
    )
}
GROVE: Final[tuple[Resource, ...]] = (
    resources.POD_CLIQUE_SETS,
    resources.POD_CLIQUE_SCALING_GROUPS,
    resources.POD_CLIQUES,
    resources.PODS,
)
_SERVER_OWNED: Final = ("uid", "resourceVersion", "generation", "creationTimestamp")


def load(store: Store, objects: Sequence[Object], *, workers: int = 8) -> None:
    """Create objects, owners before owned, with their status, and with the server's uids in owner references."""
    uids: dict[str, str] = {}
    for batch in _ranks(objects):
        with ThreadPoolExecutor(workers) as pool:
            uids.update(pool.map(lambda item: _create(store, item, uids), batch))


def read(store: Store, resources: Iterable[Resource] = GROVE) -> dict[tuple[str, str, str], Object]:
    """Every object by kind, namespace and name, without what any write changes."""
    found: dict[tuple[str, str, str], Object] = {}
    for resource in resources:
        for item in store.list(resource, copy.deepcopy).items:
            metadata = item["metadata"]
            metadata.pop("resourceVersion", None)
            metadata.pop("managedFields", None)
            found[item["kind"], metadata.get("namespace", ""), metadata["name"]] = item
    return found


def _create(store: Store, item: Object, uids: dict[str, str]) -> tuple[str, str]:
    body: Object = copy.deepcopy(item)
    metadata: dict[str, Any] = body["metadata"]
    old = metadata["uid"]
    for key in _SERVER_OWNED:
        metadata.pop(key, None)
    for owner in metadata.get("ownerReferences", ()):
        owner["uid"] = uids[owner["uid"]]
    status = body.pop("status", None)
    resource, namespace, name = RESOURCES[body["kind"]], metadata["namespace"], metadata["name"]
    created = store.create(resource, namespace, body)
    if status is not None and body["kind"] != "Pod":
        store.patch(resource, namespace, name, (Op("add", "/status", status),), subresource="status")
    return old, created["metadata"]["uid"]


def _ranks(objects: Sequence[Object]) -> Iterable[list[Object]]:
    order = ("PodCliqueSet", "PodCliqueScalingGroup", "PodClique", "PodGangMap", "PodGang", "Pod")
    for kind in order:
        yield [item for item in objects if item["kind"] == kind]
