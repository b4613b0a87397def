"""Whatever happens at whatever step: the exit code is the cluster's state, no operator sees what it does not know."""

from __future__ import annotations

import pytest

from tests.simulation import products
from tests.simulation.process import MOMENTS, Moment
from tests.simulation.products import COMMANDS, MISHAPS, Command, Mishap, Tally
from tests.simulation.truth import DONE, FAILED, REFUSED
from tests.support.counts import record

#: In a bounded run one step of so many.
SPARSE = 41

EVERY = pytest.mark.parametrize(
    "every", [SPARSE, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])], ids=["chosen", "all"]
)


@EVERY
@pytest.mark.parametrize("mishap", MISHAPS, ids=lambda mishap: mishap.name)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_mishap_at_any_step_is_told_truthfully(command: Command, mishap: Mishap, every: int) -> None:
    """At every request and sleep: the exit code says what is there, and a rerun or a revert ends well."""
    tally = Tally()
    for number, moment in products.chosen(command, mishap, every=every, first=7 * MISHAPS.index(mishap)):
        products.suffer(command, mishap, number, moment, tally)
    record("product_mishaps", tally.histories)
    record("product_runs", tally.runs)


@pytest.mark.parametrize("name", ["a missing right", "a bug of ours", "too little memory", "two signals"])
def test_a_first_patch_that_never_arrives_has_written_nothing(name: str) -> None:
    """It was sent, and the cluster is as before with the operator at work: exit 1 or 3 is the truth."""
    mishap = next(mishap for mishap in MISHAPS if mishap.name == name)
    writes = [step for step in products.steps("forward") if step.kind == "write"]
    number = next(step.number for step in writes if step.target.startswith("pods/"))
    tally = Tally()
    products.suffer("forward", mishap, number, "before", tally)
    assert set(tally.endings) <= {FAILED, REFUSED}
    record("product_mishaps", tally.histories)
    record("product_runs", tally.runs)


@pytest.mark.parametrize("command", ["forward", "revert"])
def test_two_signals_once_the_record_is_closed_take_nothing_away(command: Command) -> None:
    """All that was asked for was read, and record and operator are in order: that is exit 0."""
    mishap = next(mishap for mishap in MISHAPS if mishap.name == "two signals")
    closing = [step for step in products.steps(command) if step.target == "configmaps/grove-migrator-run"][-1]
    tally = Tally()
    products.suffer(command, mishap, closing.number, "after", tally)
    assert set(tally.endings) == {DONE}
    record("product_mishaps", tally.histories)
    record("product_runs", tally.runs)


@pytest.mark.parametrize(("first", "second"), [("forward", "revert"), ("revert", "forward")])
def test_who_has_let_go_is_undone_by_the_next(first: Command, second: Command) -> None:
    """A run reports what it last saw; a second one that begins after that is free to undo it."""
    tally = Tally()
    release = max(step.number for step in products.steps(first) if step.target.startswith("leases/"))
    products.overtaken(first, second, release, "after", tally, alive=True)
    record("product_double_runs", tally.histories)
    record("product_runs", tally.runs)


@EVERY
@pytest.mark.parametrize("alive", [False, True], ids=["stands still", "renews"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("second", COMMANDS)
@pytest.mark.parametrize("first", COMMANDS)
def test_a_second_command_at_any_step_of_the_first(
    first: Command, second: Command, moment: Moment, every: int, *, alive: bool
) -> None:
    """Both end truthfully, whichever has the Leases, and all that they leave is finished or undone by the next."""
    tally = Tally()
    numbers = [step.number for step in products.steps(first) if step.moment == moment]
    offset = 5 * COMMANDS.index(second) + 3 * alive
    for number in numbers[offset % every :: every]:
        products.overtaken(first, second, number, moment, tally, alive=alive)
    record("product_double_runs", tally.histories)
    record("product_runs", tally.runs)
