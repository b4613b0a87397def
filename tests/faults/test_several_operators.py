"""A second operator that appears during a run, where neither stopping nor a Lease of ours keeps it out."""

from __future__ import annotations

from migrator.run.operator import OperatorFlags
from testbed import operator_installation as installation
from tests.faults import cluster
from tests.faults.process import DONE, At, Step, when
from tests.faults.world import World

_FLAGS = OperatorFlags(cluster.NAMESPACE, cluster.DEPLOYMENT)


def appears(world: World, image: str, *, reverted: bool = False) -> At:
    """Another Deployment gets replicas once every hash is written."""

    def install(_: Step) -> None:
        world.store.put(installation.deployment(image, namespace="other", observed=True))

    return when(lambda _: world.grove() == (world.before if reverted else world.after), install, times=1)


def test_another_operator_of_the_old_release_does_not_end_a_revert() -> None:
    """Every old hash is back: the operator that was stopped runs again, whoever else does."""
    world = World()
    assert world.run(flags=_FLAGS).code == DONE
    ending = world.run(appears(world, cluster.OLD_IMAGE, reverted=True), flags=_FLAGS, revert=True)
    assert (ending.code, world.replicas, world.record) == (DONE, 1, ""), str(ending)


def test_the_targets_operator_at_the_end_of_a_revert_is_stopped_again() -> None:
    """It does not know the old hashes and waits for its Lease, so it is put to zero before that is given back."""
    world = World()
    assert world.run().code == DONE
    begins = when(
        lambda _: world.grove() == world.undone,
        lambda _: world.deploy(replicas=1, image=cluster.NEW_IMAGE),
        times=1,
    )
    ending = world.run(begins, revert=True)
    assert (ending.code, world.replicas, world.holder) == (DONE, 0, ""), str(ending)
    assert world.grove() == world.undone
