"""A run, the operator and the Leases, in memory: stopped, given back, started or taken by somebody else meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from migrator.cluster import LONGEST_WRITE
from migrator.errors import NotAuthorised
from migrator.run.leases import OWN_LEASE, PARKED
from testbed import operator_installation as installation
from tests.faults import cluster
from tests.faults.process import DONE, FAILED, NO_RECORD, REFUSED, STUCK, Step, do_at, raising, stopped, when
from tests.faults.steps import finished, first, killed, of_trees
from tests.faults.users import begin_update
from tests.faults.world import World
from tests.support.tables import table


@pytest.fixture
def world() -> World:
    """A cluster whose operator may never be awake beside anything that is migrated."""
    made = World()
    made.forbid_unknown_hashes()
    return made


def sneaks(world: World) -> None:
    """Others run a pod of the old operator without its Deployment, as `kubectl run` does."""
    world.store.put(installation.pod(cluster.OLD_IMAGE, name="sneaky"))


def deploys(image: str) -> Callable[[World], object]:
    return lambda world: world.deploy(replicas=1, image=image)


@table(
    "appears code said",
    ("A pod of the old operator without replicas is named, and waits.", (sneaks, STUCK, "sneaky")),
    ("The next release waits for its Lease, and finds its own hashes.", (deploys(cluster.NEW_IMAGE), DONE, "")),
    ("So does an image that --target-image names.", (deploys("registry.example/op:own"), DONE, "")),
    ("Any other image is a stranger's, and is stopped once more.", (deploys("registry.example/op:x"), DONE, "")),
)
def test_an_operator_that_appears_among_the_writes(
    world: World, appears: Callable[[World], object], code: int, said: str
) -> None:
    """It is kept out, unless it is the target's: then it finds what it knows. No other ends the run with 0."""
    fault = do_at(first("pods"), "after", lambda _: appears(world))
    ending = world.run(fault, target_image="registry.example/op:own", code=code)
    assert said in str(ending)
    world.advance(60)
    if code == DONE:
        waits = world.image in {cluster.NEW_IMAGE, "registry.example/op:own"}
        assert world.grove() == world.after
        assert world.replicas == int(waits)
    else:
        assert world.holder == PARKED


@table(
    "number code replicas",
    ("While the operator ends: it is given back.", (first("deployments", "scale"), FAILED, 1)),
    ("While it writes: a later run does the rest.", (of_trees()[0].write, STUCK, 0)),
)
def test_an_expired_timeout_ends_the_run(world: World, number: int, code: int, replicas: int) -> None:
    """``--timeout`` expires during a request: nothing more is begun, and the ending names it."""
    calm, began = World(), world.seconds
    taken = list[float]()
    calm.run(do_at(number, "before", lambda _: taken.append(calm.seconds - began)))
    ending = world.start(at=do_at(number, "after", lambda _: world.advance(30))).run(timeout=taken[0], code=code)
    assert world.replicas == replicas
    assert "--timeout" in str(ending)
    assert "give a longer one" in str(ending), "the same command would end in the same way"
    assert world.grove() != world.after
    world.run()


def test_an_operator_that_never_ends_is_given_back(world: World) -> None:
    """A pod of the operator that hangs in its termination ends the run with exit 1 after a while, and is given back."""

    def hang(_: Step) -> None:
        pod: dict[str, Any] = installation.pod(cluster.OLD_IMAGE, name="hanging")
        pod["metadata"]["deletionTimestamp"] = "2026-03-01T00:00:00Z"
        world.store.put(pod)

    ending = world.run(do_at(first("deployments", "scale"), "before", hang), code=FAILED)
    assert "hanging" in str(ending.error)
    assert world.grove() == world.before
    assert world.replicas == 1
    assert world.record == ""


@pytest.mark.parametrize(
    "fault",
    [lambda step: step.process.stop.set(), raising(lambda: NotAuthorised("HTTP 401"))],
    ids=["SIGTERM", "a void token"],
)
def test_an_operator_whose_late_writes_were_waited_for_is_given_back(fault: Callable[[Step], object]) -> None:
    """It kept its Lease, as alpha.4 to alpha.8 may, and the run ends before anything may be written: as before."""
    world = World(cluster.grown())
    world.keeps_lease = True
    waits = when(lambda step: world.holder == PARKED and step.target == "deployments/", fault, times=1)
    world.run(waits, code=FAILED)
    assert world.replicas == 1
    assert world.holder != PARKED


def test_a_run_without_the_operator_needs_nothing_of_it() -> None:
    """Without --stop-operator a live operator refuses, and one at zero is neither touched nor given anything."""
    busy = World()
    ending = busy.run(stop_operator=False, code=REFUSED)
    assert busy.replicas == 1
    assert "GM-122" in str(ending.error)
    idle = World(replicas=0)
    idle.run(stop_operator=False)
    assert idle.grove() == idle.after
    assert idle.replicas == 0
    idle.revert(replicas=0, stop_operator=False)


def test_a_living_holder_is_not_waited_for_for_ever() -> None:
    """Another migration that keeps renewing ends the wait with exit 1, and nothing of the other's is touched."""
    world = World(cluster.grown(), replicas=0)
    world.hand_lease_to("another_1", name=OWN_LEASE)

    def live(seconds: float) -> None:
        world.hand_lease_to("another_1", name=OWN_LEASE)
        world.advance(seconds)

    ending = world.start(sleep=live).run(code=FAILED)
    assert "another_1" in str(ending.error)
    assert world.grove() == world.before
    assert world.replicas == 0
    assert not world.record


def test_the_operator_of_the_old_hashes_is_no_target() -> None:
    """``--target-image`` is its image, such as ``:latest``: it would be started beside hashes that it does not know."""
    world, latest = World(cluster.grown()), installation.image("latest")
    world.upgrade(latest)
    ending = world.run(target_image=latest, code=NO_RECORD)
    assert world.replicas == 1
    assert world.grove() == world.before
    assert "--target-image" in str(ending)


def half_written() -> World:
    world = killed(world=World(cluster.grown()))
    world.rewrite_record()
    world.hand_lease_to("")
    return world


@table(
    "made options",
    ("There is no set.", (lambda: World([]), {})),
    ("A revert.", (finished, {"revert": True})),
    ("A rerun, of a run that died before it wrote.", (lambda: World(cluster.grown()).die(stopped), {})),
    ("A rerun, of a run that died half-way, whose record is lost.", (half_written, {})),
)
def test_the_operator_of_the_target_may_run_already(made: Callable[[], World], options: dict[str, bool]) -> None:
    """``--target-image`` is its image, and that is no mistake: it ends well."""
    world, latest = made(), installation.image("latest")
    world.upgrade(latest)
    world.run(target_image=latest, **options)
    assert world.grove() == (world.undone if options else world.after)


def test_a_stop_that_arrives_late_does_not_undo_that_the_operator_was_given_back() -> None:
    """Its reply was lost, the next one stopped the operator, and an update that had begun meanwhile refuses the run."""
    world = World()
    world.latency = 0.05

    def loses(step: Step) -> None:
        begin_update(world)
        step.process.hold_back(LONGEST_WRITE - 1)

    stops = when(lambda step: step.subresource == "scale" and step.write > 0, loses, times=1)
    world.run(stops, code=REFUSED)
    world.advance(LONGEST_WRITE)
    assert world.replicas == 1


def test_stops_that_all_arrive_late_leave_no_operator_at_zero() -> None:
    """No stop was seen to take effect, so the run ends with nothing changed, and one arrives after that."""
    world = World()
    world.latency = 0.05
    stops = when(
        lambda step: step.subresource == "scale" and step.write > 0,
        lambda step: step.process.hold_back(LONGEST_WRITE - 1),
        times=9,
    )
    world.run(stops, code=FAILED)
    world.advance(LONGEST_WRITE)
    assert world.replicas == 1
