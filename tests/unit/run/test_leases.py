"""Who may write: taking, keeping, parking and losing Leases on a clock that only the test moves."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from migrator.errors import ClusterError, Forbidden, HalfWay, LeaseLost, LostReply, Unreachable
from migrator.kinds import LEASES
from migrator.run.context import periodically
from migrator.run.leases import (
    DURATION,
    HOLD,
    OPERATOR_LEASE,
    OWN_LEASE,
    PARKED,
    QUIET,
    RECORD,
    RENEW_EVERY,
    Leases,
    monotonic,
)
from tests.support.clock import START, Clock, context_of
from tests.support.memory_store import MemoryCluster
from tests.support.tables import table

NAMESPACE = "grove-system"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture
def leases(cluster: MemoryCluster, clock: Clock) -> Leases:
    """Leases without a thread, of which none is held."""
    return leases_of(cluster, clock)


@pytest.fixture
def ours(leases: Leases) -> Leases:
    """Those, once our own is held."""
    assert leases.obtain() == ""
    return leases


def leases_of(cluster: MemoryCluster, clock: Clock, identity: str = "we_1") -> Leases:
    """Leases that their owner keeps alive."""
    return Leases(cluster, NAMESPACE, context_of(clock, clock.now, identity))


def put_lease(
    cluster: MemoryCluster, holder: str, *, seconds: int = 15, name: str = OWN_LEASE, renewed: datetime = START
) -> None:
    """A Lease as client-go writes it."""
    moment = renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    times = {"leaseDurationSeconds": seconds, "acquireTime": moment, "renewTime": moment}
    spec = {"holderIdentity": holder, **times}
    metadata = {"namespace": NAMESPACE, "name": name}
    cluster.put({"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec})


def write(cluster: MemoryCluster, name: str = OWN_LEASE, **spec: object) -> None:
    cluster.edit(LEASES, NAMESPACE, name, lambda body: body["spec"].update(spec))


def spec_of(cluster: MemoryCluster, name: str = OWN_LEASE) -> Any:
    return cluster.read(LEASES, NAMESPACE, name)["spec"]


def renew(leases: Leases, clock: Clock, times: int = 1, *, every: float = RENEW_EVERY) -> None:
    """Let time pass, and renew what is due, so many times."""
    for _ in range(times):
        clock.advance(every)
        leases.renew_if_due()


def test_an_absent_lease_is_created_for_a_minute(cluster: MemoryCluster, leases: Leases) -> None:
    """It names us, says 60 seconds, and has times of six fraction digits."""
    assert leases.obtain() == ""
    spec = spec_of(cluster)
    assert spec["holderIdentity"] == "we_1"
    assert spec["leaseDurationSeconds"] == DURATION
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", spec["renewTime"])
    assert leases.seconds_left() == HOLD


@pytest.mark.parametrize("holder", ["", PARKED], ids=["released", "parked"])
def test_a_released_or_parked_lease_is_taken_at_once(cluster: MemoryCluster, ours: Leases, holder: str) -> None:
    """Nobody holds it, so nobody is waited for."""
    put_lease(cluster, holder, seconds=3600, name=OPERATOR_LEASE)
    assert ours.park() == ""
    assert spec_of(cluster, OPERATOR_LEASE)["holderIdentity"] == PARKED


def test_a_lease_that_is_parked_already_is_renewed_once(cluster: MemoryCluster, ours: Leases) -> None:
    """An operator waits for its duration from its own first sight of it, and a rerun may come after half an hour."""
    put_lease(cluster, PARKED, seconds=3600, name=OPERATOR_LEASE)
    before = spec_of(cluster, OPERATOR_LEASE)
    assert ours.park() == ""
    renewed = spec_of(cluster, OPERATOR_LEASE)
    assert renewed["renewTime"] > before["renewTime"]
    assert ours.park() == ""
    assert spec_of(cluster, OPERATOR_LEASE) == renewed


@pytest.mark.parametrize("skew", [timedelta(days=-400), timedelta(0), timedelta(days=400)])
@pytest.mark.parametrize("seconds", [15, 60])
def test_a_dead_holder_is_waited_out_by_our_clock(
    cluster: MemoryCluster, clock: Clock, leases: Leases, skew: timedelta, seconds: int
) -> None:
    """Whatever time it wrote, it gets its own duration since we first saw it so, and then its last request's time."""
    put_lease(cluster, "dead_1", seconds=seconds, renewed=START + skew)
    assert "held by dead_1" in leases.obtain()
    clock.advance(seconds - 0.1)
    assert "held by dead_1" in leases.obtain()
    clock.advance(0.2)
    assert "late writes" in leases.obtain(), "it is ours, and nothing may be written yet"
    assert spec_of(cluster)["holderIdentity"] == "we_1"
    assert not leases.held
    renew(leases, clock, 4, every=QUIET / 4 + 0.01)
    assert leases.obtain() == ""
    assert leases.held


def test_a_moving_annotation_is_no_sign_of_life(cluster: MemoryCluster, clock: Clock, leases: Leases) -> None:
    """Whoever writes one, the holder is waited out by what its spec says."""
    put_lease(cluster, "dead_1")
    leases.obtain()
    clock.advance(14)
    cluster.edit(LEASES, NAMESPACE, OWN_LEASE, lambda body: body["metadata"].update(annotations={"a": "b"}))
    clock.advance(2)
    assert "late writes" in leases.obtain()


def test_a_takeover_loses_to_a_holder_that_wakes_up_in_between(
    cluster: MemoryCluster, clock: Clock, leases: Leases
) -> None:
    """Between our look and our swap the holder renewed: the swap fails, and the wait begins again."""
    put_lease(cluster, "slow_1")
    leases.obtain()
    clock.advance(20)
    cluster.meanwhile(lambda: write(cluster, renewTime="later"), verb="patch")
    assert "held by slow_1" in leases.obtain()
    assert not leases.held


def test_a_slow_read_does_not_count_as_waiting(cluster: MemoryCluster, clock: Clock, leases: Leases) -> None:
    """The holder may have renewed it after the server read it, so what counts is when the read was sent."""
    put_lease(cluster, "slow_1")
    leases.obtain()
    clock.advance(14)
    cluster.meanwhile(lambda: clock.advance(2), verb="get", applied=True)
    assert "held by" in leases.obtain()
    assert "late writes" in leases.obtain()


def test_a_lease_that_is_deleted_while_held_is_waited_out(cluster: MemoryCluster, clock: Clock, leases: Leases) -> None:
    """Its holder may write until it next tries to renew, which it last did when we saw it move."""
    put_lease(cluster, "operator_1")
    leases.obtain()
    clock.advance(14)
    cluster.drop(LEASES, NAMESPACE, OWN_LEASE)
    for seconds, free in ((0, False), (0.9, False), (0.2, True)):
        clock.advance(seconds)
        assert ("held by" not in leases.obtain()) is free


def test_a_takeover_whose_reply_is_lost_keeps_quiet_too(cluster: MemoryCluster, clock: Clock, leases: Leases) -> None:
    """The dead holder's last request may still be under way, so nothing may be written at once."""
    put_lease(cluster, "dead_1")
    leases.obtain()
    clock.advance(15.1)
    cluster.lose_reply(verb="patch")
    assert "late writes" in leases.obtain()
    clock.advance(QUIET)
    assert leases.obtain() == ""


def test_a_namesake_is_somebody_else(cluster: MemoryCluster, leases: Leases) -> None:
    """The same identity in a term that we did not write is not ours."""
    put_lease(cluster, "we_1")
    assert "held by we_1" in leases.obtain()


def test_nothing_may_be_written_without_our_own_lease(leases: Leases) -> None:
    """Not even the record."""
    with pytest.raises(LeaseLost):
        leases.save("{}")


def test_the_record_is_an_annotation_beside_those_of_others(cluster: MemoryCluster, leases: Leases) -> None:
    """It is read with the Lease, kept by a renewal, and goes alone."""
    put_lease(cluster, "")
    cluster.edit(LEASES, NAMESPACE, OWN_LEASE, lambda body: body["metadata"].update(annotations={"a": "b"}))
    assert leases.obtain() == ""
    leases.save("a record")
    stored = cluster.read(LEASES, NAMESPACE, OWN_LEASE)["metadata"]["annotations"]
    assert stored == {"a": "b", RECORD: "a record"}
    leases.release()
    again = leases_of(cluster, Clock(), "again_1")
    assert again.obtain() == ""
    assert again.record_in(NAMESPACE) == "a record"
    again.save("")
    assert cluster.read(LEASES, NAMESPACE, OWN_LEASE)["metadata"]["annotations"] == {"a": "b"}


def test_renewals_keep_it_and_nothing_is_sent_before_one_is_due(
    cluster: MemoryCluster, clock: Clock, ours: Leases
) -> None:
    """Every five seconds, whatever happens to the wall clock, the text moves."""
    before = spec_of(cluster)["renewTime"]
    renew(ours, clock, every=RENEW_EVERY - 0.1)
    assert spec_of(cluster)["renewTime"] == before
    for _ in range(40):
        renew(ours, clock)
        assert ours.seconds_left() == pytest.approx(HOLD)
    assert spec_of(cluster)["renewTime"] != before


def test_an_operators_lease_that_cannot_be_given_back_is_told_with_the_reason(
    cluster: MemoryCluster, ours: Leases
) -> None:
    """A missing permission, for instance: without it, to run again is of no use."""
    ours.park()
    cluster.fail(Forbidden("HTTP 403 Forbidden"), times=9, verb="patch", name=OPERATOR_LEASE)
    with pytest.raises(HalfWay, match="HTTP 403 Forbidden"):
        ours.unpark()


def test_the_hold_ends_and_stays_ended(clock: Clock, ours: Leases) -> None:
    """A paused process has lost it when it wakes up, 40 seconds after the sending of its last renewal."""
    clock.advance(HOLD - 0.1)
    assert ours.held
    clock.advance(0.1)
    assert not ours.held
    ours.renew_if_due()
    assert not ours.held


def test_the_hold_counts_from_the_sending_of_the_renewal(cluster: MemoryCluster, clock: Clock, ours: Leases) -> None:
    """A renewal that took four seconds is four seconds old when it is confirmed."""
    cluster.meanwhile(lambda: clock.advance(4), verb="patch")
    renew(ours, clock)
    assert ours.seconds_left() == HOLD - 4


def test_failed_renewals_are_tried_again_within_the_hold(cluster: MemoryCluster, clock: Clock, ours: Leases) -> None:
    """Several that hang or fail do not lose it; all of them do."""
    cluster.fail(Unreachable("no answer"), verb="patch", times=8)
    renew(ours, clock, 14, every=2.5)
    assert ours.seconds_left() > HOLD - 3
    cluster.fail(Unreachable("no answer"), verb="patch", times=1000)
    renew(ours, clock, 20, every=2.5)
    assert not ours.held


def test_a_free_lease_that_cannot_be_taken_says_why(cluster: MemoryCluster, leases: Leases) -> None:
    """A full etcd ends every attempt as a lost reply."""
    cluster.fail(LostReply("no space"), verb="create", times=3)
    with pytest.raises(ClusterError, match=r"grove-migrator is free, and could not be taken: no space$"):
        leases.obtain()


def test_an_operators_lease_that_cannot_be_parked_says_why(cluster: MemoryCluster, ours: Leases) -> None:
    """The same of the operator's."""
    cluster.fail(LostReply("no space"), verb="create", times=3)
    with pytest.raises(ClusterError, match=r"election is free, and could not be taken: no space$"):
        ours.park()


def test_the_end_of_a_hold_says_why_no_renewal_succeeded(cluster: MemoryCluster, clock: Clock, ours: Leases) -> None:
    """A full etcd or an expired token ends a run as a lost Lease, and only the log had the cause."""
    cluster.fail(Unreachable("no answer"), verb="patch", times=1000)
    renew(ours, clock, 20, every=2.5)
    with pytest.raises(LeaseLost, match=r"renewed 4\d\.\d s ago \(no answer\), and may be"):
        ours.seconds_left()


@table(
    "change",
    ("Another holder.", ({"holderIdentity": "thief_1"},)),
    ("A namesake who acquired it later.", ({"acquireTime": "2026-01-02T04:04:05.000000Z"},)),
    ("It was deleted.", (None,)),
)
def test_another_term_ends_ours_at_once(
    cluster: MemoryCluster, clock: Clock, ours: Leases, change: dict[str, Any] | None
) -> None:
    """Another term is another holder, whatever it calls itself."""
    if change is None:
        cluster.drop(LEASES, NAMESPACE, OWN_LEASE)
    else:
        write(cluster, **change)
    renew(ours, clock)
    assert not ours.held


def test_a_suspended_mac_has_no_hold_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """There time.monotonic stands still, and the clock that does not has another name."""
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    monkeypatch.setattr(time, "clock_gettime", {time.CLOCK_MONOTONIC_RAW: 5.0}.__getitem__)
    assert monotonic() == 5.0


def test_the_thread_renews_and_ends(cluster: MemoryCluster) -> None:
    """In the background, for as long as the Lease is held."""
    before, called = threading.active_count(), threading.Event()

    def often(call: Callable[[], object], _pause: float) -> Callable[[], None]:
        return periodically(lambda: (called.set(), call()), 0.01)

    leases = Leases(cluster, NAMESPACE, context_of(monotonic, lambda: datetime.now(UTC), repeat=often))
    leases.obtain()
    assert called.wait(10)
    leases.release()
    assert threading.active_count() == before


@pytest.mark.parametrize("seed", range(10))
def test_writes_of_two_migrators_never_overlap(seed: int) -> None:
    """Whatever the order of their steps, and however long each is paused, at most one may write at any time."""
    chance = random.Random(seed)  # noqa: S311 - schedules, not secrets
    cluster, clock = MemoryCluster(), Clock()
    contenders = [leases_of(cluster, clock, name) for name in ("first_0", "second_0")]
    writers = 0
    for step in range(400):
        number = chance.randrange(len(contenders))
        leases = contenders[number]
        clock.advance(chance.choice([0.1, 0.5, 1.0, 3.0]) if chance.random() < 0.97 else 50.0)
        if chance.random() < 0.6:
            leases.renew_if_due()
        try:
            leases.obtain()
            ends = chance.random() < 0.02
        except LeaseLost:
            ends = True
        if ends:  # as each run does, which takes its Lease once
            leases.release()
            contenders[number] = leases_of(cluster, clock, f"another_{step}")
        able = [other for other in contenders if other.held]
        writers += bool(able)
        assert len(able) <= 1
    assert writers > 20
