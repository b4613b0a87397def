"""What is next after a revert whose operator is at zero: a command is printed only for one that knows the hashes."""

from __future__ import annotations

from migrator.cli.dialogue import ending
from migrator.planning.options import PlanOptions
from migrator.run import operator
from migrator.run.context import RunOptions, RunResult
from testbed import operator_installation as installation
from tests.support.builders import World
from tests.support.memory_store import MemoryStore
from tests.support.tables import table

START = "kubectl scale deployment/grove-operator -n grove-system --replicas=1"
BACK = 'helm rollback "$RELEASE" -n grove-system'


@table(
    "tag command in_doubt",
    ("A release of the old hashes.", ("v0.1.0-alpha.9", START, False)),
    ("A release of the new hashes.", ("v0.1.0-alpha.11", BACK, False)),
    ("A release of other hashes.", ("v0.1.0-alpha.3", BACK, True)),
    ("A tag that names no release.", ("prod-7", BACK, True)),
)
def test_what_is_next_after_a_revert(tag: str, command: str, *, in_doubt: bool) -> None:
    """The old operator is started; another one is not."""
    world = World().grow()
    tables = world.tables()
    world.apply(world.decide().changes)
    store = MemoryStore(installation.deployment(installation.image(tag), replicas=0, observed=True))
    options = RunOptions(PlanOptions(target="legacy-1.35"), revert=True)
    result = RunResult(world.revert(tables=tables), operator=operator.find(store, options.flags).operator)
    state, commands = ending(store, result, options)
    assert commands == (command,)
    assert ("Start it only if that is the old operator's image." in state) is in_doubt
