"""Specs that are edited while they are migrated, in memory."""

from __future__ import annotations

import pytest

from migrator import resources
from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from testbed.trees import Object
from tests.faults import cluster
from tests.faults.operators import would_roll
from tests.faults.process import DONE, KILLED, MOMENTS, STUCK, Moment, do_at, kill_at
from tests.faults.steps import of_trees, tree_points
from tests.faults.world import World

Objects = dict[cluster.Key, Object]


def edit(world: World, name: str, clique: str) -> None:
    """Change the image of one clique, as a user does."""
    world.store.edit(resources.POD_CLIQUE_SETS, "default", name, lambda pcs: cluster.edit(pcs, clique))


def labels(objects: Objects, prefix: str) -> dict[str, str]:
    """The hash labels of the pods whose names begin so."""
    return {
        key[2]: item["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH]
        for key, item in objects.items()
        if key[0] == "Pod" and key[2].startswith(prefix)
    }


def of_set(objects: Objects, name: str) -> Objects:
    """The objects of one set, without its spec and generation."""
    found = {key: dict(item) for key, item in objects.items() if cluster.set_of(item) == name}
    for key, item in found.items():
        if key[0] == "PodCliqueSet":
            item.pop("spec")
            item["metadata"] = {k: v for k, v in item["metadata"].items() if k != "generation"}
    return found


#: A set, the clique that is edited in it, and the prefix of the pods that nobody edited.
EDITS = [("web", "router", "web-0-frontend"), ("disagg", "frontend", "disagg-0-workers")]


@pytest.mark.parametrize("edited", EDITS, ids=lambda edited: edited[0])
def test_a_run_dies_in_mid_tree_and_the_old_operator_lets_an_edit_through(edited: tuple[str, str, str]) -> None:
    """A run dies in mid-tree, an old operator is started and a clique edited, the operator is stopped again.

    A rerun is refused with 6 and writes nothing; a revert leaves every pod of the unedited cliques with a hash that
    rolls nobody.
    """
    name, clique, untouched = edited
    tried = 0
    for step in of_trees():
        world = World()
        assert world.run(kill_at(step.write, "after")).code == KILLED
        found = world.grove()
        if found["PodCliqueSet", "default", name] != world.before["PodCliqueSet", "default", name]:
            continue  # this set is committed: what the old operator does to it then is not in mid-tree any more
        world.deploy(replicas=1)
        world.advance(60)
        edit(world, name, clique)
        world.operate(cluster.SOURCE, replacing=0)
        world.deploy(replicas=0)
        world.advance(60)
        without = World()
        edit(without, name, clique)
        without.operate(cluster.SOURCE, replacing=0)
        assert found != world.before, "some set had been written to"
        halfway, ending = world.grove(), world.run()
        assert (ending.code, world.grove() == halfway) == (STUCK, True), (step.write, str(ending))
        assert world.run(revert=True).code == DONE, step.write
        after = world.grove()
        assert labels(after, untouched) == labels(world.before, untouched), step.write
        assert _replaced(after, name) <= _replaced(without.grove(), name), step.write
        tried += 1
    assert tried > 5


def _replaced(objects: Objects, name: str) -> set[str]:
    """The pods of a set that the old operator would replace."""
    return {pod for pod in would_roll(objects, cluster.SOURCE) if pod.startswith(name)}


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_edit_during_the_run_is_never_blessed(moment: Moment) -> None:
    """Edited at any write: the set is brought back and the others are migrated, which ends with 6 and names the set.

    Only a set that was finished before the edit stays migrated: the next operator rolls the edit out, and no more.
    """
    endings = set()
    for step in tree_points():
        world = World()
        ending = world.run(do_at(step.write, moment, lambda _, world=world: edit(world, "web", "router")))
        found = world.grove()
        web, rest = of_set(found, "web"), {k: v for k, v in found.items() if cluster.set_of(v) != "web"}
        assert ending.code in {DONE, STUCK}, (step.write, str(ending))
        assert rest == {k: v for k, v in world.after.items() if cluster.set_of(v) != "web"}, step.write
        assert web == of_set(world.after if ending.code == DONE else world.before, "web"), step.write
        assert world.replicas == 0
        assert ending.code == DONE or "default/web" in str(ending), str(ending)
        endings.add(ending.code)
    assert STUCK in endings
