"""Specs that are edited while they are migrated, in memory."""

from __future__ import annotations

import pytest

from migrator import resources
from testbed.trees import Object
from tests.faults import cluster
from tests.faults.process import DONE, MOMENTS, STUCK, Moment, do_at
from tests.faults.steps import tree_points
from tests.faults.world import World

Objects = dict[cluster.Key, Object]


def edit(world: World, name: str, clique: str) -> None:
    """Change the image of one clique, as a user does."""
    world.store.edit(resources.POD_CLIQUE_SETS, "default", name, lambda pcs: cluster.edit(pcs, clique))


def of_set(objects: Objects, name: str) -> Objects:
    """The objects of one set, without its spec and generation."""
    found = {key: dict(item) for key, item in objects.items() if cluster.set_of(item) == name}
    for key, item in found.items():
        if key[0] == "PodCliqueSet":
            item.pop("spec")
            item["metadata"] = {k: v for k, v in item["metadata"].items() if k != "generation"}
    return found


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
