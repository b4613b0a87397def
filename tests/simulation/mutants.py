"""Our own code with one thing wrong, and the check of the suite that must see it.

A mutant replaces a function at run time, so what is run is otherwise the product. A check is a test of another module,
a history of the state machine, or a few histories that it finds itself.
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
from migrator.grove.model import Change, Place, PodCliqueSet, SetHashes, StoredHash
from migrator.planning import patches, planner, revert
from migrator.planning.detect import Pair, Verdict
from migrator.planning.patches import Patch
from migrator.resources import Op as PatchOp
from migrator.run import actions, decisions, loop, operator
from migrator.run.decisions import Goal, Lease, Op, Phase, Rec, Situation, Why
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
from tests.simulation.points import first


@dataclass(frozen=True, slots=True)
class Mutant:
    """One or two contexts in which something is wrong, and the check that fails in them."""

    name: str
    wrong: AbstractContextManager[object]
    check: Callable[[], object]
    also: AbstractContextManager[object] = field(default_factory=nullcontext)


def _instead(owner: Any, name: str, wrong: Callable[..., object]) -> AbstractContextManager[object]:
    """``wrong`` takes the place of a function, and is given that function and its arguments."""
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

    def substitutions(right: Any, stored: Iterable[StoredHash], old: SetHashes, new: SetHashes) -> tuple[Change, ...]:
        met: list[StoredHash] = []

        def judge(right: Any, pair: Pair, item: StoredHash) -> Verdict:
            found: Verdict = right(pair, item)
            if found is verdict and item.place is place:
                met.append(item)
            return found

        with _instead(Pair, "verdict", judge):  # values are judged while they are taken
            changes = right(stored, old, new)
        more = (Change(item.ref, item.place, item.field, item.value, str(new.of(item)), item.identity) for item in met)
        return (*more, *changes)

    return _instead(planner, "_substitutions", substitutions)


def _one_snapshot() -> AbstractContextManager[object]:
    """What was planned before the fence is taken for what is there behind it."""
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


def _no_test_of_values(right: Any, patch: Patch, pcs: PodCliqueSet | None) -> tuple[PatchOp, ...]:
    """Neither the patch nor the re-read compares with what was there."""
    fields = {change.field for change in patch.changes}
    return tuple(op for op in right(patch, pcs) if op.op != "test" or op.path not in fields)


# --- what is seen of operators, Leases and records ------------------------------------------------------------------


def _no_look_at_the_operator() -> AbstractContextManager[object]:
    """An operator behind the fence is always taken for the target's."""
    return _seen_as(Observation, "op", lambda seen, op: Op.TARGET if seen.fenced and op in {Op.OTHER, Op.LOOSE} else op)


def _waits_for_ever(right: Any, seen: Situation) -> Goal:
    """Who waited too long for a living holder still wants to go back, and waits for that."""
    busy = seen.why is Why.BUSY
    return Goal.BACK if busy and seen.begun and seen.ours is Lease.HELD else right(seen)


def _given_a_replica(seen: Observation, due: int | None) -> int | None:
    at_zero = seen.operator is not None and seen.operator.replicas == 0
    return due or (1 if at_zero else None)


# --- checks ---------------------------------------------------------------------------------------------------------


def found_by_itself() -> None:
    """Histories of the state machine's own choice, the same every time, until one fails."""
    explore(examples=600, steps=25, shrink=False)


def _killed(*, back: bool) -> None:
    """A run that is killed after any of its writes, and then a rerun or a revert."""
    test_products.test_what_a_kill_at_any_write_interrupted_can_be_mended("after", "forward", back=back)


def _overtaken() -> None:
    """A second run while the first one writes, and lives."""
    products.overtaken("forward", "forward", products.first_patch(), "after", products.Tally(), alive=True)


def _marked(machine: Machine) -> None:
    machine.somebody("mark", 0, 1)


def _allowed(machine: Machine) -> None:
    machine.migrate([], "stop", skip_refused=False, allowed=True)


def _marked_meanwhile(machine: Machine) -> None:
    """A pod gets a hash of somebody's own right before it is written to."""
    machine.migrate([Mishap("mark", first("pods"), "before", 0)], "stop", skip_refused=False, allowed=False)


_ROOT_FIRST: Final = mock.patch.dict(patches.RANKS, {("PodCliqueSet", "status"): -1})
_NO_LEASE_CHECK: Final = mock.patch.object(Leases, "left", return_value=30.0)
_THE_REASON_ALONE: Final = mock.patch.object(loop, "exit_code", lambda reason, _seen: reason)

MUTANTS: Final = (
    Mutant(
        "a Lease that another holds is taken",
        mock.patch.object(Leases, "_judge", lambda _self, name, *_seen: LeaseSeen(name, Lease.FREE)),
        test_holes.test_two_runs_exclude_each_other_whatever_their_flags,
    ),
    Mutant("a second run waits for ever", _instead(decisions, "goal", _waits_for_ever), _overtaken),
    Mutant(
        "the old operator is let in when all is written",
        _has(Situation, "foreign", value=False),
        test_holes.test_told_to_end_when_all_is_written_it_does_not_let_the_old_operator_in,
    ),
    Mutant(
        "operators are known by the chart's labels only",
        mock.patch.object(operator, "_matches", lambda _, labels: OPERATOR_LABELS.items() <= labels.items()),
        test_holes.test_an_operator_under_its_own_labels_is_seen,
    ),
    Mutant(
        "an exception ends with its own exit code",
        _THE_REASON_ALONE,
        partial(test_holes.test_no_exception_hides_what_was_written, KeyboardInterrupt),
    ),
    Mutant(
        "a SIGTERM is a refusal",
        mock.patch.object(loop, "Interrupted", Refused),
        test_holes.test_sigterm_while_waiting_for_idle_is_no_refusal,
    ),
    Mutant(
        "a dry run does not look at operators",
        mock.patch.object(Observation, "findings", return_value=[]),
        test_holes.test_a_dry_run_ends_as_the_run_would,
    ),
    Mutant(
        "the record of other schemes does not stand in the way",
        _seen_as(Observation, "rec", lambda _seen, rec: Rec.NONE if rec is Rec.OTHER else rec),
        test_holes.test_a_half_written_migration_of_other_schemes_refuses_before_anything,
    ),
    Mutant(
        "a run that may not look goes on",
        mock.patch.object(loop, "ATTEMPTS", 10**6),
        test_holes.test_a_run_whose_token_is_void_ends,
    ),
    Mutant(
        "what an earlier run wrote is taken for what was there",
        mock.patch.object(Recorded, "origins", lambda recorded: recorded),
        partial(test_machine.test_a_revert_undoes_every_run, killed=False),
    ),
    Mutant(
        "Leases are let go of beside half-migrated sets",
        mock.patch.object(loop, "parks", return_value=False),
        test_holes.test_an_operator_that_waits_for_the_lease_never_gets_it_half_way,
    ),
    Mutant(
        "an operator that a dead run stopped is forgotten",
        _has(Observation, "replicas_due", None),
        test_holes.test_a_refused_rerun_gives_back_the_operator_that_a_dead_run_stopped,
    ),
    Mutant(
        "an operator that somebody else stopped is started",
        _seen_as(Observation, "replicas_due", _given_a_replica),
        partial(test_holes.test_replicas_that_somebody_else_set_to_zero_stay, late=True),
    ),
    Mutant(
        "a run that was overtaken believes what it remembers",
        mock.patch.multiple(Leases, left=lambda _self: 30.0, _lost=lambda *_: ""),
        partial(test_holes.test_a_run_that_another_overtook_never_starts_the_old_operator, stopped=True),
    ),
    Mutant(
        "what a finished run wrote is brought back when a later one fails",
        mock.patch.object(Recorded, "of_open_run", lambda recorded: {table.uid: table for table in recorded.tables}),
        test_migrate_revert.test_a_later_run_that_fails_leaves_an_earlier_migration_alone,
    ),
    Mutant(
        "nobody looks for operators during the writes",
        mock.patch.object(actions, "foreign", return_value=None),
        partial(test_holes.test_an_operator_without_election_stops_the_run, cluster.OLD_IMAGE, 5),
        _no_look_at_the_operator(),
    ),
    Mutant(
        "the exit code is the reason's, whatever is seen",
        _THE_REASON_ALONE,
        test_holes.test_a_half_written_cluster_never_ends_with_3,
    ),
    Mutant(
        "the commit record is written first",
        _ROOT_FIRST,
        partial(_killed, back=False),
    ),
    Mutant("the commit record is written first, and the machine sees it", _ROOT_FIRST, found_by_itself),
    Mutant(
        "the hashes of finished updates are forgotten",
        mock.patch.object(places, "_progress", return_value=()),
        partial(history, Machine.finish),
    ),
    Mutant(
        "nobody asks whether the Lease is still ours",
        _NO_LEASE_CHECK,
        partial(test_migrate_lease.test_a_pause_longer_than_the_lease_ends_the_run, "before", every=False),
    ),
    Mutant("nobody asks for the Lease, and the machine sees it", _NO_LEASE_CHECK, found_by_itself),
    Mutant(
        "a failed test is taken for success",
        _taken_as_success(TestFailed),
        partial(test_migrate_edit.test_an_edit_during_the_run_is_never_blessed, "skip", "before", every=False),
    ),
    Mutant(
        "a lost reply is taken for success",
        _taken_as_success(LostReply),
        partial(test_products.test_a_lost_reply_never_ends_a_run, "before", every=False),
    ),
    Mutant(
        "pods that OnDelete keeps are relabelled",
        _also_changes(Verdict.LEFTOVER, Place.POD_LABEL),
        partial(history, Machine.finish),
    ),
    Mutant(
        "what is planned before the fence is written behind it",
        _one_snapshot(),
        partial(test_migrate_operator.test_a_refusal_behind_the_fence_gives_the_operator_back, "before"),
    ),
    Mutant(
        "values of neither scheme are replaced",
        _also_changes(Verdict.FOREIGN, Place.POD_LABEL),
        partial(history, _marked, _allowed),
    ),
    Mutant(
        "values are not compared when they are replaced",
        _instead(Patch, "ops", _no_test_of_values),
        partial(history, _marked_meanwhile),
    ),
    Mutant(
        "nothing is recorded before the first patch",
        _instead(Recorder, "save", _no_tables),
        partial(_killed, back=True),
    ),
    Mutant(
        "a revert restores PodCliques only",
        _instead(revert, "changes_of", _of_pod_cliques_only),
        partial(history, Machine.finish, Machine.undo),
    ),
    Mutant(
        "a revert also turns back what was the target's before",
        mock.patch.object(revert, "without_kept", lambda changes, _table: changes),
        partial(_killed, back=True),
    ),
    Mutant(
        "a spec that moved is blessed",
        _instead(Patch, "ops", lambda right, patch, _pcs: right(patch, None)),
        partial(test_migrate_edit.test_an_edit_during_the_run_is_never_blessed, "stop", "before", every=False),
    ),
    Mutant(
        "what the target's operator knows is brought back",
        _has(Observation, "target_was_running", value=False),
        partial(test_migrate_operator.test_beside_the_targets_operator_nothing_is_brought_back, late=False),
    ),
    Mutant(
        "nobody looks for the old operator before the end",
        _no_look_at_the_operator(),
        partial(test_migrate_operator.test_replicas_that_come_back_undo_everything, "before", every=False),
    ),
)
