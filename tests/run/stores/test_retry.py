"""How often, how long and how fast."""

from __future__ import annotations

import math
import threading

import pytest

from migrator.store import Deadline
from migrator.stores.kube import retry
from migrator.stores.kube.retry import RateLimit
from tests.support.fake_api import FakeTime
from tests.support.tables import table


@pytest.mark.parametrize(
    ("attempt", "fraction", "delay"), [(1, 1.0, 0.25), (2, 1.0, 0.5), (4, 0.5, 1.0), (6, 1.0, 8.0), (30, 1.0, 8.0)]
)
def test_delay_doubles_up_to_the_cap(attempt: int, fraction: float, delay: float) -> None:
    """Without Retry-After the wait doubles with every attempt, up to the cap, and chance shortens it."""
    assert retry.delay(attempt, None, fraction) == delay


@pytest.mark.parametrize("attempt", [1, 5, 9])
def test_retry_after_is_the_least(attempt: int) -> None:
    """The server is never asked sooner than it wanted, and hardly later."""
    delays = [retry.delay(attempt, 7.0, fraction) for fraction in (0.0, 0.5, 0.99)]
    assert min(delays) == 7.0
    assert max(delays) <= 7.25
    assert len(set(delays)) > 1


def test_deadline_counts_down_to_zero_and_may_be_extended_for_a_revert() -> None:
    """A passed deadline leaves the time that a revert is given; more time than that is not taken away."""
    time = FakeTime()
    deadline = Deadline(time, 10)
    deadline.extend(3)
    assert deadline.remaining() == 10
    time.sleep(4)
    assert deadline.remaining() == 6
    time.sleep(100)
    assert deadline.remaining() == 0
    deadline.extend(30)
    assert deadline.remaining() == 30


def test_without_a_deadline_there_is_no_limit() -> None:
    """No timeout means for ever, and an extension does not make it finite."""
    deadline = Deadline(FakeTime())
    deadline.extend(5)
    assert deadline.remaining() == math.inf


@table(
    "rate idle taken waits",
    ("A second's worth passes at once, the rest at the rate.", (2, 0, 6, [0.5] * 4)),
    (
        "One request in four seconds: the first at once, each other four seconds after its predecessor.",
        (0.25, 0, 3, [4.0, 4.0]),
    ),
    ("A pause earns no more than a second's worth.", (2, 1000, 3, [0.5])),
)
def test_rate_limit_lets_a_burst_pass_and_then_counts(rate: float, idle: float, taken: int, waits: list[float]) -> None:
    """A bucket of one second's tokens, whatever the rate and however long nobody asked."""
    time = FakeTime()
    limit = RateLimit(rate, clock=time)
    time.now += idle
    for _ in range(taken):
        while pause := limit.take():
            time.sleep(pause)
    assert time.slept == waits


def test_threads_share_one_rate() -> None:
    """Every token is handed out once, however many threads ask, and all others are told when to ask again."""
    told: list[float] = []
    limit = RateLimit(4, clock=lambda: 0.0)
    threads = [threading.Thread(target=lambda: told.extend(limit.take() for _ in range(5))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == [0.0] * 4 + [0.25] * 36
