"""A run whose requests to a real API server fail in every way: its exit code tells the truth, and a rerun ends well."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Final

import pytest

from tests.conftest import SEED
from tests.simulation import harm
from tests.simulation.live import REQUEST_TIMEOUT, LiveCluster, Migrator
from tests.simulation.proxy import Fault, Schedule, Seen
from tests.simulation.truth import DONE, FAILED, LOST, REVERTED, STUCK, lies
from tests.support.counts import record

pytestmark = [pytest.mark.controlplane, pytest.mark.faults]

_NOT_GIVEN_BACK: Final = "the operator is at zero and its replicas were not restored"
_FORBIDDEN: Final = {"reason": "FieldValueForbidden", "message": "may not change", "field": "status"}
FAULTS: Final[dict[str, Fault]] = {
    "409": harm.refuse(409),
    "410": harm.refuse(410),
    "422 test": harm.refuse(422),
    "422 rejection": harm.refuse(422, causes=[_FORBIDDEN]),
    "429": harm.refuse(429, retry_after=1),
    "500": harm.refuse(500),
    "503": harm.refuse(503),
    "reset": harm.reset,
    "lost reply": harm.lose,
    "delay": harm.delay(0.3),
    "delay beyond the time-out": harm.delay(REQUEST_TIMEOUT + 0.5),
    "truncated": harm.truncate,
}

#: No fewer than an undisturbed run has, how many of them one test covers, and the distance between those it tries.
REQUESTS: Final = 200
CHUNK: Final = 20
STRIDE: Final = 2


#: What fails, which of such requests, and the exit codes that may come of it.
CASES: Final = [
    ("409", 2, "PATCH podcliques/", {DONE}),
    ("410", 1, "GET podcliques", {DONE}),
    ("422 test", 1, "PATCH pods/", {DONE}),
    ("422 rejection", 2, "PATCH podcliquesets/", {DONE}),
    ("429", 1, "PATCH deployments/", {DONE}),
    ("500", 1, "PATCH podcliquesets/", {DONE}),
    ("503", 2, "POST configmaps", {DONE}),
    ("reset", 3, "PATCH pods/", {DONE}),
    ("lost reply", 3, "PATCH podcliquesets/", {DONE}),
    ("delay", 1, "POST leases", {DONE}),
    ("delay beyond the time-out", 1, "PATCH podcliquescalinggroups/", {DONE, LOST, REVERTED, STUCK}),
    ("truncated", 2, "GET pods", {DONE}),
    ("truncated", 1, "PATCH podcliques/", {DONE}),
]


def check(live: LiveCluster, schedule: Schedule) -> Migrator:
    """Run under a schedule: the exit code tells the truth, and a rerun ends well."""
    run = live.run(schedule)
    assert lies(live, run) == [], str(run)
    if run.code != DONE:
        again = live.finish()
        assert (again.code, lies(live, again)) == (DONE, []), f"{again}\n--- first it was ---\n{run}"
    assert live.grove() == live.after
    assert live.replicas == 0
    if run.proxy.faulted:
        record("faults", 1)
    return run


@pytest.mark.parametrize(
    ("fault", "number", "where", "codes"),
    CASES,
    ids=[f"{fault} on {where} {number}" for fault, number, where, _ in CASES],
)
def test_a_fault_is_got_over_or_told(live: LiveCluster, fault: str, number: int, where: str, codes: set[int]) -> None:
    """One request fails in one way: the run ends well, or says truthfully what is there, and a rerun ends well."""
    method, target = where.split()
    run = check(live, harm.once(FAULTS[fault], harm.nth(number, method, target)))
    assert run.proxy.faulted, "the run never came to that request"
    assert run.code in codes, str(run)


def test_a_write_that_is_always_rejected_takes_everything_back(live: LiveCluster) -> None:
    """No set can be committed: all that was written goes back, the operator comes back, and the exit code is 5."""
    run = live.run(harm.always(FAULTS["422 rejection"], _is_write_to("podcliquesets/")))
    assert (run.code, lies(live, run)) == (REVERTED, []), str(run)
    assert live.grove() == live.before
    assert (live.replicas, live.records, live.owners_of_replicas) == (1, [], [])
    record("faults", 1)


def test_an_operator_that_cannot_be_given_back_is_told(live: LiveCluster) -> None:
    """Every hash went back but the operator's replicas did not: that is exit code 6, and a revert gives them back."""
    stop = harm.nth(1, "PATCH", "deployments/")
    is_commit, is_scale = _is_write_to("podcliquesets/"), _is_write_to("deployments/")

    def schedule(seen: Seen) -> Fault | None:
        return FAULTS["422 rejection"] if is_commit(seen) or (is_scale(seen) and not stop(seen)) else None

    run = live.run(schedule)
    assert (run.code, lies(live, run)) == (STUCK, []), str(run)
    assert _NOT_GIVEN_BACK in str(run)
    assert (live.grove() == live.before, live.replicas) == (True, 0)
    back = live.revert()
    assert (back.code, live.grove() == live.before, live.replicas) == (DONE, True, 1), str(back)
    assert live.records == []
    record("faults", 1)


def test_leases_that_cannot_be_read_stop_nothing(live: LiveCluster) -> None:
    """Who holds the Leases cannot be read at the start: the run ends, and the operator was never stopped."""
    run = check(live, harm.once(FAULTS["409"], _is_read_of_lease, times=2))
    assert run.code == FAILED, str(run)
    assert [seen for seen in run.proxy.writes if seen.plural != "leases"] == []


def test_an_operator_that_is_left_down_is_told(live: LiveCluster) -> None:
    """Once the operator is stopped no Lease can be read, so another run may be in charge: exit code 6 says so."""
    stopped = _from(_is_write_to("deployments/"))
    run = check(live, harm.always(FAULTS["409"], lambda seen: stopped(seen) and _is_read_of_lease(seen)))
    assert run.code == STUCK, str(run)
    assert _NOT_GIVEN_BACK in str(run)


def test_an_outage_in_mid_tree_is_told(live: LiveCluster) -> None:
    """From the first PodClique on nothing is answered any more: what is there is told, and a rerun ends well."""
    run = check(live, harm.always(FAULTS["reset"], _from(_is_write_to("podcliques/"))))
    assert run.code == STUCK, str(run)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, REQUESTS + 1, CHUNK))
@pytest.mark.parametrize("fault", FAULTS)
def test_every_request_may_fail_in_every_way(live: LiveCluster, fault: str, first: int) -> None:
    """Every other request, from a drawn one on, fails in every way, once or a few times in a row: the same holds."""
    chance = random.Random(f"{os.environ[SEED]} {fault} {first}")  # noqa: S311 - schedules, not secrets
    for number in range(first + chance.randrange(STRIDE), first + CHUNK, STRIDE):
        check(live, harm.burst(chance.choice((1, 1, 2, 3)), FAULTS[fault], number))
        live.reset()


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, REQUESTS + 1, 3 * STRIDE))
@pytest.mark.parametrize("fault", ["503", "reset", "lost reply"])
def test_an_outage_may_begin_at_any_request(live: LiveCluster, fault: str, number: int) -> None:
    """From any request on every one fails: the exit code tells the truth, and a rerun ends well."""
    check(live, harm.always(FAULTS[fault], lambda seen: seen.number >= number))


@pytest.mark.slow
def test_no_request_is_left_out(live: LiveCluster) -> None:
    """An undisturbed run has no more requests than those that are made to fail."""
    run = live.run()
    assert run.code == DONE, str(run)
    assert 0 < len(run.proxy.log) <= REQUESTS


def _is_write_to(start: str) -> Callable[[Seen], bool]:
    return lambda seen: bool(seen.write) and seen.target.startswith(start)


def _is_read_of_lease(seen: Seen) -> bool:
    return seen.method == "GET" and seen.plural == "leases"


def _from(chosen: Callable[[Seen], bool]) -> Callable[[Seen], bool]:
    begun: list[Seen] = []

    def after(seen: Seen) -> bool:
        if not begun and chosen(seen):
            begun.append(seen)
        return bool(begun)

    return after
