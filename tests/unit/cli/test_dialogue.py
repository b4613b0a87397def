"""What is next after a revert whose operator is at zero: a command is printed only for one that knows the hashes."""

from __future__ import annotations

import pytest

from migrator.cli.dialogue import ending
from migrator.planning.model import Plan
from migrator.planning.options import PlanOptions
from migrator.run import operator
from migrator.run.context import RunOptions, RunResult
from testbed import operator_installation as installation
from tests.support.builders import World
from tests.support.memory_store import MemoryStore
from tests.support.tables import table

START = "kubectl scale deployment/grove-operator -n grove-system --replicas=1"
BACK = 'helm rollback "$RELEASE" -n grove-system'


def after_revert(tag: str, *, sets: bool = True) -> tuple[str, tuple[str, ...]]:
    """What is said of an operator at zero with that tag; without ``sets`` after a run that had written nothing."""
    world = World().grow()
    world.apply(world.decide().changes)
    store = MemoryStore(installation.deployment(installation.image(tag), replicas=0, observed=True))
    options = RunOptions(PlanOptions(target="legacy-1.35"), revert=True)
    plan = world.revert() if sets else Plan("auto", "legacy-1.35", ())
    return ending(RunResult(plan, operator=operator.find(store, options.flags).operator), options)


@table(
    "tag sets command",
    ("A release of the old hashes.", ("v0.1.0-alpha.9", True, START)),
    ("A release of the new hashes.", ("v0.1.0-alpha.11", True, BACK)),
    ("A release of the old hashes, after a run that wrote nothing.", ("v0.1.0-alpha.9", False, START)),
    ("A release that takes the old hashes beside its own.", ("main-94a0105c", True, START)),
)
def test_what_is_next_after_a_revert(tag: str, command: str, *, sets: bool) -> None:
    """The old operator is started, the new one is rolled back."""
    assert after_revert(tag, sets=sets)[1] == (command,)


@pytest.mark.parametrize("tag", ["v0.1.0-alpha.3", "v0.1.0-alpha.10-rc1", "prod-7"])
def test_after_a_revert_nobody_is_told_to_start_an_operator_of_other_hashes(tag: str) -> None:
    """Which command is right depends on what the image is: both are shown, and none is the next one."""
    state, commands = after_revert(tag)
    assert commands == ()
    assert f":{tag} is the old operator's image, start it with `{START}`; otherwise go back with `{BACK}`." in state
