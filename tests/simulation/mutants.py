"""Mutants of the product, each with one function replaced, and the check of the suite that must fail with it.

A check is a test of another module, a history of the state machine, or a search of the state machine for a history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final
from unittest import mock

from migrator.errors import LostReply, MigratorError, Refused, TestFailed
from migrator.grove import places
from migrator.grove.model import Place, PodCliqueSet, StoredHash
from migrator.planning import patches, planner, revert
from migrator.planning.detect import Pair, Verdict
from migrator.planning.model import Change
from migrator.planning.patches import Patch
from migrator.resources import Op
from migrator.run import actions, decisions, loop, operator
from migrator.run.decisions import Goal, Lease, OperatorState, Phase, RecordState, Situation, Why
from migrator.run.execute import Executor
from migrator.run.leases import Leases, LeaseSeen
from migrator.run.observation import Observation, SetsSeen
from migrator.run.operator import OPERATOR_LABELS
from migrator.run.record import Recorded, Recorder
from tests.run import test_holes
from tests.simulation import (
    cluster,
    products,
    test_machine,
    test_migrate_edit,
    test_migrate_lease,
    test_migrate_operator,
    test_migrate_revert,
    test_products,
)
from tests.simulation.machine import Machine, explore, history
from tests.simulation.mishaps import Mishap
from tests.simulation.points import first, first_patch


@dataclass(frozen=True, slots=True)
class Mutant:
    """One or two contexts that make the product wrong, and the check that fails in them."""

    name: str
    wrong: AbstractContextManager[object]
    check: Callable[[], object]
    also: AbstractContextManager[object] = field(default_factory=nullcontext)


def _instead(owner: Any, name: str, wrong: Callable[..., object]) -> AbstractContextManager[object]:
    """Replace a function by ``wrong``, which gets the function and its arguments."""
    right = getattr(owner, name)
    return mock.patch.object(owner, name, lambda *given, **options: wrong(right, *given, **options))


def _seen_as(owner: type, name: str, wrong: Callable[[Any, Any], object]) -> AbstractContextManager[object]:
    """A property has the value that ``wrong`` makes of the object and of the right value."""
    right = vars(owner)[name]
    return mock.patch.object(owner, name, property(lambda seen: wrong(seen, right.__get__(seen))))


def _has(owner: type, name: str, value: object) -> AbstractContextManager[object]:
    """A property has this value."""
    return mock.patch.object(owner, name, property(lambda _seen: value))


# --- what is planned and written ------------------------------------------------------------------------------------


def _taken_as_success(kind: type[MigratorError]) -> AbstractContextManager[object]:
    def left(right: Any, executor: Executor, sending: object, answer: MigratorError | None) -> Patch | None:
        return None if isinstance(answer, kind) else right(executor, sending, answer)

    return _instead(Executor, "_left", left)


def _also_changes(verdict: Verdict, place: Place) -> AbstractContextManager[object]:
    """Plan the target's hash also over values of that verdict."""

    def changes_of(right: Any, stored: Iterable[StoredHash], pair: Pair, **rest: Any) -> tuple[Change, ...]:
        items = tuple(stored)
        met = (item for item in items if item.place is place and pair.verdict(item) is verdict)
        more = (Change(i.ref, i.place, i.field, i.value, str(pair.target.of(i)), i.identity) for i in met)
        return (*more, *right(items, pair, **rest))

    return _instead(planner, "changes_of", changes_of)


def _one_snapshot() -> AbstractContextManager[object]:
    """Behind the fence, use the snapshot from before it."""
    read: list[SetsSeen] = []

    def read_sets(right: Any, store: object, seen: Observation, context: object) -> Observation:
        if seen.phase is Phase.FENCED and read:
            return replace(seen, sets=read[-1])
        found: Observation = right(store, seen, context)
        read.append(found.sets)
        return found

    return _instead(loop, "read_sets", read_sets)


def _no_tables(right: Any, recorder: Recorder, recorded: Recorded, **options: Any) -> None:
    right(recorder, replace(recorded, tables=()), **options)


def _of_pod_cliques_only(right: Any, *found: Any, **options: Any) -> tuple[Change, ...]:
    return tuple(change for change in right(*found, **options) if change.ref.kind == "PodClique")


def _no_test_of_values(right: Any, patch: Patch, pcs: PodCliqueSet | None) -> tuple[Op, ...]:
    """Neither the patch nor the read after a lost reply compares the old value."""
    fields = {change.field for change in patch.changes}
    return tuple(op for op in right(patch, pcs) if op.op != "test" or op.path not in fields)


# --- what is seen of operators, Leases and records ------------------------------------------------------------------


def _no_look_at_the_operator() -> AbstractContextManager[object]:
    """Take every operator behind the fence for the target's."""
    others = {OperatorState.OTHER, OperatorState.LOOSE}

    def wrong(seen: Observation, right: OperatorState) -> OperatorState:
        return OperatorState.TARGET if seen.fenced and right in others else right

    return _seen_as(Observation, "operator_state", wrong)


def _waits_for_ever(right: Any, seen: Situation) -> Goal:
    """A run that waited too long for a living holder wants to go back, and waits for that."""
    busy = seen.why is Why.BUSY
    return Goal.BACK if busy and seen.begun and seen.ours is Lease.HELD else right(seen)


def _given_a_replica(seen: Observation, due: int | None) -> int | None:
    at_zero = seen.operator is not None and seen.operator.replicas == 0
    return due or (1 if at_zero else None)


# --- checks ---------------------------------------------------------------------------------------------------------


def found_by_itself() -> None:
    """Let the state machine choose histories, the same ones every time, until one fails."""
    explore(examples=600, steps=25, shrink=False)


def _killed(*, back: bool) -> None:
    """A run that is killed after any of its writes, and then a rerun or a revert."""
    test_products.test_what_a_kill_at_any_write_interrupted_can_be_mended("after", "forward", back=back)


def _overtaken() -> None:
    """A second run while the first one writes, and lives."""
    products.overtaken("forward", "forward", first_patch(), "after", alive=True)


def _marked(machine: Machine) -> None:
    machine.somebody("mark", 0, 1)


def _allowed(machine: Machine) -> None:
    machine.migrate([], "stop", skip_refused=False, allowed=True)


def _marked_meanwhile(machine: Machine) -> None:
    """A user changes a pod's hash right before the run writes to it."""
    machine.migrate([Mishap("mark", first("pods"), "before", 0)], "stop", skip_refused=False, allowed=False)


_ROOT_FIRST: Final = mock.patch.dict(patches.RANKS, {("PodCliqueSet", "status"): -1})
_NO_LEASE_CHECK: Final = mock.patch.object(Leases, "left", return_value=30.0)
_THE_REASON_ALONE: Final = mock.patch.object(loop, "exit_code", lambda reason, _seen: reason)

MUTANTS: Final = (
    Mutant(
        "the run takes a Lease that another process holds",
        mock.patch.object(Leases, "_judge", lambda _self, name, *_seen: LeaseSeen(name, Lease.FREE)),
        test_holes.test_two_runs_exclude_each_other_whatever_their_flags,
    ),
    Mutant("a second run waits for ever", _instead(decisions, "goal", _waits_for_ever), _overtaken),
    Mutant(
        "the old operator may start once everything is written",
        _has(Situation, "foreign", value=False),
        test_holes.test_told_to_end_when_all_is_written_it_does_not_let_the_old_operator_in,
    ),
    Mutant(
        "only the chart's labels identify an operator",
        mock.patch.object(operator, "_matches", lambda _, labels: OPERATOR_LABELS.items() <= labels.items()),
        test_holes.test_an_operator_under_its_own_labels_is_seen,
    ),
    Mutant(
        "an exception decides the exit code",
        _THE_REASON_ALONE,
        partial(test_holes.test_no_exception_hides_what_was_written, KeyboardInterrupt),
    ),
    Mutant(
        "SIGTERM counts as a refusal",
        mock.patch.object(loop, "Interrupted", Refused),
        test_holes.test_sigterm_while_waiting_for_idle_is_no_refusal,
    ),
    Mutant(
        "a dry run ignores operators",
        mock.patch.object(Observation, "findings", return_value=[]),
        test_holes.test_a_dry_run_ends_as_the_run_would,
    ),
    Mutant(
        "a record of other schemes is ignored",
        _seen_as(
            Observation, "record_state", lambda _seen, right: RecordState.NONE if right is RecordState.OTHER else right
        ),
        test_holes.test_a_half_written_migration_of_other_schemes_refuses_before_anything,
    ),
    Mutant(
        "a run that may read nothing never ends",
        mock.patch.object(loop, "ATTEMPTS", 10**6),
        test_holes.test_a_run_whose_token_is_void_ends,
    ),
    Mutant(
        "values that an earlier run wrote count as original",
        mock.patch.object(Recorded, "origins", lambda recorded, _way: recorded),
        partial(test_machine.test_a_revert_undoes_every_run, killed=False),
    ),
    Mutant(
        "the run releases its Leases while sets are half migrated",
        mock.patch.object(loop, "parks", return_value=False),
        test_holes.test_an_operator_that_waits_for_the_lease_never_gets_it_half_way,
    ),
    Mutant(
        "a rerun does not restart the operator that a dead run stopped",
        _has(Observation, "replicas_due", None),
        test_holes.test_a_refused_rerun_gives_back_the_operator_that_a_dead_run_stopped,
    ),
    Mutant(
        "the run starts an operator that a user stopped",
        _seen_as(Observation, "replicas_due", _given_a_replica),
        partial(test_holes.test_replicas_that_somebody_else_set_to_zero_stay, late=True),
    ),
    Mutant(
        "a run that another one overtook trusts what it read before",
        mock.patch.multiple(Leases, left=lambda _self: 30.0, _lost=lambda *_: ""),
        partial(test_holes.test_a_run_that_another_overtook_never_starts_the_old_operator, stopped=True),
    ),
    Mutant(
        "a run that fails also reverts an earlier one",
        mock.patch.object(Recorded, "of_open_run", lambda recorded: {table.uid: table for table in recorded.tables}),
        test_migrate_revert.test_a_later_run_that_fails_leaves_an_earlier_migration_alone,
    ),
    Mutant(
        "the run does not look for operators while it writes",
        mock.patch.object(actions, "foreign", return_value=None),
        partial(test_holes.test_an_operator_without_election_stops_the_run, cluster.OLD_IMAGE, 5),
        _no_look_at_the_operator(),
    ),
    Mutant(
        "the exit code ignores the state of the cluster",
        _THE_REASON_ALONE,
        test_holes.test_a_half_written_cluster_never_ends_with_3,
    ),
    Mutant(
        "the commit record is written first",
        _ROOT_FIRST,
        partial(_killed, back=False),
    ),
    Mutant("the commit record is written first (state machine)", _ROOT_FIRST, found_by_itself),
    Mutant(
        "hashes of finished updates are not migrated",
        _instead(places, "_in_status", lambda right, ref, status, found, *of: right(ref, status, {"": found[""]}, *of)),
        partial(history, Machine.finish),
    ),
    Mutant(
        "the run does not check that it still holds the Lease",
        _NO_LEASE_CHECK,
        partial(test_migrate_lease.test_a_pause_longer_than_the_lease_ends_the_run, "before", every=False),
    ),
    Mutant("the run does not check that it still holds the Lease (state machine)", _NO_LEASE_CHECK, found_by_itself),
    Mutant(
        "a failed test counts as success",
        _taken_as_success(TestFailed),
        partial(test_migrate_edit.test_an_edit_during_the_run_is_never_blessed, "skip", "before", every=False),
    ),
    Mutant(
        "a lost reply counts as success",
        _taken_as_success(LostReply),
        partial(test_products.test_a_lost_reply_never_ends_a_run, "before", every=False),
    ),
    Mutant(
        "outdated pods under OnDelete get new labels",
        _also_changes(Verdict.LEFTOVER, Place.POD_LABEL),
        partial(history, Machine.finish),
    ),
    Mutant(
        "the plan from before the fence is written behind it",
        _one_snapshot(),
        partial(test_migrate_operator.test_a_refusal_behind_the_fence_gives_the_operator_back, "before"),
    ),
    Mutant(
        "values of neither scheme are replaced",
        _also_changes(Verdict.FOREIGN, Place.POD_LABEL),
        partial(history, _marked, _allowed),
    ),
    Mutant(
        "a patch does not test the old value",
        _instead(Patch, "ops", _no_test_of_values),
        partial(history, _marked_meanwhile),
    ),
    Mutant(
        "the run records nothing before its first patch",
        _instead(Recorder, "save", _no_tables),
        partial(_killed, back=True),
    ),
    Mutant(
        "a revert restores PodCliques only",
        _instead(revert, "changes_of", _of_pod_cliques_only),
        partial(history, Machine.finish, Machine.undo),
    ),
    Mutant(
        "a revert changes values that were the target's before the run",
        mock.patch.object(revert, "written_by", lambda _table, changes: changes),
        partial(_killed, back=True),
    ),
    Mutant(
        "a patch does not test the spec",
        _instead(Patch, "ops", lambda right, patch, _pcs: right(patch, None)),
        partial(test_migrate_edit.test_an_edit_during_the_run_is_never_blessed, "stop", "before", every=False),
    ),
    Mutant(
        "a run beside the target's operator reverts its hashes",
        _has(Observation, "target_was_running", value=False),
        partial(test_migrate_operator.test_beside_the_targets_operator_nothing_is_brought_back, late=False),
    ),
    Mutant(
        "the run does not look for the old operator before it ends",
        _no_look_at_the_operator(),
        partial(test_migrate_operator.test_replicas_that_come_back_undo_everything, "before", every=False),
    ),
)
