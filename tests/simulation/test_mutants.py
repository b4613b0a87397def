"""With one thing wrong in the product, a check of the suite fails."""

from __future__ import annotations

import pytest

from tests.simulation.machine import history
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.points import steps
from tests.support.counts import record


@pytest.fixture(autouse=True)
def _points() -> None:
    """Count the points at which faults strike in the product as it is."""
    steps("forward")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_seen(mutant: Mutant) -> None:
    """The check of a mutant fails by an assertion of its own."""
    with mutant.wrong, mutant.also, pytest.raises(AssertionError):
        mutant.check()
    record("mutants", 1)


@pytest.mark.parametrize(
    "mutant", [m for m in MUTANTS if getattr(m.check, "func", None) is history], ids=lambda mutant: mutant.name
)
def test_without_it_all_is_well(mutant: Mutant) -> None:
    """The histories of mutants, which are not tests elsewhere, pass with the product as it is."""
    mutant.check()
