"""Who may write: taking, keeping and losing a Lease on a clock that only the test moves."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from migrator.errors import LeaseLost, LostRace, LostReply, NotAuthorised, Unreachable
from migrator.resources import LEASES
from migrator.run.fence import Fence, monotonic
from migrator.run.lease import utc_now
from tests.support.small_cluster import START, Clock, SmallCluster

NAMESPACE, NAME = "grove-system", "grove-operator-leader-election"
DURATION, REQUEST = 15.0, 10.0


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def cluster() -> SmallCluster:
    """A cluster without any Lease."""
    return SmallCluster()


def fence_of(cluster: SmallCluster, clock: Clock, identity: str = "we_1", **options: Any) -> Fence:
    """A fence without a thread, kept alive by the sleeps of its owner."""
    return Fence(
        cluster,
        namespace=NAMESPACE,
        name=NAME,
        duration=options.pop("duration", DURATION),
        identity=identity,
        request_timeout=REQUEST,
        clock=clock,
        sleep=clock.sleep,
        now=options.pop("now", clock.now),
        threaded=False,
        **options,
    )


def put_lease(cluster: SmallCluster, holder: str, *, seconds: int = 15, renewed: datetime = START) -> None:
    """A Lease as client-go writes it."""
    moment = renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": seconds,
        "acquireTime": moment,
        "renewTime": moment,
        "leaseTransitions": 3,
    }
    cluster.add(LEASES, {"metadata": {"namespace": NAMESPACE, "name": NAME}, "spec": spec})


def spec_of(cluster: SmallCluster) -> dict[str, Any]:
    """The Lease's spec as it stands."""
    spec: dict[str, Any] = cluster.read(LEASES, NAMESPACE, NAME)["spec"]
    return spec


def renewing(cluster: SmallCluster, clock: Clock, *, every: float) -> Callable[[float], None]:
    """A foreign holder that lives: it renews whenever the clock has moved far enough."""
    last = [clock()]

    def renew(_seconds: float) -> None:
        if clock() - last[0] >= every:
            last[0] = clock()
            text = clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            cluster.edit(LEASES, NAMESPACE, NAME, lambda body: body["spec"].update(renewTime=text))

    return renew


def test_creates_a_lease_that_does_not_exist(cluster: SmallCluster, clock: Clock) -> None:
    """An absent Lease is created with our identity, the whole duration and times of six fraction digits."""
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    spec = spec_of(cluster)
    assert spec["holderIdentity"] == "we_1"
    assert spec["leaseDurationSeconds"] == 15
    assert spec["leaseTransitions"] == 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", spec["renewTime"])
    assert spec["acquireTime"] == spec["renewTime"]
    assert fence.held
    assert clock.slept == []


def test_a_duration_below_a_second_is_rounded_up(cluster: SmallCluster, clock: Clock) -> None:
    """What we write is never shorter than what we rely on, and never the zero that the API refuses."""
    fence_of(cluster, clock, duration=0.4).acquire(clock() + 60)
    assert spec_of(cluster)["leaseDurationSeconds"] == 1


def test_a_released_lease_is_taken_at_once(cluster: SmallCluster, clock: Clock) -> None:
    """An empty holder means free: no waiting, and one transition more."""
    put_lease(cluster, "", seconds=1)
    fence_of(cluster, clock).acquire(clock() + 60)
    assert spec_of(cluster)["holderIdentity"] == "we_1"
    assert spec_of(cluster)["leaseTransitions"] == 4
    assert clock.slept == []


@pytest.mark.parametrize("skew", [timedelta(days=-400), timedelta(0), timedelta(days=400)])
def test_a_dead_holder_is_waited_out_by_our_clock(cluster: SmallCluster, clock: Clock, skew: timedelta) -> None:
    """Whatever time the holder wrote, the wait is its full duration since we saw it, plus one request timeout."""
    put_lease(cluster, "dead_1", renewed=START + skew)
    began = clock()
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 120)
    assert clock() - began >= 15 + REQUEST
    assert clock() - began < 15 + REQUEST + 2
    assert spec_of(cluster)["holderIdentity"] == "we_1"
    assert fence.held


def test_the_holders_own_duration_counts(cluster: SmallCluster, clock: Clock) -> None:
    """A holder that promised 40 seconds gets 40, though ours are 15."""
    put_lease(cluster, "dead_1", seconds=40)
    began = clock()
    fence_of(cluster, clock).acquire(clock() + 120)
    assert clock() - began >= 40 + REQUEST


def test_the_lease_is_ours_before_the_quiet_time_and_kept_during_it(cluster: SmallCluster, clock: Clock) -> None:
    """While a dead holder's request may still land, nobody else can take the Lease either."""
    put_lease(cluster, "dead_1")
    fence = fence_of(cluster, clock)
    seen: list[tuple[str, str]] = []
    clock.on_sleep.append(lambda _: seen.append((spec_of(cluster)["holderIdentity"], spec_of(cluster)["renewTime"])))
    fence.acquire(clock() + 120)
    ours = [renewed for holder, renewed in seen if holder == "we_1"]
    assert len(set(ours)) > 1


def test_an_interrupted_wait_lets_go(cluster: SmallCluster, clock: Clock) -> None:
    """Whatever ends the quiet time early, the Lease does not stay with somebody who will not use it."""
    put_lease(cluster, "dead_1")

    def interrupt(_seconds: float) -> None:
        if spec_of(cluster)["holderIdentity"] == "we_1":
            raise KeyboardInterrupt

    clock.on_sleep.append(interrupt)
    fence = fence_of(cluster, clock)
    with pytest.raises(KeyboardInterrupt):
        fence.acquire(clock() + 120)
    assert spec_of(cluster)["holderIdentity"] == ""
    assert not fence.held


def test_a_lease_lost_in_the_quiet_time_is_not_acquired(cluster: SmallCluster, clock: Clock) -> None:
    """An API server that goes away between taking over and the first write ends in LeaseLost."""
    put_lease(cluster, "dead_1")

    cluster.inject(
        lambda: Unreachable("connection refused"),
        when=lambda request: request.verb == "patch" and spec_of(cluster)["holderIdentity"] == "we_1",
        times=1000,
    )
    fence = Fence(
        cluster,
        namespace=NAMESPACE,
        name=NAME,
        duration=DURATION,
        identity="we_1",
        request_timeout=60.0,
        clock=clock,
        sleep=clock.sleep,
        now=clock.now,
        threaded=False,
    )
    with pytest.raises(LeaseLost):
        fence.acquire(clock() + 120)


def test_a_living_holder_is_never_robbed(cluster: SmallCluster, clock: Clock) -> None:
    """A Lease that moves is held, however old its times look; the deadline ends the wait and names the holder."""
    put_lease(cluster, "operator_1", renewed=START - timedelta(days=1))
    clock.on_sleep.append(renewing(cluster, clock, every=2))
    with pytest.raises(LostRace, match="operator_1"):
        fence_of(cluster, clock).acquire(clock() + 100)
    assert spec_of(cluster)["holderIdentity"] == "operator_1"
    assert cluster.writes() == []


def test_a_holder_that_dies_while_we_wait_is_waited_out_from_its_last_renewal(
    cluster: SmallCluster, clock: Clock
) -> None:
    """Every movement starts the wait again."""
    put_lease(cluster, "operator_1")
    renew = renewing(cluster, clock, every=2)
    died = clock() + 30
    clock.on_sleep.append(lambda seconds: renew(seconds) if clock() < died else None)
    fence_of(cluster, clock).acquire(clock() + 200)
    assert clock() >= died - 2 + 15 + REQUEST


def test_a_takeover_loses_to_a_holder_that_wakes_up_in_between(cluster: SmallCluster, clock: Clock) -> None:
    """Between our last look and our swap the holder renewed: the swap fails, and the wait begins again."""
    put_lease(cluster, "slow_1")
    woken: list[float] = []

    def wake() -> None:
        woken.append(clock())
        cluster.edit(LEASES, NAMESPACE, NAME, lambda body: body["spec"].update(renewTime="later"))

    cluster.meanwhile(wake, verb="patch")
    fence_of(cluster, clock).acquire(clock() + 200)
    assert clock() - woken[0] >= 15 + REQUEST


def test_of_two_contenders_one_gets_it(cluster: SmallCluster, clock: Clock) -> None:
    """A second migrator cannot take what the first holds and renews."""
    first, second = fence_of(cluster, clock, "first_1"), fence_of(cluster, clock, "second_1")
    first.acquire(clock() + 60)
    clock.on_sleep.append(lambda _: first.renew_if_due())
    with pytest.raises(LostRace, match="first_1"):
        second.acquire(clock() + 60)
    assert first.held
    assert not second.held


def test_a_create_that_loses_the_race_waits(cluster: SmallCluster, clock: Clock) -> None:
    """AlreadyExists means that somebody else holds it now."""
    cluster.meanwhile(lambda: put_lease(cluster, "fast_1"), verb="create")
    began = clock()
    fence_of(cluster, clock).acquire(clock() + 120)
    assert clock() - began >= 15 + REQUEST


def test_a_lease_that_is_deleted_while_held_is_waited_out(cluster: SmallCluster, clock: Clock) -> None:
    """Its holder may write until it next tries to renew: we take the Lease, and keep quiet for all that time."""
    put_lease(cluster, "operator_1")
    renew = renewing(cluster, clock, every=2)
    deleted = clock() + 20

    def delete(seconds: float) -> None:
        if clock() < deleted:
            renew(seconds)
        elif "operator_1" in str(cluster.list(LEASES, lambda raw: raw).items):
            cluster.drop(LEASES, NAMESPACE, NAME)

    clock.on_sleep.append(delete)
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 120)
    assert clock() >= deleted + 15 + REQUEST
    assert fence.held


def test_a_namesake_is_a_stranger(cluster: SmallCluster, clock: Clock) -> None:
    """A Lease that carries our identity but was not written by us is waited out like any other."""
    put_lease(cluster, "we_1")
    began = clock()
    fence_of(cluster, clock).acquire(clock() + 120)
    assert clock() - began >= 15 + REQUEST


@pytest.mark.parametrize("verb", ["create", "patch"])
def test_a_lost_reply_to_the_acquisition_is_found_out(cluster: SmallCluster, clock: Clock, verb: str) -> None:
    """A term of our own that was written after all is recognised, not waited out."""
    if verb == "patch":
        put_lease(cluster, "", seconds=1)
    cluster.lose_reply(verb=verb)
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    assert fence.held
    assert sum(clock.slept) < 2


def test_an_acquisition_that_never_gets_an_answer_ends(cluster: SmallCluster, clock: Clock) -> None:
    """Lost replies are bounded by the deadline."""
    cluster.fail(lambda: LostReply("no reply"), verb="create", times=1000)
    with pytest.raises(LostRace, match="in time"):
        fence_of(cluster, clock).acquire(clock() + 30)


def test_an_unreadable_lease_fails_closed(cluster: SmallCluster, clock: Clock) -> None:
    """Without the right to read the Lease there is no fence."""
    cluster.fail(lambda: NotAuthorised("leases is forbidden"), verb="get")
    with pytest.raises(NotAuthorised):
        fence_of(cluster, clock).acquire(clock() + 30)


def test_check_fails_before_the_first_acquisition(cluster: SmallCluster, clock: Clock) -> None:
    """A fence holds nothing until it is acquired."""
    fence = fence_of(cluster, clock)
    assert not fence.held
    with pytest.raises(LeaseLost, match="never acquired"):
        fence.check()


def test_renewals_keep_it(cluster: SmallCluster, clock: Clock) -> None:
    """Renewing at a third of the duration holds the Lease as long as one likes, and moves renewTime only."""
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    before = spec_of(cluster)
    for _ in range(20):
        clock.advance(5)
        fence.renew_if_due()
        fence.check()
    after = spec_of(cluster)
    assert after["renewTime"] > before["renewTime"]
    assert {**after, "renewTime": ""} == {**before, "renewTime": ""}


def test_nothing_is_sent_before_a_renewal_is_due(cluster: SmallCluster, clock: Clock) -> None:
    """Renewals come at a third of the duration, not with every question."""
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    sent = len(cluster.requests)
    clock.advance(4.9)
    fence.renew_if_due()
    fence.check()
    assert len(cluster.requests) == sent


def test_renew_time_moves_even_if_the_wall_clock_stands(cluster: SmallCluster, clock: Clock) -> None:
    """Contenders see that we live by the text changing, so it changes though our wall clock was set back."""
    wall = iter([START, START, START - timedelta(hours=1), START - timedelta(hours=2)])
    fence = fence_of(cluster, clock, now=lambda: next(wall))
    fence.acquire(clock() + 60)
    seen = {spec_of(cluster)["renewTime"]}
    for _ in range(3):
        clock.advance(5)
        fence.renew_if_due()
        seen.add(spec_of(cluster)["renewTime"])
    assert len(seen) == 4


def test_the_hold_ends_at_two_thirds_of_the_duration(cluster: SmallCluster, clock: Clock) -> None:
    """Well before anybody else may take it, check refuses; nothing is asked of the cluster for that."""
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    sent = len(cluster.requests)
    clock.advance(9.99)
    fence.check()
    clock.advance(0.02)
    with pytest.raises(LeaseLost, match="nothing more may be written"):
        fence.check()
    assert len(cluster.requests) == sent


def test_the_hold_counts_from_the_sending_of_the_renewal(cluster: SmallCluster, clock: Clock) -> None:
    """A reply that took 4 seconds leaves 6 of the 10, because a contender may have seen the renewal early."""
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    clock.advance(5)
    cluster.after.append(lambda _: clock.advance(4))
    fence.renew_if_due()
    cluster.after.clear()
    clock.advance(5.9)
    fence.check()
    clock.advance(0.2)
    assert not fence.held


def test_a_paused_process_has_lost_it_when_it_wakes_up(cluster: SmallCluster, clock: Clock) -> None:
    """After a pause neither check nor the renewer revives the hold, though nobody has taken the Lease."""
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    clock.advance(3600)
    writes = len(cluster.writes())
    assert fence._renew().name == "LOST"
    assert not fence.held
    clock.seconds -= 3600  # no clock does this; what is lost must stay lost all the same
    assert not fence.held
    assert len(cluster.writes()) == writes


def test_failed_renewals_are_tried_again_within_the_hold(cluster: SmallCluster, clock: Clock) -> None:
    """An API server that is away for less than the hold costs nothing."""
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    cluster.fail(lambda: Unreachable("connection refused"), verb="patch", times=3)
    clock.advance(5)
    for _ in range(4):
        fence.renew_if_due()
        clock.advance(1)
    clock.advance(8.5)
    fence.check()


def test_failed_renewals_lose_it_after_the_hold(cluster: SmallCluster, clock: Clock) -> None:
    """An API server that stays away ends the hold in time."""
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    cluster.fail(lambda: Unreachable("connection refused"), verb="patch", times=100)
    for _ in range(5):
        clock.advance(2)
        fence.renew_if_due()
    assert not fence.held


def test_a_lost_reply_to_a_renewal_is_found_out(cluster: SmallCluster, clock: Clock) -> None:
    """The next renewal meets its own predecessor's version, reads it, and goes on."""
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    cluster.lose_reply(verb="patch")
    clock.advance(5)
    fence.renew_if_due()
    clock.advance(1)
    fence.renew_if_due()
    clock.advance(9)
    fence.check()


def test_an_annotated_lease_is_still_ours(cluster: SmallCluster, clock: Clock) -> None:
    """Somebody else's change beside the spec moves the version, not the holder."""
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    cluster.edit(LEASES, NAMESPACE, NAME, lambda body: body["metadata"].update(annotations={"a": "b"}))
    clock.advance(5)
    fence.renew_if_due()
    clock.advance(9)
    fence.check()


@pytest.mark.parametrize("holder", ["thief_1", ""])
def test_a_stolen_lease_is_lost_at_once(cluster: SmallCluster, clock: Clock, holder: str) -> None:
    """Another holder, or one that has come and gone, ends the hold at the next renewal."""
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    cluster.edit(LEASES, NAMESPACE, NAME, lambda body: body["spec"].update(holderIdentity=holder, leaseTransitions=9))
    clock.advance(5)
    fence.renew_if_due()
    with pytest.raises(LeaseLost, match="taken over"):
        fence.check()
    assert spec_of(cluster)["holderIdentity"] == holder


def test_a_deleted_lease_is_lost(cluster: SmallCluster, clock: Clock) -> None:
    """Whoever deletes the Lease lets others create it, so it is ours no more."""
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    cluster.drop(LEASES, NAMESPACE, NAME)
    clock.advance(5)
    fence.renew_if_due()
    with pytest.raises(LeaseLost, match="deleted"):
        fence.check()
    assert cluster.names(LEASES) == []


def test_a_lost_lease_can_be_acquired_again(cluster: SmallCluster, clock: Clock) -> None:
    """To revert after a loss: an unchanged term of our own is renewed at once, a foreign one is waited out."""
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    clock.advance(20)
    assert not fence.held
    began = clock()
    fence.acquire(clock() + 60)
    assert fence.held
    assert clock() == began


def test_release_leaves_what_client_go_leaves(cluster: SmallCluster, clock: Clock) -> None:
    """No holder, one second, transitions kept; the next contender need not wait, and we hold nothing."""
    put_lease(cluster, "", seconds=1)
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    fence.release()
    spec = spec_of(cluster)
    assert spec["holderIdentity"] == ""
    assert spec["leaseDurationSeconds"] == 1
    assert spec["leaseTransitions"] == 4
    assert not fence.held
    fence_of(cluster, clock, "next_1").acquire(clock() + 60)
    assert clock.slept == []


def test_release_without_a_lease_sends_nothing(cluster: SmallCluster, clock: Clock) -> None:
    """There is nothing to let go of before the first acquisition, nor twice."""
    fence = fence_of(cluster, clock)
    fence.release()
    assert cluster.requests == []
    fence.acquire(clock() + 60)
    fence.release()
    sent = len(cluster.requests)
    fence.release()
    assert len(cluster.requests) == sent


def test_release_does_not_touch_a_lease_that_was_lost(cluster: SmallCluster, clock: Clock) -> None:
    """A stolen Lease stays the thief's."""
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    cluster.edit(LEASES, NAMESPACE, NAME, lambda body: body["spec"].update(holderIdentity="thief_1"))
    fence.release()
    assert spec_of(cluster)["holderIdentity"] == "thief_1"


def test_release_survives_a_renewal_whose_reply_was_lost(cluster: SmallCluster, clock: Clock) -> None:
    """The version moved by our own hand, so the release is swapped in on the one that stands."""
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    cluster.lose_reply(verb="patch")
    clock.advance(5)
    fence.renew_if_due()
    fence.release()
    assert spec_of(cluster)["holderIdentity"] == ""


def test_a_failing_release_raises_nothing(cluster: SmallCluster, clock: Clock) -> None:
    """All that it costs is the next holder's wait."""
    fence = fence_of(cluster, clock)
    fence.acquire(clock() + 60)
    cluster.fail(lambda: Unreachable("connection refused"), verb="patch", times=100)
    fence.release()
    assert not fence.held


def test_the_thread_renews_and_stops() -> None:
    """With real clocks, a daemon thread keeps a Lease of 2.4 s, and release ends it."""
    cluster = SmallCluster()
    others = set(threading.enumerate())  # runs that other tests have killed leave theirs behind
    fence = Fence(
        cluster, namespace=NAMESPACE, name=NAME, duration=2.4, identity="we_1", request_timeout=0.1, clock=monotonic
    )
    fence.acquire(monotonic() + 5)
    renewed = threading.Event()
    cluster.after.append(lambda _: renewed.set() if len(cluster.writes(LEASES)) >= 3 else None)
    assert renewed.wait(30)
    threads = [thread for thread in set(threading.enumerate()) - others if thread.name == "lease-renewal"]
    assert [thread.daemon for thread in threads] == [True]
    fence.release()
    assert not any(thread.is_alive() for thread in threads)
    assert spec_of(cluster)["holderIdentity"] == ""


def test_the_thread_ends_when_the_lease_is_stolen() -> None:
    """Nothing renews a Lease that is somebody else's, and check says so."""
    cluster = SmallCluster()
    fence = Fence(cluster, namespace=NAMESPACE, name=NAME, duration=2.4, identity="we_1", request_timeout=0.1)
    fence.acquire(monotonic() + 5)
    cluster.edit(LEASES, NAMESPACE, NAME, lambda body: body["spec"].update(holderIdentity="thief_1"))
    until = time.monotonic() + 30
    while fence.held and time.monotonic() < until:
        time.sleep(0.01)
    with pytest.raises(LeaseLost, match="taken over"):
        fence.check()
    assert spec_of(cluster)["holderIdentity"] == "thief_1"


def test_utc_now_is_aware() -> None:
    """Records carry UTC."""
    assert utc_now().utcoffset() == timedelta(0)
