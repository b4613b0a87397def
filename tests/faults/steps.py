"""Where faults may strike: the steps of commands that nothing disturbs, the writes of a run among them."""

from __future__ import annotations

from functools import cache
from typing import Final

from tests.faults import cluster
from tests.faults.process import Ending, Process, Step
from tests.faults.world import Command, World

COMMANDS: Final[tuple[Command, ...]] = ("forward", "revert", "verify")
GROVE: Final = frozenset(cluster.RESOURCES.values())


def prepared(command: Command) -> World:
    """A cluster in which the command makes sense, and in which awake operators must know the hashes that they see."""
    world = World()
    if command != "forward":
        assert world.run().code == 0
    if command == "verify":
        world.deploy(replicas=1, image=cluster.NEW_IMAGE)
        world.advance(60)
    world.forbid_unknown_hashes()
    return world


def perform(process: Process, command: Command) -> Ending:
    """Do it."""
    return process.verify() if command == "verify" else process.run(revert=command == "revert")


@cache
def steps(command: Command) -> tuple[Step, ...]:
    """The steps of a command that nothing disturbs, each before and after, oldest first."""
    found: list[Step] = []
    assert perform(prepared(command).start(at=found.append), command).code == 0
    return tuple(found)


def undisturbed() -> list[Step]:
    """The writes of a run that nothing disturbs, oldest first."""
    return [step for step in steps("forward") if step.write and step.moment == "before"]


def of_trees() -> list[Step]:
    """Those to Grove's objects."""
    return [write for write in undisturbed() if write.resource in GROVE]


def first(plural: str, subresource: str = "") -> int:
    """The number of the first write to objects of this kind."""
    found = (w for w in undisturbed() if w.resource is not None and w.resource.plural == plural)
    return next(write.write for write in found if write.subresource == subresource)


def points() -> list[Step]:
    """Those of them that differ in what they write or in what was written before."""
    writes = undisturbed()
    kinds = [(write.resource, write.subresource) for write in writes]
    second = first("pods") + 1
    return [
        write
        for number, write in enumerate(writes)
        if number == 0 or kinds[number] != kinds[number - 1] or write.write in {second, len(writes)}
    ]


def tree_points() -> list[Step]:
    """Of those, the writes to Grove's objects."""
    return [write for write in points() if write.resource in GROVE]
