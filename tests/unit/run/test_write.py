"""Which patch is sent when, and what ends the sending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from migrator import kinds
from migrator.errors import Conflict, LeaseLost, LostReply, MigratorError, NotFound, Rejected
from migrator.errors import TestFailed as FailedTest
from migrator.grove.places import RANKS
from migrator.planning import patches
from migrator.planning.patches import Batch, Patch, forward
from migrator.run import write
from migrator.run.write import Executor, SetConflict
from tests.support.builders import World, clique
from tests.support.clock import Clock, context_of
from tests.support.memory_store import MemoryCluster, Request
from tests.support.tables import table

POD = "t0-0-g-0-a-0"


def sets(number: int = 1, *, pods: int = 3) -> tuple[MemoryCluster, list[Batch]]:
    """A cluster of so many sets, with pods, a PodClique and a scaling group each, and what is to be written to them."""
    world = World()
    for n in range(number):
        world.grow(f"t{n}", cliques=[clique("a")], groups={"g": ["a"]}, group_replicas=1, pods=pods, progress=())
    return MemoryCluster(*world.objects), [forward(plan) for plan in world.plan().set_plans]


def executor(
    store: MemoryCluster,
    *,
    concurrency: int = 1,
    check: Callable[[], object] = lambda: None,
    **more: Any,
) -> Executor:
    """One that always may send, and is never asked to stop; ``more`` is of its context."""
    context = replace(context_of(lambda: 0.0, Clock().now), concurrency=concurrency, **more)
    return Executor(store, context, check=check)


def sent(store: MemoryCluster) -> list[str]:
    """The objects in the order in which their patches were sent."""
    return [request.name for request in store.requests]


@pytest.mark.parametrize("concurrency", [1, 8])
def test_within_a_tree_a_rank_begins_when_the_last_has_ended(concurrency: int) -> None:
    """Whatever the concurrency: pods, then PodCliques, then scaling groups, and the PodCliqueSet last."""
    (store, batches), log = sets(5), list[Request]()
    store.before.append(log.append)
    store.after.append(log.append)
    outcomes = executor(store, concurrency=concurrency).run(batches)
    assert all(outcome.complete and outcome.written == 7 for outcome in outcomes)
    for n in range(5):
        ranks = [RANKS[one.resource.kind, one.subresource] for one in log if one.name.startswith(f"t{n}")]
        assert ranks == sorted(ranks)
        assert len(ranks) == 2 * 7


@table("number pods", ("Small sets do not wait for each other.", (3, 1)), ("Nor do pods of a large set.", (1, 8)))
def test_patches_are_under_way_at_the_same_time(number: int, pods: int) -> None:
    """As many as may be under way, and no more."""
    (store, batches), lock, met = sets(number, pods=pods), threading.Lock(), threading.Event()
    under_way = most = 0

    def begin(_: Request) -> None:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        if most == 3:
            met.set()
        assert met.wait(20), "too few are under way at the same time"

    def end(_: Request) -> None:
        nonlocal under_way
        with lock:
            under_way -= 1

    store.before.append(begin)
    store.after.append(end)
    assert all(outcome.complete for outcome in executor(store, concurrency=3).run(batches))
    assert most == 3


def test_a_set_is_begun_only_while_a_sender_is_idle() -> None:
    """Asked to stop after a few patches of large sets, a run has begun one or two of them, and finishes those."""
    (store, batches), stop = sets(8, pods=40), threading.Event()
    store.after.append(lambda _: stop.set() if len(store.requests) > 20 else None)
    outcomes = executor(store, concurrency=8, stop=stop).run(batches)
    assert 1 <= len(outcomes) <= 2
    assert all(outcome.complete for outcome in outcomes)


def test_few_patches_wait_to_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set may have hundreds of thousands, so they are made in parts."""
    (store, batches), made, waiting = sets(pods=25), list[Patch](), list[int]()
    monkeypatch.setattr(write, "_MADE", 20)

    def make(*given: Any) -> Patch:
        made.append(Patch(*given))
        return made[-1]

    monkeypatch.setattr(patches, "Patch", make)
    store.before.append(lambda _: waiting.append(len(made) - len(store.requests)))
    executor(store).run(batches)
    assert len(store.requests) == 29
    assert max(waiting) == 19


def test_the_log_has_each_tree_that_is_written_and_its_writes() -> None:
    """A dry run is marked as one."""
    store, batches = sets(2)
    with capture_logs() as logs:
        executor(store.in_dry_run(), log=structlog.get_logger()).run(batches)
    known = {"event": "tree_written", "log_level": "info", "namespace": "default", "dry_run": True}
    found = [line for line in logs if line["event"] == "tree_written"]
    assert found == [{**known, "name": f"t{n}", "writes": 7} for n in range(2)]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_bug_ends_the_run_at_once(concurrency: int) -> None:
    """An exception that is not ours is raised as it is, nothing more is sent, and what was sent is in doubt."""
    store, batches = sets(pods=200)
    store.fail(ZeroDivisionError(), name=POD)
    sending = executor(store, concurrency=concurrency)
    with pytest.raises(ZeroDivisionError):
        sending.run(batches)
    assert sending.unconfirmed, "a patch may be in flight: a reader must wait for it"
    assert {request.resource for request in store.requests} == {kinds.PODS}
    assert len(store.requests) < 200


@pytest.mark.parametrize("error", [FailedTest(""), Conflict(""), LostReply("")])
def test_a_failed_test_and_a_lost_reply_stop_their_set(error: MigratorError) -> None:
    """Nothing of it is sent again: the next reading of all sets decides."""
    store, batches = sets()
    store.fail(error, name=POD)
    sending = executor(store)
    (outcome,) = sending.run(batches)
    assert sent(store) == [POD]
    assert not outcome.complete
    assert isinstance(outcome.error, LostReply if isinstance(error, LostReply) else SetConflict)
    assert sending.unconfirmed == isinstance(error, LostReply)
    assert outcome.written == int(isinstance(error, LostReply))


def test_an_object_that_is_gone_is_passed_over() -> None:
    """Its owner has deleted it."""
    store, batches = sets()
    store.fail(NotFound(""), name=POD)
    (outcome,) = executor(store).run(batches)
    assert outcome.complete
    assert outcome.written == len(list(outcome.batch.patches)) - 1


_FAILED, _LOST, _REJECTED = FailedTest(""), LostReply(""), Rejected("")


@pytest.mark.parametrize(
    ("answers", "complete"),
    [
        ({"t1": _FAILED}, ["t0", "t2"]),
        ({"t1": _LOST}, ["t0", "t2"]),
        ({"t1": _REJECTED}, ["t0"]),
        ({"t1": _FAILED, "t2": _REJECTED}, ["t0"]),
    ],
)
def test_a_conflict_stops_its_own_set_only(answers: dict[str, MigratorError], complete: list[str]) -> None:
    """After any other error nothing more is sent; each set here has one pod, which is first."""
    store, batches = sets(3, pods=1)
    for name, error in answers.items():
        store.fail(error, name=f"{name}-0-g-0-a-0")
    outcomes = executor(store).run(batches)
    assert [outcome.batch.pcs.ref.name for outcome in outcomes if outcome.complete] == complete
    assert sent(store)[-1] == ("t2" if "t2" in complete else f"{list(answers)[-1]}-0-g-0-a-0")


def test_the_check_comes_before_every_patch() -> None:
    """Once it raises nothing more is sent."""
    store, batches = sets()

    def check() -> None:
        if store.requests:
            raise LeaseLost("gone")

    (outcome,) = executor(store, check=check).run(batches)
    assert sent(store) == [POD]
    assert isinstance(outcome.error, LeaseLost)


def test_a_tree_whose_last_patch_ends_after_the_first_error_is_complete() -> None:
    """What was under way still counts: no further patch of the tree was due."""
    store, batches = sets(2)
    store.fail(Rejected(""), name="t1")
    last = [replace(whole, changes=whole.changes[-1:]) for whole in batches]
    first, second = executor(store, concurrency=2).run(last)
    assert first.complete
    assert not second.complete
