"""Faults at every step: the exit code agrees with the cluster, and no operator sees hashes that it does not know."""

from __future__ import annotations

import pytest

from tests.faults.process import DONE, FAILED, KILLED, MOMENTS, REFUSED, Moment
from tests.faults.products import FAULTS, chosen, overtaken, suffer
from tests.faults.steps import COMMANDS, Command, first_patch, points, steps
from tests.support.tables import table

#: In a bounded run one step of so many.
SPARSE = 41

EVERY = pytest.mark.parametrize(
    "every", [SPARSE, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])], ids=["chosen", "all"]
)


@EVERY
@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_fault_at_any_step_is_told_truthfully(command: Command, name: str, every: int) -> None:
    """At every request and sleep: the exit code says what is there, and a rerun or a revert ends well."""
    for number, moment in chosen(command, name, every=every, first=7 * [*FAULTS].index(name)):
        suffer(command, name, number, moment, back=(number + len(moment)) % 2 == 0)


@table(
    "command back",
    (
        "Killed at every write, before or after it took effect: no value is ever a third one, and a rerun ends well.",
        ("forward", False),
    ),
    (
        "Killed at every write, then reverted with the same flags: the very objects of before, target values included.",
        ("forward", True),
    ),
    (
        "Killed at every write of a revert: the next one ends with the very objects of before, and the operator back.",
        ("revert", True),
    ),
    (
        "Killed at every write of a revert: a run ends with everything migrated, and then a revert with nothing.",
        ("revert", False),
    ),
)
@pytest.mark.parametrize("moment", MOMENTS)
def test_what_a_kill_at_any_write_interrupted_can_be_mended(moment: Moment, command: Command, *, back: bool) -> None:
    """Killed at every write: a rerun or a revert ends well."""
    writes = [step.number for step in steps(command) if step.write and step.moment == moment]
    assert {suffer(command, "a kill", number, moment, back=back) for number in writes} == {KILLED}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_lost_reply_never_ends_a_run(moment: Moment) -> None:
    """The reply to any one write gets lost, applied or not: the run reads what happened and goes on to its end."""
    assert {suffer("forward", "a lost reply", write.number, moment) for write in points()} == {DONE}


@pytest.mark.parametrize(
    "name",
    [
        *("a conflict", "a failed test", "a rejection", "an outage", "a bug of the server", "a missing right"),
        *("a void token", "a bug of ours", "two signals"),
    ],
)
def test_an_error_at_any_write_is_told_truthfully(name: str) -> None:
    """One write fails: what the exit code says of the cluster is so, and a rerun and a revert end well."""
    for write in points():
        suffer("forward", name, write.number, "before")


@pytest.mark.parametrize("name", ["a missing right", "a bug of ours", "too little memory", "two signals"])
def test_a_first_patch_that_never_arrives_has_written_nothing(name: str) -> None:
    """It was sent, and the cluster is as before with the operator at work: exit 1 or 3 is the truth."""
    assert suffer("forward", name, first_patch(), "before") in {FAILED, REFUSED}


@pytest.mark.parametrize("command", ["forward", "revert"])
def test_two_signals_once_the_record_is_closed_take_nothing_away(command: Command) -> None:
    """All that was asked for was read, and record and operator are in order: that is exit 0."""
    closing = [step for step in steps(command) if step.target == "configmaps/grove-migrator-run"][-1]
    assert suffer(command, "two signals", closing.number, "after") == DONE


@pytest.mark.parametrize(("first", "second"), [("forward", "revert"), ("revert", "forward")])
def test_a_run_that_has_released_its_leases_can_be_undone(first: Command, second: Command) -> None:
    """A run reports what it last saw; a second one that begins after that is free to undo it."""
    release = max(step.number for step in steps(first) if step.target.startswith("leases/"))
    overtaken(first, second, release, "after", alive=True)


@EVERY
@pytest.mark.parametrize("alive", [False, True], ids=["stands still", "renews"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("second", COMMANDS)
@pytest.mark.parametrize("first", COMMANDS)
def test_a_second_command_at_any_step_of_the_first(
    first: Command, second: Command, moment: Moment, every: int, *, alive: bool
) -> None:
    """Both end truthfully, whichever has the Leases, and all that they leave is finished or undone by the next."""
    numbers = [step.number for step in steps(first) if step.moment == moment]
    offset = 5 * COMMANDS.index(second) + 3 * alive
    for number in numbers[offset % every :: every]:
        overtaken(first, second, number, moment, alive=alive)
