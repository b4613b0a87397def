"""Users, operators and migrators in any order: see :mod:`tests.faults.shadow` for what must hold."""

from __future__ import annotations

import os

import pytest

from tests.conftest import SEED
from tests.faults.machine import Machine, RunFault, explore, history
from tests.faults.process import DONE, KILLED, REFUSED, STUCK


def reorder(machine: Machine) -> None:
    """A user puts the containers of a clique into another order, which is not the canonical one any more."""
    machine.somebody("reorder", 2, 1)


#: In a long run all of these are met, so that nothing held merely because nothing happened.
ENDINGS = {DONE, REFUSED, STUCK, KILLED}


def test_whatever_happens_is_no_worse_than_without_us() -> None:
    """The same histories every time: no operator replaces more pods than in a cluster without migrators."""
    assert explore(examples=30, steps=25).keys() >= ENDINGS


def test_a_revert_has_nothing_to_do_once_every_recorded_set_is_deleted() -> None:
    """Other sets were read, so the list is believed: the record of a run that had ended is forgotten, and that is 0.

    The machine found it: 6, and the advice to keep the operator at zero.
    """
    again = [lambda machine, choice=choice: machine.somebody("delete", choice, 3) for choice in range(3)]
    history(Machine.finish, *again, Machine.undo)


def test_a_record_does_not_make_a_reordered_set_canonical() -> None:
    """The operator saw lists in canonical order, and not that they left it: no canonical hash is proven by that.

    The machine found it. The record of the migration before it is of other schemes and proves nothing here either.
    """
    history(Machine.finish, Machine.new_operator, reorder, Machine.finish)


def test_a_set_that_is_reordered_after_a_kill_is_not_blessed() -> None:
    """Its lists leave canonical order before the rerun, which the old operator has not seen: 6, nothing is written.

    The record of the killed run names a legacy source, so a hash that has become canonical is no source's.
    """
    history(lambda machine: machine.die(12, "before"), reorder, Machine.finish)


def test_a_set_that_is_reordered_after_a_run_can_be_reverted() -> None:
    """A hash that has become canonical by that contradicts no legacy source."""
    history(Machine.finish, reorder, Machine.undo)


def test_an_edit_that_is_taken_back_makes_hidden_hashes_current_again() -> None:
    """W14: of a set that was migrated, a clique is reordered, and put back after a revert; a second one heals it."""
    history(Machine.finish, *[lambda machine: machine.somebody("reorder", 9, 1), Machine.undo] * 2)


def test_what_is_written_after_an_edit_in_mid_run_is_said_to_be_half_way() -> None:
    """W2: a clique of a set is edited right before the set is written; the machine asked it wrongly."""
    edit = RunFault("reorder", 10, "before", 0)
    history(lambda machine: machine.migrate([edit], allowed=True, skip_refused=False))


def test_a_rerun_beside_the_next_operator_waits_for_it_and_then_ends_well() -> None:
    """A run died, somebody upgraded, a user edits: 6 until the next operator has seen the edit, and then 0.

    The machine found it. Going back would be what that operator does not know, and nothing is written.
    """

    def ended(machine: Machine, code: int) -> None:
        assert machine.ended.pop(code) == 1

    history(
        lambda machine: machine.die(28, "before"),
        Machine.new_operator,
        reorder,
        Machine.finish,
        lambda machine: ended(machine, STUCK),
        Machine.new_operator,
        Machine.finish,
        lambda machine: ended(machine, DONE),
    )


@pytest.mark.parametrize("killed", [False, True], ids=["finished", "killed"])
def test_a_revert_undoes_every_run(*, killed: bool) -> None:
    """A set is migrated, half rolled back by an old operator and migrated again: a revert leaves nothing of either.

    The machine found it. What the first run wrote is the target's when the second one begins, but was not so before us.
    """

    def operator(machine: Machine) -> None:
        machine.noticed("evict", 2, 1)

    def again(machine: Machine) -> None:
        run_faults = [RunFault("a kill", 14, "after")] if killed else []
        machine.migrate(run_faults, skip_refused=False, allowed=True)
        assert machine.clusters.world.record_state == ("writing" if killed else "done")

    history(Machine.finish, operator, again, Machine.undo)


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_whatever_happens_is_no_worse_than_without_us_at_length() -> None:
    """Many more histories, others every time: the run's seed, which its first lines tell, repeats them."""
    assert explore(examples=2000, steps=25, seed=int(os.environ[SEED])).keys() >= ENDINGS
