"""The suite has teeth: with one thing wrong in the product, a check of it fails."""

from __future__ import annotations

import pytest

from tests.simulation.machine import history
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.points import undisturbed
from tests.simulation.products import steps
from tests.support.counts import record


@pytest.fixture(autouse=True)
def _points() -> None:
    """Count the points at which faults strike in the product as it is."""
    undisturbed()
    steps("forward")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_seen(mutant: Mutant) -> None:
    """The check that is named for it fails once this is wrong, by what it asserts and not by accident."""
    with mutant.wrong, mutant.also, pytest.raises(AssertionError):
        mutant.check()
    record("mutants", 1)


@pytest.mark.parametrize(
    "mutant", [m for m in MUTANTS if getattr(m.check, "func", None) is history], ids=lambda mutant: mutant.name
)
def test_without_it_all_is_well(mutant: Mutant) -> None:
    """The histories that are told here only, and nowhere else as tests, pass with the product as it is."""
    mutant.check()
