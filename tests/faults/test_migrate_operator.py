"""A run, the operator and the Leases, in memory: stopped, given back, started or taken by somebody else meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from migrator import resources
from migrator.errors import NotAuthorised
from migrator.run.leases import OWN_LEASE, PARKED
from testbed import operator_installation as installation
from tests.faults import cluster
from tests.faults.process import DONE, FAILED, KILLED, MOMENTS, REFUSED, STUCK, Moment, Step, do_at, kill_at, raising
from tests.faults.steps import first, of_trees, points, tree_points
from tests.faults.world import LONGER_THAN_A_LEASE, World
from tests.support.tables import table


@pytest.fixture
def world() -> World:
    """A cluster whose operator may never be awake beside anything that is migrated."""
    made = World()
    made.forbid_unknown_hashes()
    return made


@pytest.mark.parametrize("moment", MOMENTS)
def test_replicas_that_come_back_are_kept_out(moment: Moment) -> None:
    """GitOps puts the old operator's replicas back at any write: exit 6, and it waits for a Lease that is parked."""
    writes = tree_points()
    for step in writes:
        world = World()
        world.forbid_unknown_hashes()
        ending = world.run(do_at(step.write, moment, lambda _, world=world: world.deploy(replicas=1)))
        assert ending.code == STUCK, str(ending)
        assert "--target-image" in str(ending.error)
        assert "pause it" in str(ending.error)
        assert world.lies(ending) == []
        world.advance(60)
        assert world.holder == PARKED
        world.deploy(replicas=0)
        world.advance(60)
        assert world.run().code == DONE


def test_an_old_operators_pod_alone_is_kept_out(world: World) -> None:
    """A pod of the old operator without replicas, as `kubectl run` makes one, is named: exit 6, and it waits."""
    number = first("podcliquesets", "status")
    pod = installation.pod(cluster.OLD_IMAGE, name="sneaky")
    ending = world.run(do_at(number, "after", lambda _: world.store.put(pod)))
    assert (ending.code, world.holder) == (STUCK, PARKED), str(ending)
    assert "sneaky" in str(ending.error)


def test_the_targets_operator_may_come_early(world: World) -> None:
    """A Deployment of the next release in the middle of the run waits for the Lease, and finds its own hashes."""
    number = first("podcliquesets", "status")
    ending = world.run(do_at(number, "before", lambda _: world.deploy(replicas=1, image=cluster.NEW_IMAGE)))
    assert ending.code == DONE
    world.advance(60)
    assert (world.grove() == world.after, world.replicas) == (True, 1)


@pytest.mark.parametrize(("image", "code"), [("registry.example/op:nightly", STUCK), ("registry.example/op:own", 0)])
def test_an_image_that_is_no_release_must_be_named(world: World, image: str, code: int) -> None:
    """--target-image makes an image the target's; any other that is not a release of the target is a stranger."""
    number = first("podcliquesets", "status")
    world.on_awake = lambda _image: None
    fault = do_at(number, "before", lambda _: world.deploy(replicas=1, image=image))
    assert world.run(fault, target_image="registry.example/op:own").code == code


@pytest.mark.parametrize("moment", MOMENTS)
def test_sigterm_at_any_write_ends_the_run_in_order(moment: Moment) -> None:
    """Asked to stop at any write: what is begun is finished, the Lease is free, and the exit code tells the truth."""
    writes = points()
    codes = set()
    for step in writes:
        world = World()
        ending = world.run(do_at(step.write, moment, lambda step: step.process.stop.set()))
        assert world.lies(ending) == []
        assert (world.holder == PARKED) == (ending.code == STUCK)
        assert not world.holder.startswith("migrator")
        assert (ending.code == FAILED) == (world.replicas == 1), str(ending)
        codes.add(ending.code)
        again = world.run()
        assert (again.code, world.lies(again)) == (DONE, []), str(again)
    assert codes == {DONE, FAILED, STUCK}


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
    ending = world.start(at=do_at(number, "after", lambda _: world.advance(30))).run(timeout=taken[0])
    assert (ending.code, world.replicas) == (code, replicas), str(ending)
    assert "--timeout" in str(ending)
    assert world.grove() != world.after
    assert world.run().code == DONE


def test_an_operator_that_never_ends_is_given_back(world: World) -> None:
    """A pod of the operator that hangs in its termination ends the run with exit 1 after a while, and is given back."""

    def hang(_: Step) -> None:
        pod: dict[str, Any] = installation.pod(cluster.OLD_IMAGE, name="hanging")
        pod["metadata"]["deletionTimestamp"] = "2026-03-01T00:00:00Z"
        world.store.put(pod)

    ending = world.run(do_at(first("deployments", "scale"), "before", hang))
    assert ending.code == FAILED
    assert "hanging" in str(ending.error)
    assert (world.grove() == world.before, world.replicas, world.records) == (True, 1, [])


def test_a_run_without_the_operator_needs_nothing_of_it() -> None:
    """Without --stop-operator a live operator refuses, and one at zero is neither touched nor given anything."""
    busy = World()
    ending = busy.run(stop_operator=False)
    assert (ending.code, busy.replicas) == (REFUSED, 1)
    assert "GM-122" in str(ending.error)
    idle = World(replicas=0)
    assert idle.run(stop_operator=False).code == DONE
    assert (idle.grove() == idle.after, idle.replicas) == (True, 0)
    assert idle.run(stop_operator=False, revert=True).code == DONE
    assert (idle.grove() == idle.before, idle.replicas) == (True, 0)


def test_a_lease_keeps_no_operator_of_another_namespace_out() -> None:
    """A second installation of the target's operator appears elsewhere in mid-write: 6, not 0."""
    world = World()

    def install(_: object) -> None:
        image = cluster.NEW_IMAGE
        world.store.put(installation.deployment(image, namespace="elsewhere", observed=True))
        world.store.put(installation.config_map(namespace="elsewhere"))
        world.store.put(installation.pod(image, namespace="elsewhere"))

    assert world.run(do_at(first("pods"), "after", install)).code == STUCK


def test_a_rerun_without_credentials_claims_nothing() -> None:
    """A rerun of half-written sets whose token is void: 1, and never that nothing is changed, for nothing was read."""
    world = World()
    assert world.run(kill_at(of_trees()[5].write, "after")).code == KILLED
    world.advance(LONGER_THAN_A_LEASE)
    ending = world.start(at=raising(lambda: NotAuthorised("HTTP 401"))).run()
    assert ending.code == FAILED, str(ending)
    assert "Nothing is changed" not in str(ending.error)
    assert "keep the operator at zero" in str(ending.error)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_pause_longer_than_the_lease_ends_the_run(moment: Moment) -> None:
    """Paused at any write to a tree for longer than the Lease, while another takes it: nothing more is written.

    Exit 6; the operator stays at zero and the other's Lease is left alone.
    """
    numbers = [step.write for step in tree_points()]
    for number in numbers:
        world = World()

        process = world.start(at=do_at(number, moment, lambda _, world=world: world.steal_leases()))
        ending = process.run()
        last = max(step.write for step in process.writes if step.resource != resources.LEASES)
        assert last == number, "one write was under way when the process was paused; no other may follow"
        assert ending.code == STUCK, str(ending)
        assert str(ending).count("run again") == 1, str(ending)
        assert world.lies(ending) == []
        assert (world.replicas, world.holder) == (0, "another_1")
        world.free_leases()
        assert world.run().code == DONE
        assert world.grove() == world.after


def test_a_living_holder_is_not_waited_for_for_ever() -> None:
    """Another migration that keeps renewing ends the wait with exit 1, and nothing of the other's is touched."""
    world = World(replicas=0)
    world.hand_lease_to("another_1", name=OWN_LEASE)

    def live(seconds: float) -> None:
        world.hand_lease_to("another_1", name=OWN_LEASE)
        world.advance(seconds)

    ending = world.start(sleep=live).run()
    assert ending.code == FAILED
    assert "another_1" in str(ending.error)
    assert (world.grove() == world.before, world.replicas) == (True, 0)
    assert world.records == []
