"""Faults at every step: the exit code agrees with the cluster, and no operator sees hashes that it does not know."""

from __future__ import annotations

import pytest

from tests.faults.process import MOMENTS, Moment, raising, when
from tests.faults.products import FAULTS, able, overtaken, suffer
from tests.faults.steps import COMMANDS, steps
from tests.faults.world import Command, World

#: In a bounded run one step of so many.
SPARSE = 83

EVERY = pytest.mark.parametrize(
    "every", [SPARSE, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])], ids=["chosen", "all"]
)


@pytest.mark.parametrize("number", [1, 20])
def test_what_is_asserted_at_a_step_fails_the_test(number: int) -> None:
    """To a run it is a bug like any other, after which it may end with whatever code."""
    fails = when(lambda step: step.write == number, raising(lambda: AssertionError("not so")))
    with pytest.raises(AssertionError, match="not so"):
        World().run(fails, code=None)


@EVERY
@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_fault_at_any_step_is_told_truthfully(command: Command, name: str, every: int) -> None:
    """At every request and sleep: the exit code says what is there, and a rerun or a revert ends well."""
    offset = 7 * [*FAULTS].index(name)
    for step in able(command, name)[offset % every :: every]:
        suffer(command, name, step)


@pytest.mark.parametrize(("first", "second"), [("forward", "revert"), ("revert", "forward")])
def test_a_run_that_is_overtaken_at_its_end_claims_nothing(first: Command, second: Command) -> None:
    """It stands still among its last steps until a second one has done the opposite: exit 0 would be a lie.

    Once it has released its Leases, it reports what it last saw, and the second one is free to undo that.
    """
    release = [step for step in steps(first) if step.target.startswith("leases/")][-1]
    overtaken(first, second, release, alive=True)
    for step in steps(first)[-12:]:
        overtaken(first, second, step, alive=False)


@EVERY
@pytest.mark.parametrize("alive", [False, True], ids=["stands still", "renews"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("second", COMMANDS)
@pytest.mark.parametrize("first", COMMANDS)
def test_a_second_command_at_any_step_of_the_first(
    first: Command, second: Command, moment: Moment, every: int, *, alive: bool
) -> None:
    """Both end truthfully, whichever has the Leases, and all that they leave is finished or undone by the next."""
    offset = 5 * COMMANDS.index(second) + 3 * alive
    for step in [step for step in steps(first) if step.moment == moment][offset % every :: every]:
        overtaken(first, second, step, alive=alive)
