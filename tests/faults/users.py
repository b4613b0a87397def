"""What users and nodes do to Grove's objects: the same choice does the same in any cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from migrator import kinds
from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from testbed.trees import Object
from tests.faults import cluster
from tests.faults.process import At, Step
from tests.faults.world import World
from tests.support.memory_objects import timestamp

NAMES: Final = ("web", "disagg", "patient")
FOREIGN: Final = "f0re16n"

#: A clique gets another image, or its containers another order, which no canonical hash sees.
EDITS: Final[dict[str, Callable[[Object, int], object]]] = {
    "edit": lambda clique, number: _containers(clique)[0].update(image=f"{clique['name']}:{number}"),
    "reorder": lambda clique, _number: _containers(clique).reverse(),
}

#: "scale" is of a set, a scaling group or a PodClique; "evict" removes a pod, and "drain" begins to; "mark" writes a
#: user's hash on a pod; "delete" removes a set, which is perhaps created again.
USERS: Final = (*EDITS, "scale", "evict", "drain", "mark", "delete")


def act(world: World, kind: str, choice: int, number: int) -> None:
    """Do one of these to the object of that ``choice``."""
    if kind in EDITS:
        _edit(world, set_named(choice), choice, lambda clique: EDITS[kind](clique, number))
    elif kind == "scale":
        _scale(world, choice, number)
    elif kind == "delete":
        _delete(world, set_named(choice), and_again=number > 1)
    elif kind == "mark":
        label = {LABEL_POD_TEMPLATE_HASH: FOREIGN}
        for pod in pod_chosen(world, choice):
            world.store.edit(kinds.PODS, *pod, lambda body: body["metadata"]["labels"].update(label))
    elif kind == "drain":
        for pod in pod_chosen(world, choice):
            world.store.terminate(kinds.PODS, *pod)
    else:
        for pod in pod_chosen(world, choice):
            world.store.drop(kinds.PODS, *pod)


def in_flight(pcs: Object) -> None:
    """Edit a set as no operator has seen it: the set's hash is not its spec's."""
    pcs["spec"]["template"]["cliques"][0]["annotations"] = {"example.test/edit": "1"}


def begin_update(world: World) -> None:
    """An edit is in flight, which refuses."""
    world.edit("web", in_flight)


def breach(world: World, name: str, since: datetime) -> None:
    """Too few pods of a set have been available since then, so that its gang is going to be terminated."""
    condition = {"type": "MinAvailableBreached", "status": "True", "lastTransitionTime": timestamp(since)}
    clique = (kinds.POD_CLIQUES, "default", f"{name}-0-frontend")
    world.store.edit(*clique, lambda body: body["status"].update(conditions=[condition]))


def set_named(choice: int) -> str:
    return str(_pick(NAMES, choice))


def marks(world: World, choice: int) -> set[str]:
    return {name.partition("-")[0] for _, name in pod_chosen(world, choice)}


def pod_chosen(world: World, choice: int) -> list[tuple[str, str]]:
    """Namespace and name of a pod, if there is any: one of the same PodClique in any cluster."""
    found = world.grove()
    owners = sorted({name.rpartition("-")[0] for kind, _, name in found if kind == "Pod"})
    if not owners:
        return []
    owner = _pick(owners, choice)
    pods = sorted(key for key in found if key[0] == "Pod" and key[2].rpartition("-")[0] == owner)
    return [_pick(pods, choice)[1:]]


def planted() -> list[Object]:
    """A cluster with values of the target's, but for a finished update of a scaling group to the target.

    That would keep the next operator from updating the group without us.
    """
    plain = {key: item for key, item in cluster.by_key(cluster.grown()).items() if key[0] == "PodCliqueScalingGroup"}
    return [plain.get(cluster.key_of(item), item) for item in cluster.trees()]


def _edit(world: World, name: str, choice: int, change: Callable[[Object], object]) -> None:
    if ("PodCliqueSet", "default", name) in world.grove():
        world.edit(name, lambda pcs: change(_pick(pcs["spec"]["template"]["cliques"], choice)))


def _scale(world: World, choice: int, replicas: int) -> None:
    scaled = [key for key in sorted(world.grove()) if key[0] != "Pod"]
    if scaled:
        key = _pick(scaled, choice)
        world.store.edit(cluster.RESOURCES[key[0]], key[1], key[2], lambda body: body["spec"].update(replicas=replicas))


def _delete(world: World, name: str, *, and_again: bool) -> None:
    """Delete a set with all that it owns, and perhaps make it again, with a uid of its own."""
    world.store.drop(kinds.POD_CLIQUE_SETS, "default", name)
    if and_again:
        pcs = next(pcs for pcs, _ in cluster.sets() if pcs["metadata"]["name"] == name)
        world.store.put({**pcs, "status": {}})


def _containers(clique: Object) -> list[Object]:
    found: list[Object] = clique["spec"]["podSpec"]["containers"]
    return found


def _pick(found: Sequence[Any], choice: int) -> Any:
    return found[choice % len(found)]


def stops(steps: list[Step]) -> int:
    """How often the operator's Deployment was scaled; three times it may be stopped, and given back once."""
    return sum(step.resource == kinds.DEPLOYMENTS for step in steps)


def restores(world: World, *, begins: int = 0) -> At:
    """A GitOps controller that gives the operator its replicas back within 3 seconds, from this write on."""
    since: list[float] = []

    def at(step: Step) -> None:
        if world.replicas or len(step.process.writes) < begins:
            since.clear()
            return
        since[:] = since or [world.seconds]
        if world.seconds - since[0] >= 3:
            world.deploy(replicas=1)
        if stops(step.process.writes) > 20:
            step.process.kill()

    return at
