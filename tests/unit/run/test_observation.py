"""Which table of a set a run records before it writes, where an earlier run has recorded one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migrator.planning.options import PlanOptions
from migrator.planning.planner import template_digest
from migrator.run.context import RunOptions
from migrator.run.observation import Observation, read_sets, tables_of
from migrator.run.record import Recorded, RecordState, RunRecord
from tests.support.builders import LABEL, NOW, World, clique
from tests.support.clock import context_of
from tests.support.memory_store import MemoryStore

TARGET = "legacy-1.35"
RUN = RunRecord("run-2", "here", "1.0", "auto", TARGET, NOW, finished=None, state=RecordState.WRITING)


def observed(world: World, recorded: Recorded) -> Observation:
    """What a run sees that continues with this record."""
    seen = Observation(RunOptions(PlanOptions(target=TARGET)), recorded=recorded)
    return read_sets(MemoryStore(*world.objects), seen, context_of(lambda: 0.0, lambda: NOW))


@pytest.mark.parametrize("written", [True, False])
def test_the_table_of_an_edited_set_is_kept_while_a_write_of_its_run_is_there(*, written: bool) -> None:
    """The old operator has rolled an edit out. What is written can be undone by the first table alone."""
    (before,) = World().grow().tables().values()
    known = replace(before, run="run-2")
    world = World().grow(cliques=[clique("front"), clique("work", image="app:2")])
    if written:
        world.put("Pod", "web-0-front-0", LABEL, known.target_hashes.templates["front"])
    seen = observed(world, Recorded(RUN, (known,)))
    (found,) = tables_of(seen, RUN)
    assert (found == known) is written
    assert (found.template_digest == template_digest(seen.trees[0].pcs)) is not written


def test_a_table_of_an_earlier_old_operator_is_not_kept() -> None:
    """After a downgrade that rolled all pods anew, a revert restores those hashes, and not older ones."""
    (before,) = World().grow(scheme="legacy-1.33").tables().values()
    world = World().grow()
    (found,) = tables_of(observed(world, Recorded(tables=(replace(before, run="run-1"),))), RUN)
    (fresh,) = world.tables().values()
    assert found == replace(fresh, run="run-2")


@pytest.mark.parametrize("state", [RecordState.REVERTING, RecordState.WRITING])
def test_a_run_that_continues_a_revert_has_all_of_its_tables(state: RecordState) -> None:
    """A revert may have written to each set, so each is the run's now; a migration leaves an earlier run's alone."""
    world = World().grow()
    tables = tuple(replace(one, run="run-1") for one in world.tables().values())
    world.apply(world.decide().changes)
    run = replace(RUN, state=state)
    (found,) = tables_of(observed(world, Recorded(run, tables)), run)
    assert found.run == ("run-2" if state == RecordState.REVERTING else "run-1")
