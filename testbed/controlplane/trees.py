"""Put trees on an API server as the operator would leave them: there is no operator in these tests."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from migrator.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, POD_CLIQUES, PODS, Resource
from testbed.controlplane.client import Client, Object
from testbed.trees import Hashes, State, grow

#: The kinds that every operator writes.
GROVE: Final[tuple[Resource, ...]] = (POD_CLIQUE_SETS, POD_CLIQUE_SCALING_GROUPS, POD_CLIQUES, PODS)

#: Owners before what they own: kinds of one rank do not depend on each other.
_RANKS: Final = (
    ("PodCliqueSet",),
    ("PodCliqueScalingGroup", "PodGangMap", "PodGang"),
    ("PodClique",),
    ("Pod",),
)
_SERVERS: Final = ("uid", "resourceVersion", "generation", "creationTimestamp")


def plant(
    client: Client, pcs: Object, hashes: Callable[[Object], Hashes], state: State | None = None, *, threads: int = 8
) -> list[Object]:
    """Create a PodCliqueSet and all that its operator would make of it, and return everything as it then is.

    ``hashes`` gets the set as the API server returns it, defaults included: that is what an operator hashes.
    """
    created = client.create({key: value for key, value in pcs.items() if key != "status"})
    stored = {key: value for key, value in created.items() if key != "status"}
    root, *owned = grow(stored, hashes(created), state)
    return load(client, [root, *owned], threads=threads, present={root["metadata"]["uid"]: created})


def load(
    client: Client, objects: Sequence[Object], *, threads: int = 8, present: dict[str, Object] | None = None
) -> list[Object]:
    """Create objects with their status, the server's uids in their owner references; return them in their order.

    ``present`` are objects, by the uid that ``objects`` gives them, which exist already: they only get their status.
    """
    found = dict(present or {})

    def one(item: Object) -> None:
        uid = item["metadata"]["uid"]
        if uid in found:
            found[uid] = _complete(client, found[uid], item)
        else:
            found[uid] = client.create(_body(item, found))

    with ThreadPoolExecutor(threads) as pool:
        for rank in _RANKS:
            list(pool.map(one, [item for item in objects if item["kind"] in rank]))
    return [found[item["metadata"]["uid"]] for item in objects]


def _body(item: Object, found: dict[str, Object]) -> Object:
    """An object as it is sent: without what the server sets, owned by the objects that the server has."""
    body = copy.deepcopy(item)
    for key in _SERVERS:
        body["metadata"].pop(key, None)
    for owner in body["metadata"].get("ownerReferences", ()):
        owner["uid"] = found[owner["uid"]]["metadata"]["uid"]
    return body


def _complete(client: Client, stored: Object, item: Object) -> Object:
    """Give an object that exists the finalizers and the status that it should have."""
    finalizers = item["metadata"].get("finalizers")
    if finalizers:
        client.patch(stored, {"metadata": {"finalizers": finalizers}})
    answer: Object = client.patch(stored, {"status": item["status"]}, subresource="status").body
    return answer
