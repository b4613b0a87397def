"""A write is sent only while our Lease certainly holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from migrator import errors
from migrator.cluster import LONGEST_WRITE
from tests.store.test_kube_retry import get, patch
from tests.support.clock import Clock
from tests.support.fake_api import POD, Serve, status, store_on
from tests.support.tables import table


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
