"""``--skip-refused`` leaves out a set that is refused, but none that is half-written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from migrator import kinds
from migrator.errors import Unreachable
from migrator.run.leases import OWN_LEASE
from tests.faults import cluster, users
from tests.faults.operators import ALPHA_9, would_roll
from tests.faults.process import REFUSED, STUCK, At, Step, kill, when
from tests.faults.world import World

NAME = "disagg"


def midway(action: Callable[[Step], object]) -> At:
    """Act once a few values of the set are written, and most are not."""

    def is_fourth(step: Step) -> bool:
        sent = [write for write in step.process.writes if write.is_grove and write.name.startswith(NAME)]
        return step.moment == "before" and len(sent) == 4

    return when(is_fourth, action, times=1)


def breach(world: World) -> None:
    """A gang of the set is to be terminated in two minutes (the delay is four hours), which GM-116 refuses."""
    users.breach(world, NAME, world.now() - timedelta(hours=3, minutes=58))


def edit(world: World, name: str) -> None:
    world.edit(name, lambda pcs: cluster.edit(pcs, "frontend"))


def test_a_half_written_set_that_is_refused_later_is_not_left_out() -> None:
    """Killed in the middle of a set, and the rerun refuses that set: 6, and not 0 beside a set of two schemes."""
    world = World()
    world.die(midway(kill), skip_refused=True)
    breach(world)
    ending = world.run(skip_refused=True, code=STUCK)
    assert world.record_state == "writing"
    assert "GM-116" in str(ending.error)
    world.run(skip_refused=True, allow=frozenset({"GM-116"}))
    assert world.replicas == 0


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_half_written_set_is_not_left_out_if_the_record_is_gone(*, dry_run: bool) -> None:
    """New hashes while the operator is at zero show that a run died: 6, and not 0 because nothing else is left."""
    world = World()
    world.die(midway(kill))
    for item in world.after.values():
        if cluster.set_of(item) != NAME:
            world.store.put(item)
    for lease in (OWN_LEASE, cluster.LEASE):
        world.store.drop(kinds.LEASES, cluster.NAMESPACE, lease)
    breach(world)
    ending = world.run(skip_refused=True, dry_run=dry_run, code=STUCK)
    assert "GM-116" in str(ending.error)


def test_a_laptop_whose_clock_is_behind_stops_no_operator_for_a_gang_that_is_to_be_terminated() -> None:
    """By its clock there are two hours left, by the cluster's two minutes; who stops may cost pods, too (GM-314)."""
    world = World()
    breach(world)
    process = world.start()
    process.skew = -timedelta(hours=2)
    process.run(code=REFUSED)
    assert users.stops(process.writes) == 0


def test_a_set_that_is_refused_while_it_is_written_is_not_left_out() -> None:
    """One run, and an outage in the middle of a set that is refused when it is read again."""
    world = World()

    def outage(_: Step) -> None:
        breach(world)
        raise Unreachable("no answer")

    ending = world.run(midway(outage), skip_refused=True, code=STUCK)
    assert "GM-116" in str(ending.error)


def test_a_set_that_is_edited_while_it_is_written_costs_the_pods_of_the_edit() -> None:
    """Its other values are all the new ones, so it is left out, and the next operator rolls out the edit alone."""
    world = World(cluster.grown())
    world.run(midway(lambda _: edit(world, NAME)), skip_refused=True)
    assert world.record_state == "done"
    lost = {name for name in would_roll(world.grove(), cluster.TARGET) if name.startswith(NAME)}
    assert {name for name in lost if not name.startswith(f"{NAME}-0-frontend")} == set()


@pytest.mark.parametrize("rerun", [False, True])
def test_a_set_that_is_edited_once_it_is_written_does_not_end_the_run(*, rerun: bool) -> None:
    """All of its hashes are the new ones: the next operator rolls out the edit, as its owner wants."""
    world = World()

    def interrupt(step: Step) -> None:
        if rerun:
            step.process.kill()
        edit(world, "web")
        raise Unreachable("no answer")

    committed = (kinds.POD_CLIQUE_SETS, "web", "after")
    last = when(lambda step: (step.resource, step.name, step.moment) == committed, interrupt, times=1)
    if rerun:
        edit(world.die(last, skip_refused=True), "web")
        last = None
    world.run(last, skip_refused=True)
    assert world.record_state == "done"
    changed = {key for key, item in world.after.items() if world.grove()[key] != item}
    assert changed == {("PodCliqueSet", "default", "web")}


def test_a_set_that_is_in_flight_is_waited_for_before_it_is_left_out() -> None:
    """With --wait: the old operator rolls an edit out within a minute, and then no set is refused any more."""
    world = World(cluster.grown())
    edit(world, "web")
    world.later(60, lambda: world.operate(cluster.SOURCE, ALPHA_9))
    world.run(skip_refused=True, wait=600.0)
    assert would_roll(world.grove(), cluster.TARGET) == frozenset()


def test_nobody_waits_for_an_operator_that_is_at_zero() -> None:
    """The same command again, as a hook does: what was left out cannot end now."""
    world = World(cluster.grown())
    edit(world, "web")
    world.run(skip_refused=True)
    began = world.seconds
    world.run(skip_refused=True, wait=600.0)
    assert world.seconds - began < 60


def test_a_set_that_is_left_out_still_has_its_old_hashes() -> None:
    """Every other set is written when something uses up the stops: no message says that no hash is an old one."""
    world = World(cluster.grown())
    breach(world)
    left_out = {key: item for key, item in world.grove().items() if cluster.set_of(item) == NAME}
    wanted = world.after | left_out
    ending = world.run(
        lambda _: world.deploy(replicas=1) if world.grove() == wanted else None, skip_refused=True, code=STUCK
    )
    assert "No stored hash is an old one" not in str(ending)
