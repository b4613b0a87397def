"""Where faults may strike: the steps of commands that nothing disturbs, the writes of a run among them."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Final

from tests.faults.process import DONE, Ending, Process, Step, kill_at
from tests.faults.world import Command, World

COMMANDS: Final[tuple[Command, ...]] = ("forward", "revert", "verify")


def prepared(command: Command) -> World:
    """A cluster in which the command makes sense, and in which awake operators must know the hashes that they see."""
    world = World() if command == "forward" else finished()
    if command == "verify":
        world.upgrade()
    world.forbid_unknown_hashes()
    return world


def perform(process: Process, command: Command) -> Ending:
    return process.verify(code=None) if command == "verify" else process.run(revert=command == "revert", code=None)


@cache
def steps(command: Command) -> tuple[Step, ...]:
    """The steps of a command that nothing disturbs, each before and after, oldest first."""
    found: list[Step] = []
    assert perform(prepared(command).start(at=found.append), command).code == DONE
    return tuple(found)


def writes(command: Command = "forward") -> list[Step]:
    """The writes of a command, each before and after it took effect."""
    return [step for step in steps(command) if step.write]


def of_trees() -> list[Step]:
    """Those of a run to Grove's objects, before they take effect."""
    return [step for step in writes() if step.is_grove and step.moment == "before"]


def first(plural: str, subresource: str = "") -> int:
    """The number of the first write to objects of this kind."""
    found = (w for w in writes() if w.resource is not None and w.resource.plural == plural)
    return next(write.write for write in found if write.subresource == subresource)


def different_writes(command: Command = "forward") -> list[Step]:
    """The writes that differ in what they write or in what was written before."""
    found = writes(command)
    chosen = {found[0].write, first("pods") + 1, found[-1].write}
    for one, other in pairwise(found):
        if (one.resource, one.subresource) != (other.resource, other.subresource):
            chosen.add(other.write)
    return [step for step in found if step.write in chosen]


def writes_to_sets(command: Command = "forward") -> list[Step]:
    """Those of them that are to Grove's objects."""
    return [step for step in different_writes(command) if step.is_grove]


def finished(*, elects: bool = True) -> World:
    """A run has ended well, and the operator is at zero."""
    world = World(elects=elects)
    world.run(code=0)
    return world


def killed(number: int = 12, world: World | None = None) -> World:
    """A run died after so many writes to Grove's objects, and its Lease has expired."""
    return (world or World()).die(kill_at(of_trees()[number].write, "after"))
