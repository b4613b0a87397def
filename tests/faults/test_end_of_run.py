"""What a run leaves to operators at its end, above all where an earlier run had left their Lease parked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Final

import pytest

from migrator import resources
from migrator.errors import Unreachable
from migrator.run.leases import PARKED
from migrator.run.record import RUN_NAME
from testbed import operator_installation as installation
from tests.faults import cluster
from tests.faults.process import DONE, KILLED, REFUSED, STUCK, At, Step, kill_at, raising, when
from tests.faults.products import FAULTS, strikes
from tests.faults.steps import of_trees
from tests.faults.test_faults_of_the_run import restores
from tests.faults.test_migrate_revert import make_again
from tests.faults.world import LONGER_THAN_A_LEASE, World

_HALF, _LAST = 8, -1  # of the writes to Grove's objects


def _killed(world: World, at: At) -> World:
    assert world.run(at).code == KILLED
    world.advance(LONGER_THAN_A_LEASE)
    assert world.holder == PARKED
    return world


def _killed_at(number: int, *, forgotten: bool = False) -> World:
    world = _killed(World(), kill_at(of_trees()[number].write, "after"))
    if forgotten:
        forget(world)
    return world


def forget(world: World) -> None:
    """Somebody deletes the record."""
    world.store.drop(resources.CONFIG_MAPS, cluster.NAMESPACE, RUN_NAME)


def closes(world: World, moment: str = "after") -> Callable[[Step], bool]:
    """Whether a step is the write to the record that comes once every hash is the target's."""

    def is_that(step: Step) -> bool:
        saves = step.name == RUN_NAME and step.write > 0 and step.moment == moment
        return saves and world.grove() == world.after

    return is_that


def _closed() -> World:
    world = World()
    return _killed(world, when(closes(world), lambda step: step.process.kill()))


#: What a killed run leaves: the operator's Lease is parked, the operator at zero.
LEFT: Final[dict[str, Callable[[], World]]] = {
    "half of the writes": lambda: _killed_at(_HALF),
    "half of the writes, and no record": lambda: _killed_at(_HALF, forgotten=True),
    "every write": lambda: _killed_at(_LAST),
    "every write, and no record": lambda: _killed_at(_LAST, forgotten=True),
    "a closed record": _closed,
}

#: A theft frees the Lease by itself.
_STRIKING: Final = [name for name in FAULTS if "theft" not in name]


def left(what: str, image: str = "", *, replicas: int = 1) -> World:
    """That cluster, in which somebody then starts an operator of this image, if any; none may be let loose."""
    world = LEFT[what]()
    if image:
        world.deploy(replicas=replicas, image=image)
        world.advance(3)
    world.forbid_unknown_hashes()
    return world


@cache
def steps_beside(what: str, image: str) -> tuple[Step, ...]:
    """The steps of the rerun that nothing disturbs."""
    found = list[Step]()
    assert left(what, image).run(found.append).code == DONE
    return tuple(found)


@pytest.mark.parametrize("every", [41, pytest.param(5, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])])
@pytest.mark.parametrize("name", _STRIKING)
@pytest.mark.parametrize("image", ["", cluster.OLD_IMAGE, cluster.NEW_IMAGE], ids=["none", "old", "target"])
@pytest.mark.parametrize("what", LEFT)
def test_a_fault_in_a_rerun_lets_no_operator_loose(what: str, image: str, name: str, every: int) -> None:
    """None acts on hashes that it does not know, whatever happens; exit 0 leaves none waiting; a rerun ends well."""
    offset = 7 * _STRIKING.index(name) + 3 * [*LEFT].index(what)
    for step in [step for step in steps_beside(what, image) if FAULTS[name].may(step)][offset % every :: every]:
        world = left(what, image)
        ending = world.run(strikes(FAULTS[name], step))
        world.advance(20)
        world.advance(20)
        assert ending.code != DONE or (world.holder != PARKED, world.grove() == world.after) == (True, True), step
        world.advance(LONGER_THAN_A_LEASE)
        last = world.run()
        assert (last.code, world.holder != PARKED, world.grove() == world.after) == (DONE, True, True), str(last)


UNKNOWN: Final = pytest.mark.parametrize("what", [what for what in LEFT if what != "half of the writes"])


@UNKNOWN
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_controller_that_starts_the_old_operator_beside_a_parked_lease(what: str, replicas: int) -> None:
    """It comes back after each stop: 6, the Lease is parked again, and the record keeps what is not known."""
    world = left(what, cluster.OLD_IMAGE, replicas=replicas)
    ending = world.run(restores(world))
    assert (ending.code, world.holder) == (STUCK, PARKED), str(ending)
    again = world.run(stop_operator=False)
    assert (again.code, world.holder) == (STUCK, PARKED), str(again)
    world.advance(LONGER_THAN_A_LEASE)
    assert world.run().code == DONE


@UNKNOWN
def test_an_old_operator_that_may_not_be_stopped_stays_locked_out(what: str) -> None:
    """Without --stop-operator beside a parked Lease: an error, and the Lease stays parked."""
    world = left(what, cluster.OLD_IMAGE)
    ending = world.run(stop_operator=False)
    assert (ending.code in {REFUSED, STUCK}, world.holder) == (True, PARKED), str(ending)


@UNKNOWN
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_revert_does_not_take_a_lost_record_for_nothing_written(what: str, moment: str) -> None:
    """A rerun beside the old operator is killed as it stops that one: a revert starts it beside the old hashes only."""
    world = left(what, cluster.OLD_IMAGE)
    scales = when(lambda step: (step.subresource, step.moment) == ("scale", moment), lambda step: step.process.kill())
    assert world.run(scales).code == KILLED
    world.advance(LONGER_THAN_A_LEASE)
    known = world.run(revert=True)
    assert known.code in {DONE, STUCK}, str(known)
    assert known.code == STUCK or (world.grove() == world.before, world.replicas) == (True, 1)
    assert known.code == DONE or world.holder == PARKED


@pytest.mark.parametrize("forgotten", [False, True], ids=["Ctrl-C", "a deleted record"])
@pytest.mark.parametrize("prepare", [World, LEFT["every write"]], ids=["a run", "a rerun"])
def test_an_old_operator_that_starts_as_the_record_is_closed_is_kept_out(
    prepare: Callable[[], World], *, forgotten: bool
) -> None:
    """And Ctrl-C, or somebody deletes the record, in the same moment: 6, and its Lease stays parked."""
    world = prepare()
    world.forbid_unknown_hashes()

    def start(_: Step) -> None:
        world.deploy(replicas=1)
        if not forgotten:
            raise KeyboardInterrupt
        forget(world)

    ending = world.run(when(closes(world, "before" if forgotten else "after"), start, times=1))
    world.advance(20)
    assert (ending.code, world.holder) == (STUCK, PARKED), str(ending)


@pytest.mark.parametrize("error", [partial(Unreachable, "HTTP 503"), KeyboardInterrupt], ids=["an outage", "Ctrl-C"])
@pytest.mark.parametrize("lasts", [False, True], ids=["once", "always"])
def test_a_lease_that_cannot_be_released_is_no_success(error: Callable[[], BaseException], *, lasts: bool) -> None:
    """Once is got over: 0. Otherwise the new operator would wait for an hour: 6 says so, and a rerun mends it."""
    world = World()
    of_lease = when(
        lambda step: (
            step.target == f"leases/{cluster.LEASE}" and step.moment == "before" and world.record_state == "done"
        ),
        raising(error),
        times=10**6 if lasts else 1,
    )
    ending = world.run(of_lease)
    assert (ending.code, world.holder) == ((STUCK, PARKED) if lasts else (DONE, "")), str(ending)
    assert ("for up to an hour" in str(ending)) == lasts
    world.advance(LONGER_THAN_A_LEASE)
    assert (world.run().code, world.holder) == (DONE, "")


@pytest.mark.parametrize("name", ["an outage", "a rejection", "two signals"])
def test_a_revert_with_nothing_to_restore_gives_the_operator_back_all_the_same(name: str) -> None:
    """Every set was made again since, and the scale-up fails: it is tried again, and 0 means that it runs."""
    for lasts in (False, True):
        world = World()
        assert world.run().code == DONE
        make_again(world)
        scales = when(
            lambda step: (step.subresource, step.moment) == ("scale", "before") and step.write > 0,
            lambda step: FAULTS[name].strike(step.process),
            times=10**6 if lasts else 1,
        )
        ending = world.run(scales, revert=True)
        assert (ending.code, world.replicas, world.records) == ((STUCK, 0, [RUN_NAME]) if lasts else (DONE, 1, [])), (
            lasts
        )


def test_of_two_operators_none_is_stopped_beside_a_parked_lease() -> None:
    """Nothing is to be written, and which of them is the operator is not known: at once an error, and both stay."""
    world = left("a closed record", cluster.NEW_IMAGE)
    other = installation.deployment(cluster.OLD_IMAGE, observed=True)
    world.store.put(other | {"metadata": other["metadata"] | {"name": "second"}})
    world.store.put(installation.pod(cluster.OLD_IMAGE, name="second-1"))
    process, begun = world.start(), world.seconds
    ending = process.run()
    assert (ending.code, world.replicas, world.holder) == (STUCK, 1, PARKED), str(ending)
    assert ending.error is not None
    assert "GM-203" in str(ending.error)
    assert world.seconds - begun < 120  # most of it for the dead run's Lease
    assert not [step for step in process.writes if step.subresource == "scale"]
