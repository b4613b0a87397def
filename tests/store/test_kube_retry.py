"""Which requests are sent again, which are not, and for how long; and writes only while our Lease holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import Any

import pytest
from urllib3 import exceptions as http

from migrator import errors
from migrator.cluster import LONGEST_WRITE, Deadline
from migrator.kinds import PODS
from migrator.kube.store import KubeCluster
from migrator.kube.transport import ATTEMPTS, BUDGET, NOT_SENT, delay
from tests.support import fake_api
from tests.support.clock import Clock
from tests.support.fake_api import POD, Answer, Reset, Serve, status, store_on
from tests.support.memory_objects import CONFIG_MAPS
from tests.support.tables import table

HICCUP = status(500, "etcdserver: request timed out")
UNREADY = status(403, 'pods "p" is forbidden: not yet ready to handle request', reason="Forbidden")
FULL = status(500, "etcdserver: mvcc: database space exceeded")
NO_BACKEND = Answer(404, b"<html><title>404 Not Found</title></html>")
GARBAGE = Answer(200, b"<html>")
DEEP = Answer(200, b"[" * 100_000)
CUT = replace(POD, cut=7)


def get(store: KubeCluster) -> Any:
    return store.get(PODS, "a", "p")


def patch(store: KubeCluster) -> Any:
    return store.patch(PODS, "a", "p", fake_api.OPS)


def create(store: KubeCluster) -> Any:
    return store.create(CONFIG_MAPS, "a", {"metadata": {"name": "p"}})


Act = Callable[[KubeCluster], Any]


@pytest.mark.parametrize("act", [get, patch, create])
@pytest.mark.parametrize("trouble", [fake_api.THROTTLED, fake_api.RESTARTING, HICCUP, UNREADY])
def test_trouble_of_the_server_is_waited_out(serve: Serve, act: Act, trouble: Answer) -> None:
    """Throttling and errors of the server are retried for reads and writes alike."""
    api = serve(trouble, trouble, POD)
    time = Clock()
    act(store_on(api.url, time=time))
    assert len(api.seen) == 3
    assert len(time.slept) == 2
    assert sum(time.slept) >= (2 if trouble is fake_api.THROTTLED else 0), (
        "the server is not asked before it wants to be"
    )


WRITES: tuple[Act, ...] = (patch, create)
DEFINITE = "What will not change by asking again is not asked again; a webhook that is down above all."
FINAL: list[tuple[Answer, type[errors.MigratorError]]] = [
    (fake_api.FAILED_TEST, errors.TestFailed),
    (status(404, "gone", reason="NotFound"), errors.NotFound),
    (status(403, 'User "x" cannot patch', reason="Forbidden"), errors.NotAuthorised),
    (status(500, 'failed calling webhook "a.b": no endpoints', reason="InternalError"), errors.Rejected),
]

LOST = "After a write that may have been applied nothing more is sent: the caller must look."
#: A sentence, and which requests, what they are answered with, the error and its text, and how many are sent: 0 for as
#: many as the bound permits.
ENDINGS: list[
    tuple[str, tuple[Sequence[Act], Sequence[fake_api.Step], type[errors.MigratorError], str | None, int]]
] = [
    *((LOST, (WRITES, (lost, POD), errors.LostReply, None, 1)) for lost in (Reset, CUT, GARBAGE, DEEP)),
    (
        "Bounds are kept, and the last answer is in the message; nothing can have been written.",
        ((get, *WRITES), (fake_api.THROTTLED,), errors.Unreachable, r"429.*gave up after", 0),
    ),
    (
        "A timeout of etcd may have stored the value: that is a lost reply, not a failure before the write.",
        (WRITES, (HICCUP,), errors.LostReply, "HTTP 500", 0),
    ),
    (
        "A full etcd may have stored the value with which it became full (its quotaApplierV3), and it is named.",
        (WRITES, (FULL,), errors.LostReply, "HTTP 500: etcdserver: mvcc: database space exceeded", 0),
    ),
    (
        "A page of a proxy without a backend does not say that an object, or a kind, is not there.",
        ((get, *WRITES), (NO_BACKEND,), errors.Unreachable, "HTTP 404: <html>.*gave up after", 0),
    ),
    ("A read is never in doubt.", ((get,), (HICCUP,), errors.Unreachable, "^get Pod a/p: .*HTTP 500", 0)),
    (
        "A captive portal's page is reported as what it is.",
        ((get,), (GARBAGE,), errors.ClusterError, "not a JSON object", 1),
    ),
    (
        "Our own first attempt may be what made the test fail, so it proves nothing.",
        ((patch,), (HICCUP, fake_api.FAILED_TEST), errors.LostReply, None, 2),
    ),
    (
        "Nor does a refusal that comes after it.",
        ((patch,), (HICCUP, status(403, "no", reason="Forbidden")), errors.LostReply, "may have been applied", 2),
    ),
    (
        "However often the server says in between that it did nothing.",
        ((patch,), (HICCUP, fake_api.THROTTLED, fake_api.FAILED_TEST), errors.LostReply, None, 3),
    ),
    (
        "Also if it does not know the credentials in between.",
        ((patch,), (HICCUP, status(401, "expired"), fake_api.FAILED_TEST), errors.LostReply, None, 3),
    ),
    (
        "An object that is gone holds nothing that was written.",
        ((patch,), (HICCUP, status(404, "gone", reason="NotFound")), errors.NotFound, None, 2),
    ),
    (
        "Throttling applied nothing, so the failed test is somebody else's doing.",
        ((patch,), (fake_api.THROTTLED, fake_api.FAILED_TEST), errors.TestFailed, None, 2),
    ),
    *((DEFINITE, ((patch,), (answer,), error, None, 1)) for answer, error in FINAL),
]


@table("act steps error said sent", *((s, (act, *rest)) for s, (acts, *rest) in ENDINGS for act in acts))
def test_what_is_sent_again_and_how_it_ends(
    serve: Serve,
    act: Act,
    steps: Sequence[fake_api.Step],
    *,
    error: type[errors.MigratorError],
    said: str | None,
    sent: int,
) -> None:
    """An answer decides whether a request is sent again, and what the caller is told in the end."""
    api = serve(*steps)
    with pytest.raises(error, match=said):
        act(store_on(api.url))
    assert len(api.seen) in ([sent] if sent else range(2, ATTEMPTS + 1))


@pytest.mark.parametrize("lost", [Reset, CUT])
@pytest.mark.parametrize(("act", "dry_run"), [(get, False), (patch, True)])
def test_what_changes_nothing_is_repeated(serve: Serve, act: Act, lost: fake_api.Step, *, dry_run: bool) -> None:
    """Reading twice does no harm, and a dry run cannot have been applied: the lost answer is asked for again."""
    api = serve(lost, POD)
    act(store_on(api.url, dry_run=dry_run))
    assert len(api.seen) == 2


def test_a_server_that_never_answers(serve: Serve) -> None:
    """A write that nobody answers in time is a lost reply, a read is unreachable, both within their bounds."""
    store = store_on(serve(fake_api.Hang).url, longest=0.2)
    with pytest.raises(errors.LostReply, match=r"patch Pod a/p: .*timed out"):
        patch(store)
    with pytest.raises(errors.Unreachable, match=r"^cannot reach the API server .*timed out"):
        get(store)


@pytest.mark.parametrize("act", [get, patch])
@pytest.mark.parametrize("address", [fake_api.closed_port, lambda: "http://no-such-host.invalid"])
def test_no_server_at_all_ends_soon(act: Act, address: Callable[[], str]) -> None:
    """A wrong address is reported within a second of waiting, and a write that was never sent is not a lost reply."""
    time, url = Clock(), address()
    said = rf"^cannot reach the API server {url}: .*\(gave up after 3 attempts\)"
    with pytest.raises(errors.Unreachable, match=said) as caught:
        act(store_on(url, time=time))
    assert caught.value.exit_code == 1
    assert sum(time.slept) < 1


def test_a_second_failure_has_only_its_own_cause() -> None:
    """A request that is sent while an error is handled, as at the end of a run, does not quote that error."""
    store = store_on(fake_api.closed_port(), time=Clock())
    with pytest.raises(errors.Unreachable) as first:
        get(store)
    try:
        raise first.value
    except errors.Unreachable:
        with pytest.raises(errors.Unreachable) as second:
            get(store)
    assert str(second.value) == str(first.value)


@pytest.mark.parametrize("act", [get, patch])
def test_a_server_that_restarts_is_waited_for(act: Act) -> None:
    """Refused connections of a server that has answered before are retried, writes included."""
    back, again = ExitStack(), list[fake_api.FakeApi]()

    class UntilItIsBack(Clock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if len(self.slept) == 3:
                again.append(back.enter_context(fake_api.FakeApi(POD, port=int(api.url.rpartition(":")[2])).running()))

    with fake_api.FakeApi(Answer(200, POD.body, {"Connection": "close"})).running() as api:
        store = store_on(api.url, time=UntilItIsBack())
        get(store)
    with back:
        act(store)
    assert len(again[0].seen) == 1


def test_a_permission_that_was_there_a_moment_ago_is_waited_for(serve: Serve) -> None:
    """An API server that has just started does not know its roles yet (seen on a real one), and denies what it may."""
    denied = status(403, 'User "x" cannot get', reason="Forbidden")
    api = serve(POD, denied, denied, POD, POD, denied)
    store = store_on(api.url)
    get(store)
    get(store)
    assert len(api.seen) == 4
    store.get(CONFIG_MAPS, "a", "p")
    with pytest.raises(errors.Forbidden):
        get(store)
    assert len(api.seen) == 5 + ATTEMPTS
    with pytest.raises(errors.Forbidden):
        store.get(CONFIG_MAPS, "a", "p")
    assert len(api.seen) == 6 + ATTEMPTS, "a role that was taken away is waited for once, not for each kind"


def test_a_page_instead_of_an_api_server_is_soon_told_with_its_address(serve: Serve) -> None:
    """A wrong path in the kubeconfig's server, in front of which a proxy stands, is no proxy that waits for it."""
    url, time = serve(NO_BACKEND).url, Clock()
    with pytest.raises(errors.Unreachable, match=rf"^{url}: HTTP 404: <html>.*gave up after 3 attempts"):
        get(store_on(url, time=time))
    assert sum(time.slept) < 1


def test_attempts_of_a_write_share_the_time_of_one(serve: Serve) -> None:
    """A process that takes our Lease over waits one request timeout: no attempt of ours begins later."""
    time = Clock()
    with pytest.raises(errors.Unreachable):
        patch(store_on(serve(status(429, "slow down", Retry_After="2")).url, time=time, longest=9.0))
    assert sum(time.slept) < 9


def test_a_read_may_take_longer_than_one_request(serve: Serve) -> None:
    """Reads go on for the whole budget of retries."""
    time = Clock()
    store = store_on(serve(POD, status(429, "slow down", Retry_After="12")).url, time=time, longest=5.0)
    get(store)
    with pytest.raises(errors.Unreachable):
        get(store)
    assert 48 <= sum(time.slept) < BUDGET


def test_a_wait_beyond_the_deadline_is_not_begun(serve: Serve) -> None:
    """The run's own deadline bounds every retry; extended, retries go on."""
    slow_down = status(429, "slow down", Retry_After="5")
    api = serve(POD, slow_down, slow_down, POD)
    time = Clock()
    deadline = Deadline(time, 3)
    store = store_on(api.url, time=time, deadline=deadline)
    get(store)
    with pytest.raises(errors.Unreachable):
        get(store)
    deadline.extend(60)
    assert get(store)["kind"] == "Pod"


EXPIRED, DENIED = status(401, "expired"), status(403, "no")


@table(
    "answers error times",
    ("A token may expire at any time.", ((EXPIRED, POD), None, 2)),
    ("Credentials that are new and refused are no better the third time.", ((EXPIRED,), errors.NotAuthorised, 2)),
    ("A permission is not in a new token either, and a plugin may ask.", ((DENIED,), errors.Forbidden, 1)),
)
@pytest.mark.parametrize("act", [get, patch])
def test_refused_credentials_are_read_again(
    serve: Serve, act: Act, answers: tuple[Answer, ...], *, error: type[errors.MigratorError] | None, times: int
) -> None:
    """Whoever is not known has changed nothing, so the request is sent once more with what is read then."""
    api, read = serve(*answers), list[str]()
    store = store_on(api.url, renewed=lambda: read.append("read"))
    with pytest.raises(error) if error else nullcontext():
        act(store)
    assert len(api.seen) == len(read) == times


#: Errors of urllib3 that come before a request is sent.
BEFORE = {
    *("ConnectTimeoutError", "LocationParseError", "LocationValueError"),
    *("NameResolutionError", "NewConnectionError", "ProxySchemeUnknown", "URLSchemeUnknown"),
}


def test_no_other_error_of_the_pool_tells_that_a_request_was_not_sent() -> None:
    """After any other one, also one of a newer urllib3, the server may have it."""
    kinds = [kind for kind in vars(http).values() if isinstance(kind, type)]
    assert {kind.__name__ for kind in kinds if issubclass(kind, NOT_SENT)} == BEFORE


def test_a_write_that_a_proxy_has_passed_on_is_a_lost_reply(serve: Serve) -> None:
    """One that ends without an answer is an error of the proxy to urllib3, and so is one that cannot be begun."""
    api = serve(POD, Reset, POD)
    store = store_on("http://127.0.0.1:9", proxy=api.url)
    get(store)
    with pytest.raises(errors.LostReply):
        patch(store)
    assert len(api.seen) == 2
    with pytest.raises(errors.Unreachable):
        patch(store_on("http://127.0.0.1:9", proxy=fake_api.closed_port()))


@table(
    "attempt asked fraction seconds",
    *(
        ("It doubles with every attempt, and chance shortens it.", (attempt, None, fraction, seconds))
        for attempt, fraction, seconds in ((1, 1.0, 0.25), (2, 1.0, 0.5), (4, 0.5, 1.0))
    ),
    ("Up to the cap.", (30, None, 1.0, 8.0)),
    ("Never sooner than the server wants.", (9, 7.0, 0.0, 7.0)),
    *(("And hardly later.", (attempt, 7.0, 0.5, seconds)) for attempt, seconds in ((1, 7.125), (9, 7.25))),
)
def test_the_wait_before_another_attempt(*, attempt: int, asked: float | None, fraction: float, seconds: float) -> None:
    """It spreads what many clients send, and spares a server that is busy."""
    assert delay(attempt, asked, fraction) == seconds


def test_deadline_counts_down_to_zero_and_may_be_extended_for_a_revert() -> None:
    """A passed deadline leaves the time that a revert is given; more time than that is not taken away."""
    time = Clock()
    deadline, endless = Deadline(time, 10), Deadline(time)
    remaining = []
    for seconds, extension in ((0, 3), (4, 0), (100, 0), (0, 30)):
        time.advance(seconds)
        deadline.extend(extension)
        remaining.append(deadline.remaining())
    endless.extend(5)
    assert remaining == [10, 6, 0, 30]
    assert endless.remaining() == math.inf


# --- a write is sent only while our Lease certainly holds -------------------------------------------------------------


def _hold(time: Clock, seconds: float) -> Callable[[], float]:
    end = time() + seconds
    return lambda: end - time()


@table(
    "code seconds error sent",
    (
        "A retry that would come later is not sent: the Lease may be somebody else's by then.",
        (429, 3.0, errors.LeaseLost, 1),
    ),
    ("A timeout of the server leaves open what happened: the caller must look.", (504, 3.0, errors.LostReply, 1)),
    ("However long a pause took.", (429, 0.0, errors.LeaseLost, 0)),
)
def test_nothing_is_sent_past_the_end_of_the_hold(
    serve: Serve, code: int, *, seconds: float, error: type[errors.MigratorError], sent: int
) -> None:
    """Once the hold has ended no attempt of a write begins."""
    api = serve(status(code, "later", Retry_After="4"), POD)
    time = Clock()
    with pytest.raises(error):
        patch(store_on(api.url, time=time).within(_hold(time, seconds)))
    assert len(api.seen) == sent


def test_a_process_that_stood_still_sends_no_write_that_it_had_begun(serve: Serve) -> None:
    """It is stopped after its check (SIGSTOP), and the hold has ended when it goes on (measured: 13 of 16 arrived)."""
    api, holds = serve(POD), iter([30.0, 0.0])
    with pytest.raises(errors.LeaseLost):
        patch(store_on(api.url).within(lambda: next(holds)))
    get(store_on(api.url))
    assert [seen.method for seen in api.seen] == ["GET"]


def test_a_write_asks_for_no_more_time_than_the_hold_has(serve: Serve) -> None:
    """To connect and to be answered together take no longer than a write may be under way."""
    api = serve(POD, POD)
    time = Clock()
    patch(store_on(api.url, time=time).within(_hold(time, 3.0)))
    patch(store_on(api.url, time=time).within(_hold(time, 300.0)))
    asked = [float(seen.query["timeout"].rstrip("s")) for seen in api.seen]
    assert 1 < asked[0] < 3
    assert 5 < asked[1] < LONGEST_WRITE


@pytest.mark.parametrize("error", [errors.LeaseLost, errors.NotAuthorised])
def test_what_ends_a_doubtful_write_leaves_it_a_lost_reply(serve: Serve, error: type[errors.MigratorError]) -> None:
    """The hold or the credentials may end; what an earlier attempt may have done counts for more than why it ended."""
    store, asked = store_on(serve(status(504, "later")).url), list[str]()

    def left() -> float:
        asked.append("asked")
        if len(asked) > 2:  # the first attempt asks before it connects, and before it sends the body
            raise error("another has it")
        return 30.0

    with pytest.raises(errors.LostReply, match="another has it; an attempt may have been applied"):
        patch(store.within(left))
