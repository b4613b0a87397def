"""Who may write: taking, keeping, parking and losing Leases on a clock that only the test moves."""

from __future__ import annotations

import random
import re
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from migrator.errors import LeaseLost, LostReply, NotAuthorised, Unreachable
from migrator.resources import LEASES
from migrator.run.context import periodically
from migrator.run.leases import DURATION, HOLD, OWN_LEASE, PARKED, QUIET, RENEW_EVERY, Lease, Leases, monotonic
from tests.support.clock import START, Clock, context_of
from tests.support.memory_store import MemoryStore

NAMESPACE, OPERATORS = "grove-system", "grove-operator-leader-election"


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def cluster() -> MemoryStore:
    """A cluster without any Lease."""
    return MemoryStore()


def leases_of(cluster: MemoryStore, clock: Clock, identity: str = "we_1") -> Leases:
    """Leases without a thread, kept alive by their owner."""
    return Leases(cluster, NAMESPACE, context_of(clock, clock.now, identity))


def put_lease(
    cluster: MemoryStore,
    holder: str,
    *,
    seconds: int = 15,
    name: str = OWN_LEASE,
    renewed: datetime = START,
    transitions: int = 3,
) -> None:
    """A Lease as client-go writes it."""
    moment = renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": seconds,
        "acquireTime": moment,
        "renewTime": moment,
        "leaseTransitions": transitions,
    }
    metadata = {"namespace": NAMESPACE, "name": name}
    cluster.put({"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec})


def spec_of(cluster: MemoryStore, name: str = OWN_LEASE) -> Any:
    """The Lease's spec as it stands."""
    return cluster.read(LEASES, NAMESPACE, name)["spec"]


def taken(cluster: MemoryStore, clock: Clock, identity: str = "we_1") -> Leases:
    """Leases of which ours is held."""
    leases = leases_of(cluster, clock, identity)
    leases.take(OWN_LEASE)
    assert leases.look(OWN_LEASE).state is Lease.OURS
    return leases


def held(leases: Leases) -> bool:
    """Whether we may write."""
    try:
        return leases.seconds_left() > 0
    except LeaseLost:
        return False


def test_an_absent_lease_is_created_for_a_minute(cluster: MemoryStore, clock: Clock) -> None:
    """It names us, says 60 seconds, and has times of six fraction digits."""
    leases = leases_of(cluster, clock)
    assert leases.look(OWN_LEASE).state is Lease.FREE
    leases.take(OWN_LEASE)
    spec = spec_of(cluster)
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("we_1", DURATION, 0)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", spec["renewTime"])
    assert leases.seconds_left() == HOLD


@pytest.mark.parametrize("holder", ["", PARKED])
def test_a_released_or_parked_lease_is_taken_at_once(cluster: MemoryStore, clock: Clock, holder: str) -> None:
    """Nobody holds it, so nobody is waited for; one transition more."""
    put_lease(cluster, holder, seconds=3600, name=OPERATORS)
    leases = taken(cluster, clock)
    assert leases.look(OPERATORS).state is Lease.FREE
    leases.take(OPERATORS)
    assert leases.look(OPERATORS).state is Lease.OURS
    assert spec_of(cluster, OPERATORS)["leaseTransitions"] == 4


@pytest.mark.parametrize("skew", [timedelta(days=-400), timedelta(0), timedelta(days=400)])
@pytest.mark.parametrize("seconds", [15, 60])
def test_a_dead_holder_is_waited_out_by_our_clock(
    cluster: MemoryStore, clock: Clock, skew: timedelta, seconds: int
) -> None:
    """Whatever time it wrote, it gets its own duration since we first saw it so, and then its last request's time."""
    put_lease(cluster, "dead_1", seconds=seconds, renewed=START + skew)
    leases = leases_of(cluster, clock)
    assert leases.look(OWN_LEASE).state is Lease.HELD
    clock.advance(seconds - 0.1)
    assert leases.look(OWN_LEASE).state is Lease.HELD
    leases.take(OWN_LEASE)
    assert spec_of(cluster)["holderIdentity"] == "dead_1"
    clock.advance(0.2)
    assert leases.look(OWN_LEASE).state is Lease.FREE
    leases.take(OWN_LEASE)
    assert leases.look(OWN_LEASE).state is Lease.QUIET, "it is ours, and nothing may be written yet"
    assert not leases.holds(OWN_LEASE)
    for _ in range(4):
        clock.advance(QUIET / 4 + 0.01)
        leases.renew_if_due()
    assert leases.look(OWN_LEASE).state is Lease.OURS


def test_a_holder_that_moves_is_never_robbed(cluster: MemoryStore, clock: Clock) -> None:
    """Every movement starts the wait again."""
    put_lease(cluster, "operator_1")
    leases = leases_of(cluster, clock)
    for number in range(10):
        clock.advance(10)
        cluster.edit(LEASES, NAMESPACE, OWN_LEASE, lambda body, n=number: body["spec"].update(renewTime=f"later {n}"))
        assert leases.look(OWN_LEASE).state is Lease.HELD


def test_a_takeover_loses_to_a_holder_that_wakes_up_in_between(cluster: MemoryStore, clock: Clock) -> None:
    """Between our look and our swap the holder renewed: the swap fails, and the wait begins again."""
    put_lease(cluster, "slow_1")
    leases = leases_of(cluster, clock)
    leases.look(OWN_LEASE)
    clock.advance(20)
    cluster.meanwhile(
        lambda: cluster.edit(LEASES, NAMESPACE, OWN_LEASE, lambda body: body["spec"].update(renewTime="later")),
        verb="patch",
    )
    leases.take(OWN_LEASE)
    assert leases.look(OWN_LEASE).state is Lease.HELD
    assert not held(leases)


def test_a_create_that_loses_the_race_waits(cluster: MemoryStore, clock: Clock) -> None:
    """AlreadyExists means that somebody else holds it now."""
    cluster.meanwhile(lambda: put_lease(cluster, "fast_1"), verb="create")
    leases = leases_of(cluster, clock)
    leases.take(OWN_LEASE)
    assert leases.look(OWN_LEASE).holder == "fast_1"


def test_a_lease_that_is_deleted_while_held_is_waited_out(cluster: MemoryStore, clock: Clock) -> None:
    """Its holder may write until it next tries to renew."""
    put_lease(cluster, "operator_1")
    leases = leases_of(cluster, clock)
    leases.look(OWN_LEASE)
    clock.advance(14)
    cluster.drop(LEASES, NAMESPACE, OWN_LEASE)
    assert leases.look(OWN_LEASE).state is Lease.HELD
    clock.advance(14.9)
    assert leases.look(OWN_LEASE).state is Lease.HELD
    clock.advance(0.2)
    assert leases.look(OWN_LEASE).state is Lease.FREE


@pytest.mark.parametrize("verb", ["create", "patch"])
def test_a_lost_reply_to_the_acquisition_is_found_out(cluster: MemoryStore, clock: Clock, verb: str) -> None:
    """The Lease says our own term, so it is ours, counted from when it was asked for."""
    if verb == "patch":
        put_lease(cluster, "")
    cluster.lose_reply(verb=verb)
    leases = leases_of(cluster, clock)
    leases.take(OWN_LEASE)
    clock.advance(1)
    assert leases.look(OWN_LEASE).state is Lease.OURS
    assert leases.seconds_left() == HOLD - 1


def test_a_takeover_whose_reply_is_lost_keeps_quiet_too(cluster: MemoryStore, clock: Clock) -> None:
    """The dead holder's last request may still be under way, so nothing may be written at once."""
    put_lease(cluster, "dead_1")
    leases = leases_of(cluster, clock)
    leases.look(OWN_LEASE)
    clock.advance(15.1)
    cluster.lose_reply(verb="patch")
    leases.take(OWN_LEASE)
    assert leases.look(OWN_LEASE).state is Lease.QUIET
    clock.advance(QUIET)
    assert leases.look(OWN_LEASE).state is Lease.OURS


def test_a_namesake_is_somebody_else(cluster: MemoryStore, clock: Clock) -> None:
    """The same identity in a term that we did not write is not ours."""
    put_lease(cluster, "we_1")
    assert leases_of(cluster, clock).look(OWN_LEASE).state is Lease.HELD


def test_an_unreadable_lease_fails_closed(cluster: MemoryStore, clock: Clock) -> None:
    """What may not be read is not free."""
    cluster.fail(NotAuthorised("HTTP 403"), verb="get")
    with pytest.raises(NotAuthorised):
        leases_of(cluster, clock).look(OWN_LEASE)


def test_nothing_may_be_written_without_our_own_lease(cluster: MemoryStore, clock: Clock) -> None:
    """The operator's alone is not enough."""
    leases = leases_of(cluster, clock)
    leases.take(OPERATORS)
    with pytest.raises(LeaseLost):
        leases.seconds_left()


def test_renewals_keep_it_and_nothing_is_sent_before_one_is_due(cluster: MemoryStore, clock: Clock) -> None:
    """Every five seconds, whatever happens to the wall clock, the text moves."""
    leases = taken(cluster, clock)
    before = spec_of(cluster)["renewTime"]
    clock.advance(RENEW_EVERY - 0.1)
    leases.renew_if_due()
    assert spec_of(cluster)["renewTime"] == before
    for _ in range(40):
        clock.advance(RENEW_EVERY)
        leases.renew_if_due()
        assert leases.seconds_left() == pytest.approx(HOLD)
    assert spec_of(cluster)["renewTime"] != before


def test_a_lease_that_cannot_be_read_in_a_renewal_is_lost_with_its_hold(cluster: MemoryStore, clock: Clock) -> None:
    """A swap fails and the read after it too: nothing is known, so it stays ours until 40 seconds are over."""
    leases = taken(cluster, clock)
    clock.advance(RENEW_EVERY)
    cluster.lose_reply(verb="patch")
    leases.renew_if_due()
    cluster.fail(NotAuthorised("HTTP 403"), verb="get", times=1000)
    while clock() < 1000 + HOLD:
        assert held(leases)
        clock.advance(2.5)
        leases.renew_if_due()
    assert not held(leases)


def test_the_hold_ends_and_stays_ended(cluster: MemoryStore, clock: Clock) -> None:
    """A paused process has lost it when it wakes up, 40 seconds after the sending of its last renewal."""
    leases = taken(cluster, clock)
    clock.advance(HOLD - 0.1)
    assert held(leases)
    clock.advance(0.1)
    assert not held(leases)
    leases.renew_if_due()
    assert leases.look(OWN_LEASE).state is Lease.LOST
    assert not held(leases)


def test_the_hold_counts_from_the_sending_of_the_renewal(cluster: MemoryStore, clock: Clock) -> None:
    """A renewal that took four seconds is four seconds old when it is confirmed."""
    leases = taken(cluster, clock)
    clock.advance(RENEW_EVERY)
    cluster.meanwhile(lambda: clock.advance(4), verb="patch")
    leases.renew_if_due()
    assert leases.seconds_left() == HOLD - 4


def test_failed_renewals_are_tried_again_within_the_hold(cluster: MemoryStore, clock: Clock) -> None:
    """Several that hang or fail do not lose it; all of them do."""
    leases = taken(cluster, clock)
    cluster.fail(Unreachable("no answer"), verb="patch", times=8)
    for _ in range(14):
        clock.advance(2.5)
        leases.renew_if_due()
    assert leases.seconds_left() > HOLD - 3
    cluster.fail(Unreachable("no answer"), verb="patch", times=1000)
    for _ in range(20):
        clock.advance(2.5)
        leases.renew_if_due()
    assert not held(leases)


@pytest.mark.parametrize(("holder", "later", "transitions"), [("thief_1", 0, 0), ("we_1", 1, 0), ("we_1", 0, 1)])
def test_a_stolen_or_deleted_lease_is_lost_at_once(
    cluster: MemoryStore, clock: Clock, holder: str, later: int, transitions: int
) -> None:
    """Another term is another holder, whatever it calls itself; and of two Leases one is enough."""
    leases = taken(cluster, clock)
    leases.take(OPERATORS)
    acquired = datetime.fromisoformat(spec_of(cluster, OPERATORS)["acquireTime"])
    renewed = acquired + timedelta(seconds=later)
    put_lease(cluster, holder, name=OPERATORS, renewed=renewed, transitions=transitions)
    clock.advance(RENEW_EVERY)
    leases.renew_if_due()
    assert not held(leases)
    other = taken(MemoryStore(), clock)
    assert held(other)
    cluster.drop(LEASES, NAMESPACE, OWN_LEASE)
    clock.advance(RENEW_EVERY)
    leases.renew_if_due()
    assert leases.look(OWN_LEASE).state is Lease.LOST


def test_letting_go_leaves_what_client_go_leaves(cluster: MemoryStore, clock: Clock) -> None:
    """No holder, one second, transitions kept: a process that waits takes it at once."""
    leases = taken(cluster, clock)
    leases.take(OPERATORS)
    leases.release_all(park=False)
    for name in (OWN_LEASE, OPERATORS):
        spec = spec_of(cluster, name)
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("", 1, 0)
    assert not held(leases)


@pytest.mark.parametrize("ended", [False, True], ids=["killed", "parks"])
def test_parking_keeps_operators_out_and_lets_runs_in(cluster: MemoryStore, clock: Clock, *, ended: bool) -> None:
    """From when it is taken the operator's Lease names nobody that lives, for an hour; a rerun takes it at once."""
    leases = taken(cluster, clock)
    leases.take(OPERATORS)
    if ended:
        leases.release_all(park=True)
        assert spec_of(cluster)["holderIdentity"] == ""
    spec = spec_of(cluster, OPERATORS)
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == (PARKED, 3600)
    again = leases_of(cluster, clock, "again_1")
    if not ended:
        assert again.look(OWN_LEASE).state is Lease.HELD
        clock.advance(DURATION)
    again.take(OWN_LEASE)
    again.take(OPERATORS)
    for _ in range(not ended and 4):
        clock.advance(QUIET / 4)
        again.renew_if_due()
    assert again.holds(OWN_LEASE, OPERATORS)


def test_a_lease_that_was_lost_is_left_alone(cluster: MemoryStore, clock: Clock) -> None:
    """Its next holder's term is not ours to end; a failure to release one of ours, or its absence, is not an error."""
    leases = taken(cluster, clock)
    put_lease(cluster, "next_1")
    leases.release_all(park=False)
    assert spec_of(cluster)["holderIdentity"] == "next_1"
    other = MemoryStore()
    failing = taken(other, clock)
    other.fail(LostReply("no answer"), verb="patch", times=99)
    failing.release_all(park=False)
    deleted = taken(third := MemoryStore(), clock)
    third.drop(LEASES, NAMESPACE, OWN_LEASE)
    deleted.release_all(park=False)
    assert third.names(LEASES) == []


def test_the_thread_renews_and_ends(cluster: MemoryStore) -> None:
    """In the background, for as long as the Lease is held."""
    before = threading.active_count()
    leases = Leases(cluster, NAMESPACE, context_of(monotonic, lambda: datetime.now(UTC), repeat=periodically))
    leases.take(OWN_LEASE)
    assert threading.active_count() == before + 1
    leases.release_all(park=False)
    until = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() == before


@pytest.mark.parametrize("seed", range(20))
def test_writes_of_two_migrators_never_overlap(seed: int) -> None:
    """Whatever the order of their steps, and however long each is paused, at most one may write at any time."""
    chance = random.Random(seed)  # noqa: S311 - schedules, not secrets
    cluster, clock = MemoryStore(), Clock()
    contenders = [leases_of(cluster, clock, name) for name in ("first_1", "second_1")]
    writers = 0
    for _ in range(400):
        leases = chance.choice(contenders)
        clock.advance(chance.choice([0.1, 0.5, 1.0, 3.0]) if chance.random() < 0.97 else 50.0)
        if chance.random() < 0.6:
            leases.renew_if_due()
        seen = leases.look(OWN_LEASE)
        if seen.state is Lease.FREE:
            leases.take(OWN_LEASE)
        elif seen.state is Lease.LOST or chance.random() < 0.02:
            leases.release_all(park=False)
        able = [other for other in contenders if held(other) and clock() >= other.quiet_until]
        writers += bool(able)
        assert len(able) <= 1
    assert writers > 20
