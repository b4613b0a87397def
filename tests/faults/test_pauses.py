"""What became otherwise between two runs, or in a long one, though a record or a Lease still tells how it was."""

from __future__ import annotations

from testbed import operator_installation as installation
from tests.faults import cluster
from tests.faults.process import DONE, KILLED, Process, Step, when
from tests.faults.steps import of_trees
from tests.faults.world import LONGER_THAN_A_LEASE, World

UNKNOWN_IMAGE = installation.image("v0.1.0-alpha.13")


def killing(step: Step) -> None:
    """The process dies at this step."""
    step.process.kill()


def test_a_run_of_hours_keeps_an_operator_out_that_waits() -> None:
    """It starts among the first writes, and would take the parked Lease an hour later."""
    world = World()
    world.forbid_unknown_hashes()
    began = of_trees()[2].write

    def last(process: Process) -> None:
        for _ in range(100):
            world.advance(2)
            process.renew()

    def at(step: Step) -> None:
        if (step.write, step.moment) == (began, "before"):
            world.deploy(replicas=1)
        if step.is_grove and step.moment == "before" and step.write > began:
            last(step.process)

    ending = world.run(at)
    assert (ending.code, world.seconds > 4000) == (DONE, True), str(ending)


def test_a_migration_goes_on_after_a_revert_that_died_beside_the_targets_operator() -> None:
    """Under OnDelete some pods have the old hash of the present template again: that is no leftover of an older one."""
    world = World(cluster.grown())
    assert world.run().code == DONE
    world.deploy(replicas=0, image=cluster.NEW_IMAGE)
    of_patient = when(lambda step: step.is_grove and "patient" in step.name and step.moment == "after", killing)
    assert world.run(of_patient, revert=True).code == KILLED
    world.advance(LONGER_THAN_A_LEASE)
    assert world.run().code == DONE
    assert world.grove() == world.after
