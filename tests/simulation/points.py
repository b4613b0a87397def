"""Where faults may strike: the writes of a run that nothing disturbs."""

from __future__ import annotations

from functools import cache
from typing import Final

import pytest

from tests.simulation import cluster
from tests.simulation.process import Step
from tests.simulation.world import World

GROVE: Final = frozenset(cluster.RESOURCES.values())

#: A parameter ``every``: a choice of points by default, all of them where time does not matter.
CHOICE: Final = pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["chosen", "all"]
)


@cache
def undisturbed() -> tuple[Step, ...]:
    """The writes of such a run, oldest first."""
    process = World().start()
    assert process.run().code == 0
    return tuple(process.writes)


def of_trees() -> list[Step]:
    """Those to Grove's objects."""
    return [write for write in undisturbed() if write.resource in GROVE]


def first(plural: str, subresource: str = "") -> int:
    """The number of the first write to objects of this kind."""
    found = (w for w in undisturbed() if w.resource is not None and w.resource.plural == plural)
    return next(write.write for write in found if write.subresource == subresource)


def points(*, every: bool) -> list[Step]:
    """All of them, or those that differ in what they write or in what was written before."""
    writes = undisturbed()
    if every:
        return list(writes)
    kinds = [(write.resource, write.subresource) for write in writes]
    second = first("pods") + 1
    return [
        write
        for number, write in enumerate(writes)
        if number == 0 or kinds[number] != kinds[number - 1] or write.write in {second, len(writes)}
    ]


def tree_points(*, every: bool) -> list[Step]:
    """Of those, the writes to Grove's objects."""
    return [write for write in points(every=every) if write.resource in GROVE]
