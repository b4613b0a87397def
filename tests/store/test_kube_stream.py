"""Many patches at a time: what is sent when, and what becomes of each."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from migrator.errors import LeaseLost, LostReply, MigratorError
from migrator.errors import TestFailed as FailedTest
from migrator.resources import PODS
from migrator.store import Write
from migrator.stores.kube.store import KubeStore
from testbed.controlplane.client import eventually
from tests.support.clock import Clock
from tests.support.fake_api import (
    FAILED_TEST,
    OPS,
    POD,
    THROTTLED,
    Answer,
    FakeApi,
    Reset,
    Seen,
    Serve,
    Step,
    store_on,
)


def writes(count: int, before: Callable[[int], object] = lambda _: None) -> Callable[[], tuple[int, Write] | None]:
    """What gives so many patches with their numbers; ``before`` is told of each right before it is given."""
    numbers = iter(range(count))

    def take() -> tuple[int, Write] | None:
        number = next(numbers, None)
        if number is None:
            return None
        before(number)
        return number, Write(PODS, "a", f"p-{number}", OPS)

    return take


def send(
    store: KubeStore, count: int, *, concurrency: int = 4, before: Callable[[int], object] = lambda _: None
) -> dict[int, MigratorError | None]:
    """Send so many patches as one stream."""
    return dict(store.patches(writes(count, before), concurrency=concurrency))


def test_patches_are_under_way_at_the_same_time(serve: Serve) -> None:
    """As many as are allowed, and never more."""
    lock, met, here, most = threading.Lock(), threading.Event(), 0, 0

    def meet(_: Seen) -> Step:
        nonlocal here, most
        with lock:
            here += 1
            most = max(most, here)
            if here == 4:
                met.set()
        met.wait(20)
        with lock:
            here -= 1
        return POD

    api = serve(meet)
    assert send(store_on(api.url), 13) == dict.fromkeys(range(13))
    assert most == 4
    assert sorted(seen.path for seen in api.seen) == sorted(f"/api/v1/namespaces/a/pods/p-{n}" for n in range(13))


def test_each_patch_has_its_own_outcome(serve: Serve) -> None:
    """What became of one says nothing of another, whatever the order of the answers."""
    api = serve(lambda seen: {"p-1": FAILED_TEST, "p-3": Reset, "p-5": Answer(200, b"<html>")}.get(seen.path[-3:], POD))
    found = send(store_on(api.url), 8)
    failed = {number: type(error) for number, error in found.items() if error}
    assert failed == {1: FailedTest, 3: LostReply, 5: LostReply}
    assert sorted(found) == list(range(8))
    assert len(api.seen) == 8


def test_one_that_waits_keeps_no_other_from_being_sent(serve: Serve) -> None:
    """A throttled patch is sent again when the server wants it, and the others go on meanwhile."""
    throttled = iter([THROTTLED])
    api = serve(lambda seen: next(throttled, POD) if seen.path.endswith("p-0") else POD)

    class Meanwhile(Clock):
        """A wait that lasts until the server has seen every patch once."""

        def sleep(self, seconds: float) -> None:
            eventually(lambda: len(api.seen) >= 6, what="the others were not sent")
            super().sleep(seconds)

    time = Meanwhile()
    assert send(store_on(api.url, time=time), 6, concurrency=2) == dict.fromkeys(range(6))
    assert [seen.path[-3:] for seen in api.seen].count("p-0") == 2
    assert api.seen[-1].path.endswith("p-0")
    assert sum(time.slept) >= 1.0


def test_the_hold_is_asked_right_before_each_patch(api: FakeApi, store: KubeStore) -> None:
    """After its end nothing more is sent, and every patch that was not sent is told so."""
    left = [30.0]

    def before(number: int) -> None:
        left[0] = 0.0 if number == 5 else left[0]

    found = send(store.within(lambda: left[0]), 9, concurrency=1, before=before)
    assert len(api.seen) == 5
    assert [type(found[number]) for number in range(9)] == [type(None)] * 5 + [LeaseLost] * 4


def test_what_take_raises_ends_the_stream_after_what_is_under_way(serve: Serve) -> None:
    """A bug is passed on as it is, when nothing is under way any more that could be applied later."""
    answered = list[Seen]()

    def slowly(seen: Seen) -> Step:
        threading.Event().wait(0.3)
        answered.append(seen)
        return POD

    def fail(number: int) -> None:
        if number == 3:
            raise ZeroDivisionError

    api = serve(slowly)
    with pytest.raises(ZeroDivisionError):
        send(store_on(api.url), 9, before=fail)
    assert len(answered) == len(api.seen) == 3


def test_a_stream_that_is_closed_waits_for_what_is_under_way_and_sends_nothing_again(serve: Serve) -> None:
    """Throttled, it would be sent again; closed, it is not."""
    api = serve(POD, THROTTLED)
    found = store_on(api.url).patches(writes(9), concurrency=3)
    next(found)
    sent = len(api.seen)
    found.close()
    assert len(api.seen) <= sent + 3
