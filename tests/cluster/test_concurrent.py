"""Two processes that migrate one cluster at once: only one of them writes hashes, whichever comes first."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Final

import pytest

from tests.conftest import SEED
from tests.simulation import harm
from tests.simulation.live import REQUEST_TIMEOUT, LiveCluster, Migrator
from tests.simulation.proxy import Exchange, Fault, Schedule, Seen
from tests.simulation.truth import DONE, LOST, REFUSED, REVERTED, STUCK, lies
from tests.support.counts import record

pytestmark = [pytest.mark.controlplane, pytest.mark.faults]

ENDINGS: Final = frozenset({DONE, REFUSED, LOST})
PATIENT_LEASE: Final = 20
_SLOW: Final = 0.6 * REQUEST_TIMEOUT  # below what a request may take


@pytest.fixture
def patient(live: LiveCluster) -> LiveCluster:
    """The cluster with a Lease that nobody loses by hesitating."""
    live.lease_seconds = PATIENT_LEASE
    return live.reset()


def hesitation(seed: str) -> Schedule:
    """One process waits before every tenth request or so, the more rarely the longer, as on a busy network."""
    chance = random.Random(seed)  # noqa: S311 - schedules, not secrets
    lock = threading.Lock()

    def schedule(_seen: Seen) -> Fault | None:
        with lock:
            hesitates, seconds = chance.random() < 0.1, chance.random() ** 3
        return _wait_first(seconds) if hesitates else None

    return schedule


def _wait_first(seconds: float) -> Fault:
    def fault(exchange: Exchange) -> None:
        time.sleep(seconds)
        exchange.pass_on()

    return fault


def check_together(live: LiveCluster, first: Migrator, second: Migrator) -> None:
    """Both end: one has migrated everything, and the other has not written one hash."""
    said = check_truth(live, first, second)
    assert {first.code, second.code} <= ENDINGS, said
    writers = [run for run in (first, second) if run.hash_writes]
    assert len(writers) == 1, said
    assert writers[0].code == DONE, said
    assert live.grove() == live.after, said
    assert live.replicas == 0, said
    assert live.holder == "", said
    again = live.finish()
    assert (again.code, again.hash_writes, lies(live, again)) == (DONE, [], []), str(again)
    record("concurrent_runs", 1)


def check_in_turn(live: LiveCluster, first: Migrator, second: Migrator) -> None:
    """Both end, one perhaps because it lost its Lease; the other writes only after the last write of the first."""
    said = check_truth(live, first, second)
    spans = sorted((run.hash_writes[0].at, run.hash_writes[-1].at) for run in (first, second) if run.hash_writes)
    assert all(earlier[1] < later[0] for earlier, later in pairwise(spans)), said
    again = live.finish()
    assert (again.code, lies(live, again)) == (DONE, []), f"{again}\n--- first it was ---\n{said}"
    record("concurrent_runs", 1)


def check_truth(live: LiveCluster, first: Migrator, second: Migrator) -> str:
    """Both end: no value is a third one, and the one that ended last told the truth. Returns what they said."""
    first.wait()
    second.wait()
    said = f"{first}\n--- and ---\n{second}"
    assert live.wrongs == [], said
    assert {first.code, second.code} <= ENDINGS | {REVERTED, STUCK}, said
    if DONE in {first.code, second.code}:
        assert live.grove() == live.after, said
    assert live.replicas == 0 or live.grove() == live.before, said
    return said


def start_both(live: LiveCluster, seed: str) -> tuple[Migrator, Migrator]:
    """Both start within two seconds of each other, and hesitate."""
    chance = random.Random(seed)  # noqa: S311 - schedules, not secrets
    first = live.start(hesitation(f"{seed} first"))
    time.sleep(2 * chance.random() ** 2)
    return first, live.start(hesitation(f"{seed} second"))


@pytest.mark.parametrize("number", [0, 1, 2, *(pytest.param(more, marks=pytest.mark.slow) for more in range(3, 53))])
def test_one_of_two_runs_writes(patient: LiveCluster, number: int) -> None:
    """Started at about the same time, one migrates and the other waits for it, or says that it lost."""
    check_together(patient, *start_both(patient, f"{os.environ[SEED]} {number}"))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(50))
def test_two_runs_that_may_lose_their_leases_write_in_turn(live: LiveCluster, number: int) -> None:
    """With Leases so short that a short pause loses them, the two never write at the same time."""
    check_in_turn(live, *start_both(live, f"{os.environ[SEED]} short {number}"))


def test_another_lease_name_lets_nobody_in(patient: LiveCluster) -> None:
    """A second run that is told another Lease finds in the record which one the first holds, and waits for that."""
    check_with_leases(patient, (), ("--lease-name=another",), harm.nth(1, "PATCH", "pods/"))


@pytest.mark.slow
@pytest.mark.parametrize("names", [("", "b"), ("a", ""), ("a", "b")], ids=repr)
@pytest.mark.parametrize("number", range(1, 37, 3))
def test_another_lease_name_lets_nobody_in_at_any_write(
    patient: LiveCluster, names: tuple[str, str], number: int
) -> None:
    """The same, wherever the first run is when the second one comes."""
    one, other = ((f"--lease-name={name}",) if name else () for name in names)
    check_with_leases(patient, one, other, harm.write(number))


def check_with_leases(
    live: LiveCluster, one: tuple[str, ...], other: tuple[str, ...], chosen: Callable[[Seen], bool]
) -> None:
    """The first run is slow from a write on until the second one has got as far as it gets, or has ended."""
    here = threading.Event()
    seconds: list[Migrator] = []

    def slow(exchange: Exchange) -> None:
        here.set()
        until = time.monotonic() + _SLOW
        while (not seconds or not _is_stuck(seconds[0])) and time.monotonic() < until:
            time.sleep(0.05)
        exchange.pass_on()

    def schedule(seen: Seen) -> Fault | None:
        return slow if (here.is_set() and seen.write and seen.plural != "leases") or chosen(seen) else None

    first = live.start(schedule, *one)
    while first.running and not here.wait(0.1):
        pass
    seconds.append(live.start(None, *other))
    check_together(live, first, seconds[0])


def _is_stuck(run: Migrator) -> bool:
    """Whether a run has ended, has written a hash, or asks for a Lease again and again."""
    asked = sum(seen.plural == "leases" and seen.method == "GET" for seen in run.proxy.log)
    return not run.running or bool(run.hash_writes) or asked > 3
