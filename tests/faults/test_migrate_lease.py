"""A run and its Lease, in memory: lost at any write, contended for, waited for."""

from __future__ import annotations

import pytest

from migrator import resources
from migrator.run.leases import DURATION, OWN_LEASE, QUIET, RENEW_EVERY
from tests.faults.exit_codes import DONE, FAILED, STUCK, lies
from tests.faults.process import MOMENTS, Moment, Step, do_at, kill_at
from tests.faults.steps import CHOICE, of_trees, tree_points
from tests.faults.world import World


@CHOICE
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_pause_longer_than_the_lease_ends_the_run(moment: Moment, *, every: bool) -> None:
    """Paused at any write to a tree for longer than the Lease, while another takes it: nothing more is written.

    Exit 6; the operator stays at zero and the other's Lease is left alone.
    """
    numbers = [step.write for step in tree_points(every=every)]
    for number in numbers:
        world = World()

        process = world.start(fault=do_at(number, moment, lambda _, world=world: world.steal_leases()))
        ending = process.run()
        last = max(step.write for step in process.writes if step.resource != resources.LEASES)
        assert last == number, "one write was under way when the process was paused; no other may follow"
        assert ending.code == STUCK, str(ending)
        assert str(ending).count("run again") == 1, str(ending)
        assert lies(world, ending) == []
        assert (world.replicas, world.holder) == (0, "another_1")
        world.free_leases()
        assert world.run().code == DONE
        assert world.grove() == world.after


def test_a_dead_holder_is_waited_for() -> None:
    """A rerun waits out the Lease of a run that was killed, and the time of its last request, and not much longer."""
    world = World()
    dead = world.start(fault=kill_at(of_trees()[5].write, "after"))
    dead.run()
    assert world.lease(OWN_LEASE)["spec"]["holderIdentity"] == dead.name
    begun = world.seconds
    first: list[float] = []

    def note(step: Step) -> None:
        if step.resource == resources.PODS and not first:
            first.append(world.seconds)

    assert world.run(note).code == DONE
    assert first[0] >= begun + DURATION - RENEW_EVERY
    assert first[0] < begun + DURATION + QUIET + RENEW_EVERY * 6


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
