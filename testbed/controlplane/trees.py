"""Put trees on an API server as the operator would leave them: there is no operator in these tests."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from migrator.kinds import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, POD_CLIQUES, PODS, Resource
from testbed.controlplane.client import Client, Object
from testbed.trees import Hashes, State, grow

#: The kinds that every operator writes.
GROVE: Final[tuple[Resource, ...]] = (POD_CLIQUE_SETS, POD_CLIQUE_SCALING_GROUPS, POD_CLIQUES, PODS)

#: Owners before what they own: kinds of one rank do not depend on each other.
_RANKS: Final = (("PodCliqueSet",), ("PodCliqueScalingGroup", "PodGangMap", "PodGang"), ("PodClique",), ("Pod",))
_THREADS: Final = 8
_SERVERS: Final = ("uid", "resourceVersion", "generation", "creationTimestamp")


def plant(client: Client, pcs: Object, hashes: Callable[[Object], Hashes], state: State | None = None) -> list[Object]:
    """Create a PodCliqueSet and all that its operator would make of it, and return everything as it then is.

    ``hashes`` gets the set as the API server would store it, defaults included: that is what an operator hashes.
    """
    body = {key: value for key, value in pcs.items() if key != "status"}
    path = client.kind_of(pcs).path(pcs["metadata"].get("namespace"))
    stored = client.call("POST", path, body, query={"dryRun": "All"})
    return load(client, grow({**body, "spec": stored["spec"]}, hashes(stored), state))


def load(client: Client, objects: Sequence[Object]) -> list[Object]:
    """Create objects with their status, the server's uids in their owner references; return them in their order."""
    found: dict[str, Object] = {}

    def one(item: Object) -> None:
        found[item["metadata"]["uid"]] = client.create(_body(item, found))

    with ThreadPoolExecutor(_THREADS) as pool:
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
