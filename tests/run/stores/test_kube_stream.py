"""Many patches at a time: what is sent when, and what becomes of each."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from migrator.errors import LeaseLost, LostReply, MigratorError, NotAuthorised, Unreachable
from migrator.errors import TestFailed as FailedTest
from migrator.resources import PODS
from migrator.store import DryRun, Write
from migrator.stores.kube.retry import ConcurrencyWindow
from migrator.stores.kube.store import KubeStore
from tests.support.fake_api import (
    FAILED_TEST,
    OPS,
    POD,
    RESTARTING,
    THROTTLED,
    Answer,
    FakeApi,
    FakeTime,
    Hang,
    Reset,
    Seen,
    Serve,
    Step,
    status,
    store_on,
)

Outcomes = dict[int, MigratorError | None]


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
) -> Outcomes:
    """Send so many patches as one stream."""
    return dict(store.patches(writes(count, before), concurrency=concurrency))


class Meeting:
    """Answers only when so many requests are there at once; counts how many ever were."""

    def __init__(self, count: int) -> None:
        self.most = 0
        self._here = 0
        self._wanted = count
        self._lock = threading.Lock()
        self._met = threading.Event()

    def __call__(self, _seen: Seen) -> Step:
        """A step of the server."""
        with self._lock:
            self._here += 1
            self.most = max(self.most, self._here)
            if self._here == self._wanted:
                self._met.set()
        self._met.wait(20)
        with self._lock:
            self._here -= 1
        return POD


def test_patches_are_under_way_at_the_same_time(serve: Serve) -> None:
    """As many as are allowed, and never more."""
    meeting = Meeting(4)
    api = serve(meeting)
    assert send(store_on(api.url), 13, concurrency=4) == dict.fromkeys(range(13))
    assert meeting.most == 4
    assert sorted(seen.path for seen in api.seen) == sorted(f"/api/v1/namespaces/a/pods/p-{n}" for n in range(13))


def test_each_patch_has_its_own_outcome(serve: Serve) -> None:
    """What became of one says nothing of another, whatever the order of the answers."""
    api = serve(lambda seen: {"p-1": FAILED_TEST, "p-3": Reset, "p-5": Answer(200, b"<html>")}.get(seen.path[-3:], POD))
    found = send(store_on(api.url), 8)
    assert {number: type(error) for number, error in found.items() if error} == {
        1: FailedTest,
        3: LostReply,
        5: LostReply,
    }
    assert sorted(found) == list(range(8))
    assert len(api.seen) == 8


def test_an_outcome_keeps_nothing_of_the_stream_alive(serve: Serve) -> None:
    """The collector of cycles pauses while patches are sent, so that an error must not lead back to itself."""
    store = store_on(serve(FAILED_TEST).url)
    answered, unsent = send(store, 3), send(store.within(lambda: 0.0), 3)
    assert [error.__traceback__ for error in (*answered.values(), *unsent.values()) if error] == [None] * 6


def test_a_throttled_patch_makes_the_window_smaller(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer 429 counts as one, and no other does."""
    throttled: list[float] = []
    monkeypatch.setattr(ConcurrencyWindow, "throttled", lambda _, sent, now: throttled.append(now - sent))
    assert send(store_on(serve(THROTTLED, POD).url), 3) == dict.fromkeys(range(3))
    assert len(throttled) == 1


def test_one_that_waits_keeps_no_other_from_being_sent(serve: Serve) -> None:
    """A throttled patch is sent again when the server wants it, and the others go on meanwhile."""
    throttled = iter([THROTTLED])
    api = serve(lambda seen: next(throttled, POD) if seen.path.endswith("p-0") else POD)

    class Meanwhile(FakeTime):
        """A clock that stands still until the server has seen every patch once."""

        def sleep(self, seconds: float) -> None:
            if len(api.seen) < 6:
                threading.Event().wait(0.001)
            else:
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


@pytest.mark.parametrize("streamed", [True, False])
def test_a_connection_takes_no_time_from_the_hold(store: KubeStore, *, streamed: bool) -> None:
    """The hold is asked after the connection is made: a slow handshake sends nothing late."""
    asked: list[str] = []
    connector = store._transport._connector
    connect = connector.connect
    connector.connect = lambda timeout: (asked.append("connected"), connect(timeout))[1]  # type: ignore[method-assign]

    def left() -> float:
        asked.append("asked")
        return 30.0

    held = store.within(left)
    send(held, 1) if streamed else held.patch(PODS, "a", "p", OPS)
    assert asked == ["connected", "asked"]


@pytest.mark.parametrize("error", [LeaseLost, NotAuthorised])
def test_what_ends_a_doubtful_write_leaves_it_a_lost_reply(serve: Serve, error: type[MigratorError]) -> None:
    """The hold or the credentials may end; what an earlier attempt may have done counts for more than why it ended."""
    store = store_on(serve(status(504, "later")).url)
    asked: list[str] = []

    def left() -> float:
        asked.append("asked")
        if len(asked) > 1:
            raise error("another has it")
        return 30.0

    with pytest.raises(LostReply, match=r"may have been applied \(another has it\)"):
        store.within(left).patch(PODS, "a", "p", OPS)
    assert type(send(store.within(left), 1)[0]) is error


def test_what_take_raises_ends_the_stream_after_what_is_under_way(serve: Serve) -> None:
    """A bug is passed on as it is, when nothing is under way any more that could be applied later."""
    ended = threading.Event()

    def slowly(_seen: Seen) -> Step:
        ended.wait(0.3)
        ended.set()
        return POD

    def fail(number: int) -> None:
        if number == 3:
            raise ZeroDivisionError

    api = serve(slowly)
    store = store_on(api.url)
    with pytest.raises(ZeroDivisionError):
        send(store, 9, concurrency=4, before=fail)
    assert len(store._transport._idle) == len(api.seen) == 3


def test_a_stream_that_is_closed_waits_for_what_is_under_way_and_sends_nothing_again(serve: Serve) -> None:
    """Throttled, it would be sent again; closed, it is not."""
    api = serve(POD, THROTTLED)
    found = store_on(api.url).patches(writes(9), concurrency=3)
    next(found)
    sent = len(api.seen)
    found.close()
    assert len(api.seen) <= sent + 3


def test_a_server_that_never_answers_is_not_waited_for_twice(serve: Serve) -> None:
    """All that hangs runs out at the same time, each as a lost reply."""
    api = serve(Hang)
    found = send(store_on(api.url, request_timeout=0.3), 4)
    assert [type(error) for error in found.values()] == [LostReply] * 4
    assert len(api.seen) == 4


def test_the_rate_limit_counts_patches_and_takes_none_early(api: FakeApi) -> None:
    """A patch is taken when it may be sent, so that nothing that was checked waits."""
    time = FakeTime()
    taken: list[float] = []
    store = store_on(api.url, time=time, qps=2)
    send(store, 6, before=lambda _: taken.append(time() - 100.0))
    assert taken == pytest.approx([0.0, 0.0, 0.5, 1.0, 1.5, 2.0])


def test_a_retry_that_is_due_waits_for_the_rate_limit_without_asking_again_and_again(serve: Serve) -> None:
    """Nothing can be sent before, so that a sleep of no time would only burn a CPU."""

    class Sleeper(FakeTime):
        def sleep(self, seconds: float) -> None:
            assert seconds > 0
            super().sleep(seconds)

    store = store_on(serve(RESTARTING, POD).url, time=Sleeper(), qps=1)
    assert send(store, 1) == {0: None}


def test_what_the_rate_limit_allowed_waits_for_a_patch(serve: Serve) -> None:
    """While there is nothing to send, nothing is spent: the next patch is taken at once."""
    time = FakeTime()
    taken: list[float] = []
    ended: list[int] = []

    def take() -> tuple[int, Write] | None:
        if len(taken) > len(ended) or len(taken) == 2:  # one after the other, as between two ranks
            return None
        taken.append(time())
        return len(taken), Write(PODS, "a", f"p-{len(taken)}", OPS)

    store = store_on(serve(POD).url, time=time, qps=2)
    for number, _ in store.patches(take, concurrency=4):
        ended.append(number)
    assert (ended, taken) == ([1, 2], [100.0, 100.0])


def test_a_retry_whose_time_is_over_is_not_sent(serve: Serve) -> None:
    """A reader may take long between two outcomes: an attempt that is due meanwhile is given up, not sent late."""
    api = serve(lambda seen: THROTTLED if seen.path.endswith("p-0") else POD)
    time = FakeTime()
    found: Outcomes = {}
    for number, error in store_on(api.url, time=time).patches(writes(3), concurrency=2):
        found[number] = error
        time.now += 20.0
    assert (found[1], found[2], type(found[0])) == (None, None, Unreachable)
    assert [seen.path[-3:] for seen in api.seen].count("p-0") == 1


def test_nothing_is_sent_in_a_dry_run_of_the_client(api: FakeApi, store: KubeStore) -> None:
    """Every patch succeeds."""
    assert send(store.in_dry_run(DryRun.CLIENT), 3) == dict.fromkeys(range(3))
    assert api.seen == []


# --- how many -------------------------------------------------------------------------------------------------------


def rounds(window: ConcurrencyWindow, count: int, seconds: Callable[[int], float]) -> list[int]:
    """The window after each of so many rounds, in which answers take ``seconds(size)``."""
    sizes = []
    for _ in range(count):
        for _ in range(window.size):
            window.answered(seconds(window.size))
        sizes.append(window.size)
    return sizes


def test_the_window_grows_while_latency_does_not() -> None:
    """One more after each round, up to the limit."""
    assert rounds(ConcurrencyWindow(12), 6, lambda _: 0.01) == [9, 10, 11, 12, 12, 12]


def test_the_window_of_a_server_that_is_busy_stays_where_latency_begins_to_grow() -> None:
    """A server that does a fixed number a second answers later the more it is asked at a time."""
    sizes = rounds(ConcurrencyWindow(64), 50, lambda size: size * 0.01)
    assert max(sizes) <= 11
    assert min(sizes) >= 8


def test_the_window_shrinks_when_others_make_the_server_slow() -> None:
    """Down to where it began, and not below: latency alone says little."""
    window = ConcurrencyWindow(32)
    rounds(window, 10, lambda _: 0.01)
    assert window.size == 18
    assert rounds(window, 20, lambda _: 0.1)[-1] == 8


def test_throttling_halves_the_window_once_for_all_that_was_under_way() -> None:
    """Eight answers of one moment are one message; the next is another. Then it grows again."""
    window = ConcurrencyWindow(32)
    for sent in range(8):
        window.throttled(sent / 10, 1.0)
    assert window.size == 4
    for _ in range(4):
        window.throttled(2.0, 3.0)
        window.throttled(4.0, 5.0)
    assert window.size == 1
    assert rounds(window, 8, lambda _: 0.5)[-1] == 9


@pytest.mark.parametrize("most", [0, 1, 5])
def test_the_window_is_never_above_its_limit(most: int) -> None:
    """Nor empty."""
    assert set(rounds(ConcurrencyWindow(most), 5, lambda _: 0.01)) == {max(most, 1)}
