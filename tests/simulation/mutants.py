"""Our own code with one thing wrong, and the check of the suite that must see it.

A mutant replaces a function at run time, so what is run is otherwise the product. A check is a test of another module,
a history of the state machine, or a few histories that it finds itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from unittest import mock

from migrator.errors import LostReply, MigratorError, TestFailed
from migrator.grove import places
from migrator.grove.model import Change, Place, Plan, PodCliqueSet, SetHashes, StoredHash
from migrator.planning import planner, revert
from migrator.planning.detect import Verdict
from migrator.planning.tables import Table
from migrator.resources import Op
from migrator.run import execute, migrate
from migrator.run.execute import Executor, Outcome, Patch
from migrator.run.hold import Hold
from migrator.run.record import Recorder
from tests.simulation import (
    test_migrate_crash,
    test_migrate_edit,
    test_migrate_faults,
    test_migrate_lease,
    test_migrate_operator,
)
from tests.simulation.machine import Machine, Mishap, explore, look

Check = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Mutant:
    """What is wrong, as a context in which it is, and the check that fails in it."""

    name: str
    apply: Callable[[], AbstractContextManager[object]]
    check: Check


def history(*steps: Callable[[Machine], object]) -> None:
    """Let these things happen to the state machine, in this order; after each all must hold that always must."""
    machine = Machine()
    for step in steps:
        step(machine)
        look(machine)


def found_by_itself() -> None:
    """A few histories of the state machine's own choice."""
    explore(examples=40, steps=25, shrink=False)


def _root_first() -> AbstractContextManager[object]:
    return mock.patch.dict(execute._RANKS, {Place.SET_GENERATION: -1})


def _no_progress() -> AbstractContextManager[object]:
    return mock.patch.object(places, "_progress", return_value=())


def _no_lease_check() -> AbstractContextManager[object]:
    return mock.patch.object(Hold, "check", return_value=None)


def _taken_as_success(kind: type[MigratorError]) -> AbstractContextManager[object]:
    original = Executor._settle

    def settle(
        self: Executor, patch: Patch, pcs: PodCliqueSet | None, outcome: Outcome, cause: MigratorError
    ) -> Patch | None:
        if isinstance(cause, kind):
            outcome.note(patch)
            return None
        return original(self, patch, pcs, outcome, cause)

    return mock.patch.object(Executor, "_settle", settle)


def _also_changes(verdict: Verdict, place: Place) -> AbstractContextManager[object]:
    """Plan the target's hash also over values of that verdict."""
    original = planner._substitutions

    def substitutions(
        judged: Iterable[tuple[StoredHash, Verdict]], old: SetHashes, new: SetHashes
    ) -> tuple[Change, ...]:
        items = tuple(judged)
        more = (
            Change(item.ref, item.place, item.field, item.value, str(new.of(item)), item.identity)
            for item, found in items
            if item.place is place and found is verdict
        )
        return (*more, *original(items, old, new))

    return mock.patch.object(planner, "_substitutions", substitutions)


def _one_snapshot() -> AbstractContextManager[object]:
    original = migrate._Migration._make_plan

    def make_plan(self: migrate._Migration) -> Plan:
        return self._plan if self._hold.fenced else original(self)

    return mock.patch.object(migrate._Migration, "_make_plan", make_plan)


def _no_tables() -> AbstractContextManager[object]:
    def save_tables(_recorder: Recorder, tables: Iterable[Table], **_options: object) -> Mapping[str, Table]:
        return {table.uid: table for table in tables}

    return mock.patch.object(Recorder, "save_tables", save_tables)


def _reverts_pod_cliques_only() -> AbstractContextManager[object]:
    original = planner.changes_of

    def changes_of(*found: Any, **options: Any) -> tuple[Change, ...]:
        return tuple(change for change in original(*found, **options) if change.ref.kind == "PodClique")

    return mock.patch.object(revert, "changes_of", changes_of)


def _forgets_what_it_found() -> AbstractContextManager[object]:
    return mock.patch.object(revert, "without_kept", lambda changes, _table: changes)


def _no_test_of_the_spec() -> AbstractContextManager[object]:
    original = Patch.ops

    def ops(self: Patch, _pcs: PodCliqueSet | None) -> tuple[Op, ...]:
        return original(self, None)

    return mock.patch.object(Patch, "ops", ops)


@contextlib.contextmanager
def _no_test_of_values() -> Iterator[None]:
    """Neither the patch nor the re-read compares with what was there."""
    original = Patch.ops

    def ops(self: Patch, pcs: PodCliqueSet | None) -> tuple[Op, ...]:
        fields = {change.field for change in self.changes}
        return tuple(op for op in original(self, pcs) if op.op != "test" or op.path not in fields)

    with mock.patch.object(Patch, "ops", ops):
        yield


def _no_look_at_the_operator() -> AbstractContextManager[object]:
    return mock.patch.object(Hold, "stranger", return_value=None)


def _no_look_at_the_targets_operator() -> AbstractContextManager[object]:
    return mock.patch.object(Hold, "serves_target", new=False)


def _marked(machine: Machine) -> None:
    machine.somebody("mark", 0, 1)


def _allowed(machine: Machine) -> None:
    machine.migrate([], "stop", skip_refused=False, allowed=True)


def _marked_meanwhile(machine: Machine) -> None:
    """A pod gets a hash of somebody's own right before it is written to."""
    machine.migrate([Mishap("mark", 6, "before", 0)], "stop", skip_refused=False, allowed=False)


MUTANTS: Final = (
    Mutant(
        "the commit record is written first",
        _root_first,
        partial(test_migrate_crash.test_a_rerun_finishes_what_a_kill_interrupted, "after"),
    ),
    Mutant("the commit record is written first, and the machine sees it", _root_first, found_by_itself),
    Mutant("the hashes of finished updates are forgotten", _no_progress, partial(history, Machine.finish)),
    Mutant(
        "nobody asks whether the Lease is still ours",
        _no_lease_check,
        partial(test_migrate_lease.test_a_pause_longer_than_the_lease_ends_the_run, "before", every=False),
    ),
    Mutant("nobody asks for the Lease, and the machine sees it", _no_lease_check, found_by_itself),
    Mutant(
        "a failed test is taken for success",
        partial(_taken_as_success, TestFailed),
        partial(test_migrate_edit.test_an_edit_during_the_run_is_never_blessed, "skip", "before", every=False),
    ),
    Mutant(
        "a lost reply is taken for success",
        partial(_taken_as_success, LostReply),
        partial(test_migrate_faults.test_a_lost_reply_never_ends_a_run, "before", every=False),
    ),
    Mutant(
        "pods that OnDelete keeps are relabelled",
        partial(_also_changes, Verdict.LEFTOVER, Place.POD_LABEL),
        partial(history, Machine.finish),
    ),
    Mutant(
        "what is planned before the fence is written behind it",
        _one_snapshot,
        partial(test_migrate_operator.test_a_refusal_behind_the_fence_gives_the_operator_back, "before"),
    ),
    Mutant(
        "values of neither scheme are replaced",
        partial(_also_changes, Verdict.FOREIGN, Place.POD_LABEL),
        partial(history, _marked, _allowed),
    ),
    Mutant("values are not compared when they are replaced", _no_test_of_values, partial(history, _marked_meanwhile)),
    Mutant(
        "nothing is recorded before the first patch",
        _no_tables,
        partial(test_migrate_crash.test_a_revert_undoes_what_a_kill_interrupted, "after"),
    ),
    Mutant(
        "a revert restores PodCliques only",
        _reverts_pod_cliques_only,
        partial(history, Machine.finish, Machine.undo),
    ),
    Mutant(
        "a revert also turns back what was the target's before",
        _forgets_what_it_found,
        partial(test_migrate_crash.test_a_revert_undoes_what_a_kill_interrupted, "after"),
    ),
    Mutant(
        "a spec that moved is blessed",
        _no_test_of_the_spec,
        partial(test_migrate_edit.test_an_edit_during_the_run_is_never_blessed, "stop", "before", every=False),
    ),
    Mutant(
        "what the target's operator knows is brought back",
        _no_look_at_the_targets_operator,
        partial(test_migrate_operator.test_beside_the_targets_operator_nothing_is_brought_back, late=False),
    ),
    Mutant(
        "nobody looks for the old operator before the end",
        _no_look_at_the_operator,
        partial(test_migrate_operator.test_replicas_that_come_back_undo_everything, "before", every=False),
    ),
)
