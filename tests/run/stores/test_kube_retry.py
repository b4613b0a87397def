"""What is sent again, and what must not be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from migrator.errors import (
    ClusterError,
    LeaseLost,
    LostReply,
    MigratorError,
    NotAuthorised,
    NotFound,
    Rejected,
    Unreachable,
)
from migrator.errors import TestFailed as FailedTest
from migrator.resources import CONFIG_MAPS, PODS
from migrator.store import Deadline, DryRun, Write
from migrator.stores.kube.retry import ATTEMPTS, BUDGET
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
    Serve,
    Step,
    closed_port,
    status,
    store_on,
)
from tests.support.tables import table

HICCUP = status(500, "etcdserver: request timed out")
GARBAGE = Answer(200, b"<html>")
CUT = replace(POD, cut=7)


def get(store: KubeStore) -> Any:
    """A read."""
    return store.get(PODS, "a", "p")


def patch(store: KubeStore) -> Any:
    """A write."""
    return store.patch(PODS, "a", "p", OPS)


def streamed(store: KubeStore) -> Any:
    """The same write as a stream of one: every rule of a single request holds."""
    writes = iter([(None, Write(PODS, "a", "p", OPS))])
    for _, error in store.patches(lambda: next(writes, None), concurrency=4):
        if error is not None:
            raise error


def create(store: KubeStore) -> Any:
    """Another write."""
    return store.create(CONFIG_MAPS, "a", {"metadata": {"name": "p"}})


def delete(store: KubeStore) -> Any:
    """The third kind of write."""
    return store.delete(CONFIG_MAPS, "a", "p", "u")


Act = Callable[[KubeStore], Any]
PATCHES = pytest.mark.parametrize("patch", [patch, streamed])


@pytest.mark.parametrize("act", [get, patch, streamed, create, delete])
@pytest.mark.parametrize("trouble", [THROTTLED, RESTARTING, HICCUP])
def test_trouble_of_the_server_is_waited_out(serve: Serve, act: Act, trouble: Answer) -> None:
    """Throttling and errors of the server are retried for reads and writes alike."""
    api = serve(trouble, trouble, POD)
    time = FakeTime()
    act(store_on(api.url, time=time))
    assert len(api.seen) == 3
    assert len(time.slept) == 2


def test_retry_after_is_honoured(serve: Serve) -> None:
    """The server is not asked again before it wants to be."""
    time = FakeTime()
    get(store_on(serve(status(429, "slow down", Retry_After="4"), POD).url, time=time))
    assert sum(time.slept) >= 4


WRITES: tuple[Act, ...] = (patch, streamed, create, delete)
DEFINITE = "What will not change by asking again is not asked again; a webhook that is down above all."
FINAL: list[tuple[Answer, type[MigratorError]]] = [
    (FAILED_TEST, FailedTest),
    (status(404, "gone", reason="NotFound"), NotFound),
    (status(403, 'User "x" cannot patch', reason="Forbidden"), NotAuthorised),
    (status(500, 'failed calling webhook "a.b": no endpoints', reason="InternalError"), Rejected),
]

LOST = "After a write that may have been applied nothing more is sent: the caller must look."
#: A sentence, and which requests, what they are answered with, the error and its text, and how many are sent: 0 for as
#: many as the bound permits.
ENDINGS: list[tuple[str, tuple[Sequence[Act], Sequence[Step], type[MigratorError], str | None, int]]] = [
    *((LOST, (WRITES[:3], (lost, POD), LostReply, None, 1)) for lost in (Reset, CUT, GARBAGE)),
    ("A reset during a delete leaves its fate open.", ((delete,), (Reset, POD), LostReply, None, 1)),
    (
        "Bounds are kept, and the last answer is in the message; nothing can have been written.",
        ((get, *WRITES), (THROTTLED,), Unreachable, r"429.*gave up after", 0),
    ),
    (
        "A timeout of etcd may have stored the value: that is a lost reply, not a failure before the write.",
        (WRITES, (HICCUP,), LostReply, "HTTP 500", 0),
    ),
    ("A read has nothing to be in doubt about.", ((get,), (HICCUP,), Unreachable, "HTTP 500", 0)),
    (
        "Our own first attempt may be what made the test fail, so it proves nothing.",
        (WRITES[:2], (HICCUP, FAILED_TEST), LostReply, None, 2),
    ),
    (
        "Throttling applied nothing, so the failed test is somebody else's doing.",
        (WRITES[:2], (THROTTLED, FAILED_TEST), FailedTest, None, 2),
    ),
    *((DEFINITE, (WRITES[:2], (answer,), error, None, 1)) for answer, error in FINAL),
]


@table("act steps error said sent", *((s, (act, *rest)) for s, (acts, *rest) in ENDINGS for act in acts))
def test_what_is_sent_again_and_how_it_ends(
    serve: Serve, act: Act, steps: Sequence[Step], *, error: type[MigratorError], said: str | None, sent: int
) -> None:
    """An answer decides whether a request is sent again, and what the caller is told in the end."""
    api = serve(*steps)
    with pytest.raises(error, match=said):
        act(store_on(api.url))
    assert len(api.seen) in ([sent] if sent else range(2, ATTEMPTS + 1))


@pytest.mark.parametrize("lost", [Reset, CUT])
def test_a_read_whose_answer_is_lost_is_repeated(serve: Serve, lost: Step) -> None:
    """Reading twice does no harm."""
    api = serve(lost, POD)
    assert get(store_on(api.url))["metadata"]["name"] == "p"
    assert len(api.seen) == 2


@pytest.mark.parametrize("lost", [Reset, CUT])
@PATCHES
def test_a_write_of_a_dry_run_is_repeated(serve: Serve, lost: Step, patch: Act) -> None:
    """A dry run cannot have been applied, so its answer may be asked for again."""
    api = serve(lost, POD)
    patch(store_on(api.url, dry_run=DryRun.SERVER))
    assert [seen.query["dryRun"] for seen in api.seen] == ["All", "All"]


@PATCHES
def test_a_server_that_never_answers(serve: Serve, patch: Act) -> None:
    """A write that nobody answers in time is a lost reply, a read is unreachable, both within their bounds."""
    store = store_on(serve(Hang).url, request_timeout=0.2)
    with pytest.raises(LostReply, match=r"patch Pod a/p: .*timed out"):
        patch(store)
    with pytest.raises(Unreachable, match=r"get Pod a/p: .*timed out"):
        get(store)


@pytest.mark.parametrize("act", [get, patch, streamed])
@pytest.mark.parametrize("address", [closed_port, lambda: "http://no-such-host.invalid"])
def test_no_server_at_all_ends_soon(act: Act, address: Callable[[], str]) -> None:
    """A wrong address is reported within a second of waiting, and a write that was never sent is not a lost reply."""
    time, url = FakeTime(), address()
    with pytest.raises(Unreachable, match=rf"no answer from {url}: .*\(gave up after 3 attempts\)") as caught:
        act(store_on(url, time=time))
    assert caught.value.exit_code == 1
    assert sum(time.slept) < 1


@pytest.mark.parametrize("act", [get, patch, streamed])
def test_a_server_that_restarts_is_waited_for(act: Act) -> None:
    """Refused connections of a server that has answered before are retried, writes included."""
    back, time = ExitStack(), FakeTime()
    with FakeApi(Answer(200, POD.body, {"Connection": "close"})).running() as api:
        store = store_on(api.url, time=time)
        get(store)

    def sleep(seconds: float) -> None:
        time.sleep(seconds)
        if len(time.slept) == 3:
            again.append(back.enter_context(FakeApi(POD, port=int(api.url.rpartition(":")[2])).running()))

    again: list[FakeApi] = []
    object.__setattr__(store._transport.timing, "sleep", sleep)
    with back:
        act(store)
    assert len(again[0].seen) == 1


@PATCHES
def test_attempts_of_a_write_share_the_time_of_one(serve: Serve, patch: Act) -> None:
    """A process that takes our Lease over waits one request timeout: no attempt of ours begins later."""
    time = FakeTime()
    with pytest.raises(Unreachable):
        patch(store_on(serve(status(429, "slow down", Retry_After="2")).url, time=time, request_timeout=9.0))
    assert sum(time.slept) < 9


def test_a_read_may_take_longer_than_one_request(serve: Serve) -> None:
    """Reads go on for the whole budget of retries."""
    time = FakeTime()
    store = store_on(serve(POD, status(429, "slow down", Retry_After="12")).url, time=time, request_timeout=5.0)
    get(store)
    with pytest.raises(Unreachable):
        get(store)
    assert 48 <= sum(time.slept) < BUDGET


def test_a_wait_beyond_the_deadline_is_not_begun(serve: Serve) -> None:
    """The run's own deadline bounds every retry; extended, retries go on."""
    slow_down = status(429, "slow down", Retry_After="5")
    api = serve(POD, slow_down, slow_down, POD)
    time = FakeTime()
    deadline = Deadline(time, 3)
    store = store_on(api.url, time=time, deadline=deadline)
    get(store)
    with pytest.raises(Unreachable):
        get(store)
    deadline.extend(60)
    assert get(store)["kind"] == "Pod"


def test_the_rate_limit_counts_nothing_but_streamed_patches(serve: Serve) -> None:
    """A list of many pages would outlive its snapshot, and a Lease renewal never waits behind a queue of patches."""
    time = FakeTime()
    store = store_on(serve(POD).url, time=time, qps=1)
    for act in (get, create, patch, delete) * 2:
        act(store)
    assert time.slept == []


def test_the_wait_for_the_rate_limit_is_not_part_of_a_request_s_time(api: FakeApi) -> None:
    """A write that waited for longer than one may take has all of its time when it is sent."""
    store = store_on(api.url, time=FakeTime(), request_timeout=5.0, qps=0.1)
    for _ in range(2):
        streamed(store)
    assert [seen.query["timeout"] for seen in api.seen] == ["5.000s", "5.000s"]


def test_an_answer_that_is_no_json_is_no_value(serve: Serve) -> None:
    """A captive portal's page is reported as what it is."""
    with pytest.raises(ClusterError, match="not a JSON object"):
        get(store_on(serve(GARBAGE).url))


def _hold(time: FakeTime, seconds: float) -> Callable[[], float]:
    end = time() + seconds
    return lambda: end - time()


@table(
    "code seconds error sent",
    ("A retry that would come later is not sent: the Lease may be somebody else's by then.", (429, 3.0, LeaseLost, 1)),
    ("A timeout of the server leaves open what happened: the caller must look.", (504, 3.0, LostReply, 1)),
    ("However long the rate limit or a pause took.", (429, 0.0, LeaseLost, 0)),
)
@PATCHES
def test_nothing_is_sent_past_the_end_of_the_hold(
    serve: Serve, patch: Act, code: int, *, seconds: float, error: type[MigratorError], sent: int
) -> None:
    """Once the hold has ended no attempt of a write begins."""
    api = serve(status(code, "later", Retry_After="4"), POD)
    time = FakeTime()
    with pytest.raises(error):
        patch(store_on(api.url, time=time).within(_hold(time, seconds)))
    assert len(api.seen) == sent


@PATCHES
def test_a_write_asks_for_no_more_time_than_the_hold_has(serve: Serve, patch: Act) -> None:
    """The server works on it no longer than we may have it under way."""
    api = serve(POD, POD)
    time = FakeTime()
    patch(store_on(api.url, time=time).within(_hold(time, 3.0)))
    patch(store_on(api.url, time=time).within(_hold(time, 300.0)))
    assert [float(seen.query["timeout"].rstrip("s")) for seen in api.seen] == [pytest.approx(3.0, abs=0.1), 10.0]
