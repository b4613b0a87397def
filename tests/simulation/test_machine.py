"""Users, operators and migrators in any order: see :mod:`tests.simulation.machine` for what must hold."""

from __future__ import annotations

import os

import pytest

from tests.conftest import SEED
from tests.simulation.machine import NO_RECORD, Machine, Tally, explore
from tests.simulation.mutants import history
from tests.simulation.truth import DONE, LOST, REFUSED
from tests.simulation.world import KILLED
from tests.support.counts import record


def check(tally: Tally) -> None:
    """Runs ended in every way, so that nothing held merely because nothing happened."""
    assert tally.endings.keys() >= {DONE, NO_RECORD, REFUSED, LOST, KILLED}
    record("machine_runs", tally.endings.total())
    record("machine_steps", tally.steps)


def test_whatever_happens_is_no_worse_than_without_us() -> None:
    """The same histories every time: no operator replaces more pods than in a cluster without migrators."""
    check(explore(examples=60, steps=25))


def test_a_record_does_not_make_a_reordered_set_canonical() -> None:
    """The operator saw lists in canonical order, and not that they were put back: that is no canonical hash to prove.

    The machine found it. The record of the migration before it is of other schemes and proves nothing here either.
    """

    def reorder(machine: Machine) -> None:
        machine.somebody("reorder", 2, 1)

    history(Machine.finish, Machine.new_operator, reorder, Machine.new_operator, reorder, Machine.finish)


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_whatever_happens_is_no_worse_than_without_us_at_length() -> None:
    """Many more histories, others every time: the run's seed, which its first lines tell, repeats them."""
    check(explore(examples=2000, steps=25, seed=int(os.environ[SEED])))
