"""Our own code with one thing wrong, and the check of the suite that must see it.

A mutant replaces a function at run time, so what is run is otherwise the product. A check is a test of another module,
a history of the state machine, or a few histories that it finds itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from unittest import mock

from migrator.errors import LostReply, MigratorError, Refused, TestFailed
from migrator.grove import places
from migrator.grove.model import Change, Place, PodCliqueSet, SetHashes, StoredHash
from migrator.planning import patches, planner, revert
from migrator.planning.detect import Verdict
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
    test_migrate_crash,
    test_migrate_edit,
    test_migrate_faults,
    test_migrate_lease,
    test_migrate_operator,
    test_migrate_revert,
)
from tests.simulation.machine import Machine, explore, history
from tests.simulation.mishaps import Mishap
from tests.simulation.points import first

Check = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Mutant:
    """What is wrong, as a context in which it is, and the check that fails in it."""

    name: str
    apply: Callable[[], AbstractContextManager[object]]
    check: Check


def found_by_itself() -> None:
    """Histories of the state machine's own choice, the same every time, until one fails."""
    explore(examples=600, steps=25, shrink=False)


def _root_first() -> AbstractContextManager[object]:
    return mock.patch.dict(patches.RANKS, {("PodCliqueSet", "status"): -1})


def _no_progress() -> AbstractContextManager[object]:
    return mock.patch.object(places, "_progress", return_value=())


def _no_lease_check() -> AbstractContextManager[object]:
    return mock.patch.object(Leases, "left", return_value=30.0)


def _taken_as_success(kind: type[MigratorError]) -> AbstractContextManager[object]:
    original = Executor._left

    def left(self: Executor, sending: Any, answer: MigratorError | None) -> Patch | None:
        return None if isinstance(answer, kind) else original(self, sending, answer)

    return mock.patch.object(Executor, "_left", left)


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
    """What was planned before the fence is taken for what is there behind it."""
    original = loop.read_sets

    def read_sets(store: Any, seen: Observation, context: Any) -> Observation:
        if seen.phase is Phase.FENCED and read:
            return replace(seen, sets=read[-1])
        found = original(store, seen, context)
        read.append(found.sets)
        return found

    read: list[SetsSeen] = []
    return mock.patch.object(loop, "read_sets", read_sets)


def _no_tables() -> AbstractContextManager[object]:
    original = Recorder.save

    def save(self: Recorder, recorded: Recorded, **options: Any) -> None:
        original(self, replace(recorded, tables=()), **options)

    return mock.patch.object(Recorder, "save", save)


def _reverts_pod_cliques_only() -> AbstractContextManager[object]:
    original = planner.changes_of

    def changes_of(*found: Any, **options: Any) -> tuple[Change, ...]:
        return tuple(change for change in original(*found, **options) if change.ref.kind == "PodClique")

    return mock.patch.object(revert, "changes_of", changes_of)


def _forgets_what_it_found() -> AbstractContextManager[object]:
    return mock.patch.object(revert, "without_kept", lambda changes, _table: changes)


def _no_test_of_the_spec() -> AbstractContextManager[object]:
    original = Patch.ops

    def ops(self: Patch, _pcs: PodCliqueSet | None) -> tuple[PatchOp, ...]:
        return original(self, None)

    return mock.patch.object(Patch, "ops", ops)


@contextlib.contextmanager
def _no_test_of_values() -> Iterator[None]:
    """Neither the patch nor the re-read compares with what was there."""
    original = Patch.ops

    def ops(self: Patch, pcs: PodCliqueSet | None) -> tuple[PatchOp, ...]:
        fields = {change.field for change in self.changes}
        return tuple(op for op in original(self, pcs) if op.op != "test" or op.path not in fields)

    with mock.patch.object(Patch, "ops", ops):
        yield


def _no_look_at_the_operator() -> AbstractContextManager[object]:
    """An operator behind the fence is always taken for the target's."""
    original = vars(Observation)["op"]

    def op(seen: Observation) -> Op:
        found = original.__get__(seen)
        return Op.TARGET if seen.fenced and found in {Op.OTHER, Op.LOOSE} else found

    return mock.patch.object(Observation, "op", property(op))


def _no_look_at_the_targets_operator() -> AbstractContextManager[object]:
    return mock.patch.object(Observation, "target_was_running", property(lambda _seen: False))


def _leases_are_never_parked() -> AbstractContextManager[object]:
    return mock.patch.object(loop, "parks", return_value=False)


def _nothing_is_owed() -> AbstractContextManager[object]:
    return mock.patch.object(Observation, "replicas_due", property(lambda _seen: None))


def _no_watch() -> AbstractContextManager[object]:
    return mock.patch.object(actions, "foreign", return_value=None)


def _the_reason_alone() -> AbstractContextManager[object]:
    return mock.patch.object(loop, "exit_code", lambda reason, _seen: reason)


def _every_lease_is_free() -> AbstractContextManager[object]:
    return mock.patch.object(Leases, "_judge", lambda _self, name, *_seen: LeaseSeen(name, Lease.FREE))


def _nobody_is_foreign() -> AbstractContextManager[object]:
    return mock.patch.object(Situation, "foreign", property(lambda _seen: False))


def _waits_for_ever() -> AbstractContextManager[object]:
    """Who waited too long for a living holder still wants to go back, and waits for that."""
    original = decisions.goal

    def goal(seen: Situation) -> Goal:
        busy = seen.why is Why.BUSY
        return Goal.BACK if busy and seen.begun and seen.ours is Lease.HELD else original(seen)

    return mock.patch.object(decisions, "goal", goal)


def _records_are(found: Rec, taken_for: Rec) -> AbstractContextManager[object]:
    original = vars(Observation)["rec"]

    def rec(seen: Observation) -> Rec:
        kept = original.__get__(seen)
        return taken_for if kept is found else kept

    return mock.patch.object(Observation, "rec", property(rec))


def _only_the_open_run_counts() -> AbstractContextManager[object]:
    return mock.patch.object(Recorded, "origins", lambda recorded: recorded)


def _every_run_is_open() -> AbstractContextManager[object]:
    """What earlier runs wrote, and finished, is taken for this run's."""
    return mock.patch.object(Recorded, "of_open_run", lambda recorded: {table.uid: table for table in recorded.tables})


def _leases_are_never_lost() -> AbstractContextManager[object]:
    """Who once held a Lease believes to hold it, and with it all that it remembers of the record."""
    return _both(_no_lease_check(), mock.patch.object(Leases, "_lost", return_value=""))


def _every_zero_is_ours() -> AbstractContextManager[object]:
    """An operator at zero is given a replica, whether or not a run of ours took one."""
    original = vars(Observation)["replicas_due"]

    def replicas(seen: Observation) -> int | None:
        at_zero = seen.operator is not None and seen.operator.replicas == 0
        return original.__get__(seen) or (1 if at_zero else None)

    return mock.patch.object(Observation, "replicas_due", property(replicas))


def _overtaken() -> None:
    """A second run while the first one writes, and lives."""
    number = next(s.number for s in products.steps("forward") if s.kind == "write" and s.target.startswith("pods/"))
    products.overtaken("forward", "forward", number, "after", products.Tally(), alive=True)


@contextlib.contextmanager
def _both(*contexts: AbstractContextManager[object]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield


def _marked(machine: Machine) -> None:
    machine.somebody("mark", 0, 1)


def _allowed(machine: Machine) -> None:
    machine.migrate([], "stop", skip_refused=False, allowed=True)


def _marked_meanwhile(machine: Machine) -> None:
    """A pod gets a hash of somebody's own right before it is written to."""
    machine.migrate([Mishap("mark", first("pods"), "before", 0)], "stop", skip_refused=False, allowed=False)


MUTANTS: Final = (
    Mutant(
        "a Lease that another holds is taken",
        _every_lease_is_free,
        test_holes.test_two_runs_exclude_each_other_whatever_their_flags,
    ),
    Mutant("a second run waits for ever", _waits_for_ever, _overtaken),
    Mutant(
        "the old operator is let in when all is written",
        _nobody_is_foreign,
        test_holes.test_told_to_end_when_all_is_written_it_does_not_let_the_old_operator_in,
    ),
    Mutant(
        "operators are known by the chart's labels only",
        lambda: mock.patch.object(operator, "_matches", lambda _, labels: OPERATOR_LABELS.items() <= labels.items()),
        test_holes.test_an_operator_under_its_own_labels_is_seen,
    ),
    Mutant(
        "an exception ends with its own exit code",
        _the_reason_alone,
        partial(test_holes.test_no_exception_hides_what_was_written, KeyboardInterrupt),
    ),
    Mutant(
        "a SIGTERM is a refusal",
        lambda: mock.patch.object(loop, "Interrupted", Refused),
        test_holes.test_sigterm_while_waiting_for_idle_is_no_refusal,
    ),
    Mutant(
        "a dry run does not look at operators",
        lambda: mock.patch.object(Observation, "findings", return_value=[]),
        test_holes.test_a_dry_run_ends_as_the_run_would,
    ),
    Mutant(
        "the record of other schemes does not stand in the way",
        partial(_records_are, Rec.OTHER, Rec.NONE),
        test_holes.test_a_half_written_migration_of_other_schemes_refuses_before_anything,
    ),
    Mutant(
        "a run that may not look goes on",
        lambda: mock.patch.object(loop, "ATTEMPTS", 10**6),
        test_holes.test_a_run_whose_token_is_void_ends,
    ),
    Mutant(
        "what an earlier run wrote is taken for what was there",
        _only_the_open_run_counts,
        partial(test_machine.test_a_revert_undoes_every_run, killed=False),
    ),
    Mutant(
        "Leases are let go of beside half-migrated sets",
        _leases_are_never_parked,
        test_holes.test_an_operator_that_waits_for_the_lease_never_gets_it_half_way,
    ),
    Mutant(
        "an operator that a dead run stopped is forgotten",
        _nothing_is_owed,
        test_holes.test_a_refused_rerun_gives_back_the_operator_that_a_dead_run_stopped,
    ),
    Mutant(
        "an operator that somebody else stopped is started",
        _every_zero_is_ours,
        partial(test_holes.test_replicas_that_somebody_else_set_to_zero_stay, late=True),
    ),
    Mutant(
        "a run that was overtaken believes what it remembers",
        _leases_are_never_lost,
        partial(test_holes.test_a_run_that_another_overtook_never_starts_the_old_operator, stopped=True),
    ),
    Mutant(
        "what a finished run wrote is brought back when a later one fails",
        _every_run_is_open,
        test_migrate_revert.test_a_later_run_that_fails_leaves_an_earlier_migration_alone,
    ),
    Mutant(
        "nobody looks for operators during the writes",
        lambda: _both(_no_watch(), _no_look_at_the_operator()),
        partial(test_holes.test_an_operator_without_election_stops_the_run, cluster.OLD_IMAGE, 5),
    ),
    Mutant(
        "the exit code is the reason's, whatever is seen",
        _the_reason_alone,
        test_holes.test_a_half_written_cluster_never_ends_with_3,
    ),
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
