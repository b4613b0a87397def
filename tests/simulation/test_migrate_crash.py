"""A run that is killed at any write, in memory: a rerun finishes it, and a revert undoes it."""

from __future__ import annotations

import pytest

from migrator import resources
from tests.simulation.points import first, undisturbed
from tests.simulation.process import KILLED, MOMENTS, Moment, kill_at
from tests.simulation.world import World
from tests.support.counts import record


def check_migrated(world: World) -> None:
    """Everything is the target's, the record tells so, and the operator waits at zero for Helm."""
    assert world.grove() == world.after
    assert world.replicas == 0
    assert "grove-migrator-run" in world.records


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_rerun_finishes_what_a_kill_interrupted(moment: Moment) -> None:
    """Killed at every write, before or after it took effect: no value is ever a third one, and a rerun ends well."""
    number = len(undisturbed())
    for k in range(1, number + 1):
        world = World()
        assert world.run(kill_at(k, moment)).code == KILLED
        assert world.wrongs == [], k
        assert world.run().code == 0, k
        check_migrated(world)
    record("memory_kill_points", number)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_revert_undoes_what_a_kill_interrupted(moment: Moment) -> None:
    """Killed at every write, then reverted with the same flags: the very objects of before, target values included."""
    number = len(undisturbed())
    for k in range(1, number + 1):
        world = World()
        assert world.run(kill_at(k, moment)).code == KILLED
        ending = world.run(revert=True)
        assert world.grove() == world.before, k
        recorded = next(write.number for write in undisturbed() if write.resource == resources.CONFIG_MAPS)
        begun = k > recorded or (k == recorded and moment == "after")
        assert ending.code == (0 if begun else 2), (k, str(ending))  # before, it had not even recorded that it began
        assert world.replicas == 1
        assert world.records == [] or k <= first("deployments", "scale"), k  # what was never stopped
    record("memory_kill_points", number)
