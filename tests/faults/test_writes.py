"""Faults at the writes of a run and of a revert: the exit code agrees with the cluster, and what is next ends well."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from migrator.kinds import PODS
from migrator.run.leases import OWN_LEASE
from tests.faults.process import DONE, FAILED, KILLED, REFUSED, STUCK, Step
from tests.faults.products import FAULTS, RESTORED, able, suffer
from tests.faults.steps import different_writes, steps, writes, writes_to_sets
from tests.faults.world import Command
from tests.support.tables import table


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
