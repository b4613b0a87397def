"""Faults at the steps of commands: the exit code agrees with the cluster, and no operator sees hashes unknown to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from migrator.kinds import PODS
from migrator.run.leases import OWN_LEASE
from tests.faults.process import DONE, FAILED, KILLED, MOMENTS, REFUSED, STUCK, Moment, Step, raising, when
from tests.faults.products import FAULTS, RESTORED, able, overtaken, suffer
from tests.faults.steps import COMMANDS, different_writes, steps, writes, writes_to_sets
from tests.faults.world import Command, World
from tests.support.tables import table

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


# --- at the writes of a run and of a revert -------------------------------------------------------------------------


def closed_record(command: Command) -> list[Step]:
    """After the operator's Lease is given back."""
    return [step for step in steps(command) if step.target == f"leases/{OWN_LEASE}"][-3:-2]


@table(
    "command name where codes",
    ("A run that is killed at any write is finished or undone.", ("forward", "a kill", writes, {KILLED})),
    ("So is a revert that is killed at any write.", ("revert", "a kill", writes, {KILLED})),
    ("A reply is lost: the run reads what happened.", ("forward", "a lost reply", different_writes, {DONE})),
    ("A write arrives late: the run waits.", ("forward", "a write that arrives late", different_writes, {DONE})),
    ("SIGTERM: what is begun is finished.", ("forward", "SIGTERM", different_writes, {DONE, FAILED, STUCK})),
    ("Others take the Leases: it ends.", ("forward", "a theft of the Leases", writes_to_sets, {STUCK})),
    ("GitOps starts the old operator: it is stopped again.", ("forward", RESTORED, writes_to_sets, {DONE})),
    ("Two signals once a run's record is closed: done.", ("forward", "two signals", closed_record, {DONE})),
    ("Two signals once a revert's record is closed: done.", ("revert", "two signals", closed_record, {DONE})),
)
def test_a_fault_at_certain_steps(
    command: Command, name: str, where: Callable[[Command], Sequence[Step]], codes: set[int]
) -> None:
    """What the exit code says is so, all of these codes are met, and a rerun or a revert ends well."""
    assert {suffer(command, name, step) for step in where(command) if FAULTS[name].may(step)} == codes


@pytest.mark.parametrize(
    "name",
    [
        *("a conflict", "a failed test", "a rejection", "an outage", "a bug of the server", "a missing right"),
        *("a void token", "a bug of ours", "two signals"),
    ],
)
def test_an_error_at_a_write_is_told_truthfully(name: str) -> None:
    """A write fails, of each two in a row one: the exit code is true, and what is next ends well."""
    found = [step for step in different_writes("forward") if FAULTS[name].may(step)]
    for step in found[[*FAULTS].index(name) % 2 :: 2]:
        suffer("forward", name, step)


@pytest.mark.parametrize("command", ["forward", "revert"])
def test_a_kind_that_is_missing_once_is_no_cluster_without_sets(command: Command) -> None:
    """One 404 for the list of PodCliqueSets, at any of them: the exit code tells the truth, and a rerun ends well."""
    for step in able(command, "a missing kind"):
        suffer(command, "a missing kind", step)


@pytest.mark.parametrize("name", ["a missing right", "a bug of ours", "too little memory", "two signals"])
def test_a_first_patch_that_never_arrives_has_written_nothing(name: str) -> None:
    """It was sent, and the cluster is as before with the operator at work: exit 1 or 3 is the truth."""
    first = next(step for step in writes("forward") if step.resource == PODS)
    assert suffer("forward", name, first) in {FAILED, REFUSED}
