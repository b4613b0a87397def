"""Which patch is sent when, and what ends the sending."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from migrator.errors import Conflict, LeaseLost, LostReply, MigratorError, NotFound, Rejected
from migrator.errors import TestFailed as FailedTest
from migrator.grove.objects import Ref
from migrator.grove.places import POD_LABEL
from migrator.kinds import Op, Resource
from migrator.planning import patches
from migrator.planning.model import Change
from migrator.planning.patches import Batch, Patch
from migrator.run.write import Executor, SetConflict
from tests.support.clock import Clock, context_of
from tests.support.tables import table

_FIELDS = {
    "Pod": POD_LABEL.pointer,
    "PodClique": POD_LABEL.pointer,
    "PodCliqueScalingGroup": "/status/currentPodCliqueSetGenerationHash",
    "PodCliqueSet": "/status/currentGenerationHash",
}


class Sink:
    """Takes every patch, remembers the order in which they began and ended, and can do something first.

    ``answer`` is what becomes of one. So many as ``together`` begin before the first ends.
    """

    dry_run = False

    def __init__(
        self,
        before: Callable[[str], object] = lambda _name: None,
        answer: Callable[[str], MigratorError | None] = lambda _name: None,
        *,
        together: int = 1,
    ) -> None:
        self.log: list[tuple[str, str]] = []
        self._before = before
        self._answer = answer
        self._lock = threading.Lock()
        self._together = together
        self._met = threading.Event()

    def patch(self, resource: Resource, _namespace: str, name: str, ops: Sequence[Op], *, subresource: str) -> None:
        """A patch of the store."""
        del ops, subresource
        with self._lock:
            self.log.append(("begin", f"{resource.kind} {name}"))
            self._before(name)
            if len(self.begun) >= self._together:
                self._met.set()
        assert self._met.wait(20), "too few are under way at the same time"
        with self._lock:
            self.log.append(("end", f"{resource.kind} {name}"))
            error = self._answer(name)
        if error is not None:
            raise error

    @property
    def begun(self) -> list[str]:
        """Objects in the order in which their patches were sent."""
        return [what for when, what in self.log if when == "begin"]


def tree(name: str, pods: int = 3) -> Batch:
    """A set with a few pods, a PodClique and a scaling group, whose hashes are to change."""
    kinds = [("Pod", f"{name}-pod-{n}") for n in range(pods)]
    kinds += [("PodClique", f"{name}-clique"), ("PodCliqueScalingGroup", f"{name}-group"), ("PodCliqueSet", name)]
    changes = tuple(Change(Ref(kind, "a", own, own), _FIELDS[kind], "old", "new") for kind, own in kinds)
    return Batch(Ref("PodCliqueSet", "a", name, name), changes)


def pods_alone(number: int) -> Batch:
    """A set of which only pods are to change."""
    whole = tree("t0", pods=number)
    return replace(whole, changes=whole.changes[:number])


def executor(
    sink: Sink,
    *,
    concurrency: int = 1,
    check: Callable[[], object] = lambda: None,
    stopping: Callable[[], bool] = lambda: False,
    **more: Any,
) -> Executor:
    """One that always may send, and is never asked to stop; ``more`` is of its context."""
    context = replace(context_of(lambda: 0.0, Clock().now), concurrency=concurrency, **more)
    return Executor(sink, context, check=check, stopping=stopping)  # type: ignore[arg-type]


@pytest.mark.parametrize("concurrency", [1, 2, 8])
def test_within_a_tree_a_rank_begins_when_the_last_has_ended(concurrency: int) -> None:
    """Whatever the concurrency: pods, then PodCliques, then scaling groups, and the PodCliqueSet last."""
    sink = Sink()
    outcomes = executor(sink, concurrency=concurrency).run([tree(f"t{n}") for n in range(5)])
    assert all(outcome.complete and outcome.written == 6 for outcome in outcomes)
    for n in range(5):
        own = [(when, what.split()[0]) for when, what in sink.log if what.split()[1].split("-")[0] == f"t{n}"]
        kinds = ["Pod"] * 6 + ["PodClique"] * 2 + ["PodCliqueScalingGroup"] * 2 + ["PodCliqueSet"] * 2
        assert [kind for _, kind in own] == kinds


@table(
    "batches",
    ("Small sets do not wait for each other.", ([tree(f"t{n}", pods=1) for n in range(3)],)),
    ("A large set is not written one pod after the other.", ([pods_alone(8)],)),
)
def test_patches_are_under_way_at_the_same_time(batches: list[Batch]) -> None:
    """As many as may be under way, and no more."""
    sink = Sink(together=3)
    outcomes = executor(sink, concurrency=3).run(batches)
    assert all(outcome.complete for outcome in outcomes)
    assert max(accumulate(1 if when == "begin" else -1 for when, _ in sink.log)) == 3


def test_a_set_is_begun_only_while_a_sender_is_idle() -> None:
    """Asked to stop after a few patches of large sets, a run has begun one or two of them, and finishes those."""
    sink = Sink()
    sets = [tree(f"t{n}", pods=40) for n in range(8)]
    outcomes = executor(sink, concurrency=8, stopping=lambda: len(sink.begun) > 20).run(sets)
    assert 1 <= len(outcomes) <= 2
    assert all(outcome.complete for outcome in outcomes)


def test_few_patches_wait_to_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set may have hundreds of thousands, so they are made in parts."""
    made = list[Patch]()

    def make(*given: Any) -> Patch:
        made.append(Patch(*given))
        return made[-1]

    monkeypatch.setattr(patches, "Patch", make)
    most = 0

    def count(_name: str) -> None:
        nonlocal most
        most = max(most, len(made) - len(sink.begun))

    sink = Sink(count)
    (outcome,) = executor(sink).run([pods_alone(4500)])
    assert (outcome.written, most) == (4500, 1999)


def test_the_log_has_each_tree_that_is_written_and_its_writes() -> None:
    """A dry run is marked as one."""
    sink = Sink()
    sink.dry_run = True
    with capture_logs() as logs:
        executor(sink, log=structlog.get_logger()).run([tree("t0"), tree("t1", pods=1)])
    known = {"event": "tree_written", "log_level": "info", "namespace": "a", "dry_run": True}
    found = [line for line in logs if line["event"] == "tree_written"]
    assert found == [{**known, "name": "t0", "writes": 6}, {**known, "name": "t1", "writes": 4}]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_bug_ends_the_run_at_once(concurrency: int) -> None:
    """An exception that is not ours is raised as it is, nothing more is sent, and what was sent is in doubt."""

    def fail(name: str) -> None:
        if name == "t0-pod-3":
            raise ZeroDivisionError(name)

    sink = Sink(fail)
    sending = executor(sink, concurrency=concurrency)
    with pytest.raises(ZeroDivisionError):
        sending.run([tree("t0", pods=200)])
    assert sending.unconfirmed, "a patch may be in flight: a reader must wait for it"
    assert not [name for name in sink.begun if not name.startswith("Pod ")]
    assert len(sink.begun) < 200


@pytest.mark.parametrize("error", [FailedTest(""), Conflict(""), LostReply("")])
def test_a_failed_test_and_a_lost_reply_stop_their_set(error: MigratorError) -> None:
    """Nothing of it is sent again: the next reading of all sets decides."""
    sink = Sink(answer=lambda name: error if name == "t0-pod-0" else None)
    sending = executor(sink)
    (outcome,) = sending.run([tree("t0")])
    assert (sink.begun, outcome.complete) == (["Pod t0-pod-0"], False)
    assert isinstance(outcome.error, LostReply if isinstance(error, LostReply) else SetConflict)
    assert (sending.unconfirmed, outcome.written) == (isinstance(error, LostReply), int(isinstance(error, LostReply)))


def test_an_object_that_is_gone_is_passed_over() -> None:
    """Its owner has deleted it."""
    sink = Sink(answer=lambda name: NotFound("") if name == "t0-pod-0" else None)
    (outcome,) = executor(sink).run([tree("t0", pods=1)])
    assert (outcome.complete, outcome.written) == (True, len(list(outcome.batch.patches)) - 1)


_FAILED, _LOST, _REJECTED = FailedTest(""), LostReply(""), Rejected("")


@pytest.mark.parametrize(
    ("answers", "complete"),
    [
        ({"t1-pod-0": _FAILED}, ["t0", "t2"]),
        ({"t1-pod-0": _LOST}, ["t0", "t2"]),
        ({"t1-pod-0": _REJECTED}, ["t0"]),
        ({"t1-pod-0": _FAILED, "t2-pod-0": _REJECTED}, ["t0"]),
    ],
)
def test_a_conflict_stops_its_own_set_only(answers: dict[str, MigratorError], complete: list[str]) -> None:
    """After any other error nothing more is sent."""
    left = dict(answers)
    sink = Sink(answer=lambda name: left.pop(name, None))
    outcomes = executor(sink).run([tree(f"t{n}", pods=1) for n in range(3)])
    assert [outcome.batch.ref.name for outcome in outcomes if outcome.complete] == complete
    assert sink.begun[-1] == ("PodCliqueSet t2" if "t2" in complete else f"Pod {list(answers)[-1]}")


def test_the_check_comes_before_every_patch() -> None:
    """Once it raises nothing more is sent."""
    sink = Sink()

    def check() -> None:
        if sink.begun:
            raise LeaseLost("gone")

    (outcome,) = executor(sink, check=check).run([tree("t0", pods=2)])
    assert sink.begun == ["Pod t0-pod-0"]
    assert isinstance(outcome.error, LeaseLost)


def test_a_tree_whose_last_patch_ends_after_the_first_error_is_complete() -> None:
    """What was under way still counts: no further patch of the tree was due."""
    sink = Sink(answer=lambda name: Rejected("") if name == "t1" else None)
    last = [replace(whole, changes=whole.changes[-1:]) for whole in (tree("t0"), tree("t1"))]
    first, second = executor(sink, concurrency=2).run(last)
    assert (first.complete, second.complete) == (True, False)
