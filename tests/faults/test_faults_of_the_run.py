"""Faults that were found in runs by hostile histories and by real operators; each has a number."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import pytest
from structlog import ReturnLogger, wrap_logger
from structlog.testing import LogCapture

from migrator import kinds
from migrator.errors import HALF_WAY, Forbidden, NotAuthorised, Rejected, Unreachable
from migrator.run.leases import OWN_LEASE, PARKED, RECORD
from migrator.run.leaving import UNREAD
from testbed import operator_installation as installation
from testbed.trees import Object
from tests.faults import cluster, users
from tests.faults.operators import ALPHA_9, would_roll
from tests.faults.process import (
    DONE,
    FAILED,
    REFUSED,
    STUCK,
    Ending,
    Step,
    do_at,
    forbidding,
    kill_at,
    raising,
    when,
)
from tests.faults.steps import finished, first, killed, of_trees, steps, writes_to_sets
from tests.faults.world import LONGER_THAN_A_LEASE, World
from tests.support.memory_objects import timestamp
from tests.support.tables import table

OUTAGE = partial(Unreachable, "HTTP 503, at every request")


# --- what cannot be read is not known --------------------------------------------------------------------------------


def test_sets_that_have_all_disappeared_were_not_read() -> None:
    """One empty list, though the record has sets: a revert does not end with 0 and leave everything migrated."""
    world = killed(5)
    sets = world.store.everything(kinds.POD_CLIQUE_SETS)

    def vanish(step: Step) -> None:
        for pcs in sets:
            if step.moment == "before":
                world.store.drop(kinds.POD_CLIQUE_SETS, "default", pcs["metadata"]["name"], cascade=False)
            else:
                world.store.put(pcs)

    lists = when(lambda step: step.kind == "read" and step.target == "podcliquesets/", vanish)
    world.start(at=lists).run(revert=True, code=STUCK)
    assert world.replicas == 0


def test_an_operator_that_the_last_look_sees_is_kept_out() -> None:
    """The old operator is started after the last write to a set, and a look sees it: it is stopped again, and 0."""
    for number in range(of_trees()[-1].number + 1, steps("forward")[-1].number + 1):
        world, looks = World(), list[Step]()

        def at(step: Step, world: World = world, looks: list[Step] = looks, number: int = number) -> None:
            if (step.number, step.moment) == (number, "before"):
                world.deploy(replicas=1)
            looks += [step] if step.number >= number and step.target.startswith("deployments/") else []

        ending = world.start(at=at).run(code=None)
        assert not looks or (ending.code, world.holder, world.replicas) == (DONE, "", 0), (number, str(ending))


@table(
    "target error code",
    ("N3: the record cannot be read in an outage.", (f"leases/{OWN_LEASE}", OUTAGE, STUCK)),
    ("N4: the very first request fails.", ("", OUTAGE, STUCK)),
    ("The token is void: nothing was read.", ("", partial(NotAuthorised, "HTTP 401"), FAILED)),
    ("The permission is missing.", (f"leases/{OWN_LEASE}", partial(Forbidden, "HTTP 403"), FAILED)),
)
@pytest.mark.parametrize("times", [1, 10**6], ids=["once", "always"])
def test_a_rerun_that_cannot_read_knows_nothing(
    target: str, error: Callable[[], Exception], times: int, code: int
) -> None:
    """A rerun of half-written sets meets an error before it has seen them: 0 if it gets over it, else the advice."""
    world = killed(5)
    fails = when(lambda step: step.target == target or not target, raising(error), times=times)
    ending = world.run(fails, code=(DONE, STUCK, code))
    assert ending.code == DONE or str(ending).endswith(HALF_WAY if times == 1 else UNREAD)


@pytest.mark.parametrize("state", [None, "none", "other", "sleeping"])
def test_a_damaged_record_proves_a_run(state: str | None) -> None:
    """A record of half-written sets that is no JSON, or in a state that no run writes: 6, and nothing is written."""
    world = killed(5)

    def damage(body: Object) -> None:
        text = json.loads(world.record)
        body["metadata"]["annotations"][RECORD] = json.dumps(text | {"state": state}) if state else "{"

    world.store.edit(kinds.LEASES, cluster.NAMESPACE, OWN_LEASE, damage)
    found = world.grove()
    world.run(kill_at(100, "before"), code=STUCK)
    assert world.grove() == found


# --- what a run leaves when it is killed -----------------------------------------------------------------------------


def test_a_killed_run_keeps_operators_out_for_an_hour() -> None:
    """Killed in mid-write, an operator that is started waits for an hour; a rerun needs no more than the own Lease."""
    world = killed(5)
    awake = list[str]()
    world.on_awake = awake.append
    world.deploy(replicas=1)
    for _ in range(330):
        world.advance(10)
    assert awake == []
    world.deploy(replicas=0)
    begun = world.seconds
    world.run()
    assert world.grove() == world.after
    assert world.seconds - begun < 150


def test_the_wait_after_a_takeover_is_explained() -> None:
    """After a kill the rerun says that it waits for late writes of the dead run, and not for itself."""
    world, said = killed(5), LogCapture()
    rerun = world.start(log=wrap_logger(ReturnLogger(), processors=[said]))
    rerun.run()
    events = [str(event) for event in said.entries]
    assert not [event for event in events if f"held by {rerun.name}" in event]
    assert any("15 s for late writes of a Lease's last holder" in event for event in events)


# --- what others do --------------------------------------------------------------------------------------------------


def test_the_expected_downtime_is_the_plans() -> None:
    """A gang that would be ended in 8 minutes does not refuse a run of seconds; one in 4 minutes does."""
    for minutes, code in ((4, REFUSED), (8, DONE)):
        world = World()
        delay = {"terminationDelay": f"{minutes}m0s"}
        world.edit("web", lambda pcs, delay=delay: pcs["spec"]["template"].update(delay))
        users.breach(world, "web", world.now())
        world.run(code=code)


@table(
    "begins code stopped",
    ("From the beginning: three stops in all, then 3, and nothing was written.", (0, REFUSED, 3)),
    ("From the first write to a pod on: three stops too, then 6: it waits for its Lease.", (first("pods"), STUCK, 3)),
)
def test_a_controller_that_scales_the_operator_up_is_named(begins: int, code: int, stopped: int) -> None:
    """Something restores the operator's replicas each time: the run ends with the advice to pause it."""
    world = World()
    process = world.start(at=users.restores(world, begins=begins))
    ending = process.run(code=code)
    assert users.stops(process.writes) == stopped
    assert "pause it" in str(ending)
    assert world.lies(ending) == []


@table(
    "was image another code replicas",
    (
        "Another registry, the same release: it gets its replicas.",
        (cluster.OLD_IMAGE, f"mirror.test/{cluster.OLD_IMAGE}", False, 3, 1),
    ),
    ("Another release: left at zero.", (cluster.OLD_IMAGE, installation.image("v0.1.0-alpha.8"), False, STUCK, 0)),
    ("A tag that is no release: left at zero.", (cluster.OLD_IMAGE, installation.image("nightly"), False, STUCK, 0)),
    ("And as little as the one before.", (installation.image("mine"), installation.image("nightly"), False, STUCK, 0)),
    ("Another Deployment of that name: left at zero.", (cluster.OLD_IMAGE, cluster.OLD_IMAGE, True, STUCK, 0)),
)
def test_an_operator_that_was_changed_meanwhile(
    was: str, image: str, code: int, replicas: int, *, another: bool
) -> None:
    """The run is refused behind the fence, and the Deployment is not the one that it stopped."""
    world = World()
    world.upgrade(was)

    def change(_: Step) -> None:
        world.deploy(replicas=0, image=image, anew=another)
        users.act(world, "edit", 0, 2)  # so that the run is refused

    ending = world.run(do_at(first("deployments", "scale"), "after", change), code=code)
    assert world.replicas == replicas
    assert replicas or f"not the one that was stopped ({was})" in str(ending), str(ending)


INVALID = Rejected("status.x: Invalid value")
DENIED = Rejected("denied the request", denied_by="policy.example.test")


@table(
    "kind subresource error said",
    ("A rule rejects statuses of PodCliques.", ("podcliques", "status", INVALID, "Invalid")),
    ("A policy that is not Grove's authorizer denies labels of pods.", ("pods", "", DENIED, "policy.example.test")),
    ("The chart's policy keeps an operator with four replicas.", ("deployments", "scale", DENIED, "GM-202: a dry run")),
    ("A policy denies Leases.", ("leases", "", DENIED, "policy.example.test")),
)
def test_a_patch_that_is_certain_to_be_rejected_is_found_before_the_stop(
    kind: str, subresource: str, error: Rejected, said: str
) -> None:
    """Exit 3, and the operator was never stopped."""

    def at(step: Step) -> None:
        found = step.target.split("/")
        if step.kind != "read" and (found[0], "".join(found[2:])) == (kind, subresource):
            raise error

    world = World()
    process = world.start(at=at)
    ending = process.run(code=REFUSED)
    assert users.stops(process.writes) == 0
    assert world.lies(ending) == []
    assert said in str(ending)
    assert "authorizer" not in str(ending)
    assert getattr(ending.error, "details", {}).get("guard") == ("GM-202" if error is DENIED else None)


def test_a_webhook_that_denies_every_kind_is_named_once() -> None:
    """The last line of a log has one sentence about it, not one for each kind of object."""
    denies = when(lambda step: step.kind == "dry run" and "/" in step.target, raising(lambda: DENIED))
    assert str(World().run(denies, code=REFUSED)).count("denied the request") == 1


def test_the_right_to_give_a_lease_back_is_proven_though_it_does_not_exist_yet() -> None:
    """Who may create the operator's Lease and not patch it would leave it parked for good: nothing is touched."""
    world = World(elects=False)
    process = world.start(at=forbidding(lambda step: (step.verb, step.target) == ("patch", f"leases/{cluster.LEASE}")))
    ending = process.run(code=FAILED)
    assert process.writes == []
    assert world.replicas == 1
    assert f"patch leases.coordination.k8s.io grove-system/{cluster.LEASE}" in str(ending)


def test_a_revert_proves_first_that_it_may_give_the_operator_its_replicas_back() -> None:
    """Otherwise every hash is old again, and the operator stays at zero with exit code 6."""
    world = finished()
    ending = world.run(forbidding(lambda step: step.target.endswith("/scale")), revert=True, code=FAILED)
    assert world.grove() == world.after
    assert "patch deployments.apps/scale" in str(ending)


def test_a_denial_that_is_a_sentence_of_its_own_ends_with_one_full_stop() -> None:
    """A webhook's text is quoted in the sentence that says why a Lease is not given back."""
    world = World()
    unparks = when(
        lambda step: step.write > 0 and step.target.endswith(cluster.LEASE) and world.grove() == world.after,
        raising(lambda: Rejected("not allowed.")),
    )
    assert "not allowed. The operator's Lease is parked" in str(world.run(unparks, code=None))


def test_a_lease_that_this_run_has_parked_is_not_nothing() -> None:
    """A void token right after that, beside an operator at zero: whoever starts it would wait an hour for the Lease."""
    world = World(cluster.grown(), replicas=0)
    void = raising(lambda: NotAuthorised("HTTP 401"))
    world.run(when(lambda step: step.moment == "before" and world.holder == PARKED, void), code=STUCK)
    assert world.holder == PARKED


def test_a_revert_needs_no_right_to_start_an_operator_that_it_leaves_at_zero() -> None:
    """Its Deployment was deleted and made anew, so what the run had stopped is not there, and nothing is scaled."""
    world = finished()
    world.deploy(replicas=0, anew=True)
    world.run(forbidding(lambda step: step.target.endswith("/scale")), revert=True)


def test_an_operator_without_leader_election_is_stopped_before_it_acts() -> None:
    """It is scaled up in mid-write: seen and stopped within 2 seconds, and the run ends with 0; it had warned of it."""
    world, said, warned, acted = World(elects=False), LogCapture(), list[bool](), list[str]()
    world.latency = 0.05  # as in practice
    world.on_awake = lambda image: acted.append(image) if world.grove() != world.before else None

    def at(step: Step) -> None:
        if step.resource == kinds.DEPLOYMENTS and not warned:
            warned.append("leader election" in str(said.entries))
        do_at(first("pods"), "after", lambda _: world.deploy(replicas=1))(step)

    world.start(at=at, log=wrap_logger(ReturnLogger(), processors=[said])).run()
    assert acted == []
    assert warned == [True]
    assert world.replicas == 0
    assert world.grove() == world.after


def test_an_operator_without_leader_election_that_cannot_be_stopped_undoes_everything() -> None:
    """Something starts it again each time: everything is restored, 3, but for a pod that it has deleted."""
    world, lost = World(elects=False), list[str]()

    def delete(_image: str) -> None:
        if not lost and world.grove() != world.before:
            lost.append(next(name for kind, _, name in world.grove() if kind == "Pod"))
            world.store.drop(kinds.PODS, "default", lost[0])

    world.on_awake = delete
    world.start(at=users.restores(world, begins=first("pods"))).run(code=REFUSED)
    assert world.grove() == {key: item for key, item in world.undone.items() if key[2] not in lost}
    assert lost


def test_a_rerun_beside_the_targets_operator_ends_well() -> None:
    """A run was killed, somebody upgraded, and no Lease keeps that operator out: 0; only writes need it stopped."""
    for number in range(len(of_trees())):
        world = killed(number, World(elects=False))
        world.upgrade()
        world.operate(cluster.TARGET)
        process = world.start()
        process.run()
        assert process.wrote or (users.stops(process.writes), world.replicas) == (0, 1)


# --- what users do at any write --------------------------------------------------------------------------------------


#: A user writes a hash on a pod of disagg.
mark: Final = partial(users.act, kind="mark", choice=0, number=1)


def among_writes(action: Callable[[World], object], whose: str, *, code: int = DONE) -> Iterator[tuple[World, Ending]]:
    """Runs in which a user acts on one set at a write, each before or after it: all other sets are migrated."""
    for step in writes_to_sets():
        world = World()
        ending = world.run(do_at(step.write, step.moment, lambda _, world=world: action(world)), code=code)
        found, wanted = (
            {key: item for key, item in objects.items() if cluster.set_of(item) != whose}
            for objects in (world.grove(), world.after)
        )
        assert found == wanted, (step.write, step.moment, str(ending))
        yield world, ending


def test_an_edit_is_never_blessed() -> None:
    """W2: an edit of a set that a run has begun ends with 6 and names it; after a revert only the edit costs pods."""

    def edit(world: World) -> None:
        world.edit("web", lambda pcs: cluster.edit(pcs, "router"))

    for world, ending in among_writes(edit, "web", code=STUCK):
        assert world.replicas == 0
        assert "default/web" in str(ending)
        world.advance(LONGER_THAN_A_LEASE)
        world.run(revert=True)
        lost = would_roll(world.grove(), cluster.SOURCE, ALPHA_9)
        assert {name for name in lost if name.startswith("web-0-frontend")} == set(), str(ending)


def test_a_scale_is_no_edit() -> None:
    """`kubectl scale`: 0, and every hash is the target's."""

    def scale(world: World) -> None:
        world.edit("web", lambda pcs: pcs["spec"].update(replicas=2))

    for world, _ in among_writes(scale, "web"):
        assert cluster.hashes(world.grove()) == cluster.hashes(world.after)


def test_a_set_that_is_being_deleted_is_left_alone() -> None:
    """`kubectl delete pcs`: 0, and even a user's hash in it is nobody's to prove."""

    def delete(world: World) -> None:
        stamp = {"deletionTimestamp": timestamp(world.now()), "generation": 2}  # the server moves the generation
        world.edit("disagg", lambda pcs: pcs["metadata"].update(stamp))
        mark(world)

    assert [*among_writes(delete, "disagg")]


def test_a_pod_that_is_deleted_by_hand_fails_no_check() -> None:
    """The next operator replaces it: `verify --after-upgrade` passes."""
    evict = partial(users.act, kind="evict", choice=3, number=1)
    for world, _ in among_writes(evict, "patient"):
        world.upgrade()
        assert world.operate(cluster.TARGET) == []
        world.start().verify()


def test_a_foreign_value_is_seen() -> None:
    """A user writes a hash on a pod of a set: 6, never 0, and the pod keeps it."""
    for world, _ in among_writes(mark, "disagg", code=STUCK):
        assert users.FOREIGN in str(world.grove())
