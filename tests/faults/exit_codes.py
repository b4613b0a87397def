"""What the exit code of a run claims, held against the cluster: whatever was done to the run, it must not lie."""

from __future__ import annotations

from typing import Final, Protocol

from migrator.run.leases import PARKED
from testbed.trees import Object
from tests.faults import cluster
from tests.faults.process import KILLED

DONE: Final = 0
FAILED: Final = 1
NO_RECORD: Final = 2
REFUSED: Final = 3
STUCK: Final = 6


class World(Protocol):
    """A cluster, in memory or not: its objects now, of before, and as a migration must leave them."""

    before: dict[cluster.Key, Object]
    after: dict[cluster.Key, Object]

    @property
    def wrongs(self) -> list[str]: ...  # noqa: D102

    @property
    def replicas(self) -> int: ...  # noqa: D102

    @property
    def holder(self) -> str: ...  # noqa: D102

    def grove(self) -> dict[cluster.Key, Object]: ...  # noqa: D102


class Ending(Protocol):
    """How a run ended, and in words as a string."""

    @property
    def code(self) -> int: ...  # noqa: D102


def lies(world: World, ending: Ending) -> list[str]:
    """Everything that is not as the exit code of a migration says, of a cluster that was untouched before."""
    found = world.grove()
    wrong = list(world.wrongs)
    if ending.code == DONE:
        wrong += _differences("done, but not migrated", found, world.after)
        wrong += ["done, but the old operator may run"] if world.replicas else []
    elif ending.code in {FAILED, NO_RECORD, REFUSED}:
        wrong += _differences(f"exit {ending.code}, but not as before", found, world.before)
        wrong += [] if world.replicas == 1 else [f"exit {ending.code}, but replicas are {world.replicas}"]
    elif ending.code not in {STUCK, KILLED}:
        wrong.append(f"exit {ending.code}")
    if world.replicas and world.holder != PARKED and any(not _is(found, world.before, name) for name in _sets(world)):
        wrong.append(f"exit {ending.code}, something is migrated, and the old operator may run")
    return [f"{problem} ({ending})" for problem in wrong]


def _sets(world: World) -> list[str]:
    return [key[2] for key in world.before if key[0] == "PodCliqueSet"]


def _is(found: dict[cluster.Key, Object], wanted: dict[cluster.Key, Object], name: str) -> bool:
    mine = {key: item for key, item in wanted.items() if cluster.set_of(item) == name}
    return all(found.get(key) == item for key, item in mine.items())


def _differences(what: str, found: dict[cluster.Key, Object], wanted: dict[cluster.Key, Object]) -> list[str]:
    return [f"{what}: {key}" for key in wanted if found.get(key) != wanted[key]]
