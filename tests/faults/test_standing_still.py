"""A process stands still between what it read and what it does with that (SIGSTOP, a laptop asleep); others act."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from migrator import kinds
from migrator.errors import STAY_AT_ZERO, Forbidden, Rejected
from migrator.run.leases import OWN_LEASE, PARKED
from testbed import operator_installation as installation
from tests.faults import cluster, users
from tests.faults.process import (
    DONE,
    FAILED,
    KILLED,
    NO_RECORD,
    REFUSED,
    STUCK,
    At,
    Ending,
    Step,
    forbidding,
    kill,
    when,
)
from tests.faults.steps import killed
from tests.faults.world import LONGER_THAN_A_LEASE, World
from tests.support.tables import table

Chosen = Callable[[Step], bool]

_LAST: Final = -1  # of the writes to Grove's objects


def reverts_at_the_lock(world: World, image: str = "") -> At:
    """All is new, our Lease is deleted, and while a run locks, a revert ends and somebody may start this operator."""
    world.store.drop(kinds.LEASES, cluster.NAMESPACE, OWN_LEASE)

    def revert(_: Step) -> None:
        world.run(revert=True, source=cluster.SOURCE)
        if image:
            world.upgrade(image)

    return when(lambda step: (step.write, step.moment) == (1, "before"), revert, times=1)


@pytest.mark.parametrize("image", ["", cluster.OLD_IMAGE], ids=["", "the old operator runs"])
def test_what_was_read_before_the_lock_is_no_success(image: str) -> None:
    """Only the operator's Lease was to be given back, and now every hash is old: that is not 0."""
    world = killed(_LAST)
    process = world.start(at=reverts_at_the_lock(world, image))
    process.run()
    assert process.wrote
    assert world.grove() == world.after


def test_nothing_to_do_is_said_only_without_the_record_of_a_run_that_died() -> None:
    """It stands still between operators and sets until another run has written all and died: it closes that."""
    world, endings = World(), list[Ending]()
    writes_last = when(lambda step: step.is_grove and step.moment == "after" and world.grove() == world.after, kill)
    reads_sets = when(
        lambda step: (step.target, step.moment) == ("podcliquesets/", "before"),
        lambda _: endings.append(world.run(writes_last, code=KILLED)),
        times=1,
    )
    world.run(reads_sets)
    assert endings
    assert world.record_state == "done"
    assert world.holder == ""


def test_a_lease_that_another_run_has_just_made_can_be_written() -> None:
    """It is made between our reading and our dry run of making it ourselves: that is no error."""
    world, endings = World(), list[Ending]()
    proves = when(
        lambda step: (step.kind, step.verb, step.target) == ("dry run", "create", f"leases/{OWN_LEASE}"),
        lambda _: endings.append(world.run()),
        times=1,
    )
    world.run(proves)
    assert endings


def test_a_closing_run_that_lost_its_lease_says_no_more_than_it_knows() -> None:
    """All was recorded as done, and a revert begins and dies: not that operators wait, but that sets may differ."""
    world = World()
    dies = when(lambda step: step.is_grove and step.moment == "after" and len(step.process.applied) > 12, kill)
    closes = when(
        lambda step: (step.verb, step.target, world.record_state) == ("get", f"leases/{cluster.LEASE}", "done"),
        lambda _: world.advance(LONGER_THAN_A_LEASE) or world.die(dies, revert=True),
        times=1,
    )
    ending = world.run(closes, code=STUCK)
    assert world.record_state == "writing"
    assert STAY_AT_ZERO in str(ending)


def _is_stopped(step: Step) -> bool:
    return step.write > 0 and (step.subresource, step.moment) == ("scale", "after")


@table(
    "acts dies",
    ("It has rolled every set out at once.", (lambda _step: True, False)),
    ("It rolls them out until it is gone: no set held a new hash when it was recorded.", (_is_stopped, False)),
    ("The run dies then.", (_is_stopped, True)),
)
def test_an_operator_that_was_installed_after_the_look_is_not_taken_for_the_old_one(
    acts: Chosen, *, dies: bool
) -> None:
    """It is the target's, and its tag names no release: a revert does not start it."""
    world, upgraded = World(cluster.grown()), installation.image("v0.1.0-alpha.13")

    def act(step: Step) -> None:
        world.operate(cluster.TARGET)
        if dies:
            kill(step)

    proves = when(lambda step: step.kind == "dry run", lambda _: world.upgrade(upgraded), times=1)
    rolls_out = when(lambda step: world.image == upgraded and acts(step), act, times=1)
    world.run(lambda step: (proves(step), rolls_out(step)), code=KILLED if dies else DONE)
    world.advance(LONGER_THAN_A_LEASE)
    world.run(revert=True)
    assert world.replicas == 0


def test_an_operator_of_another_image_that_waits_for_no_lease_is_stopped_before_the_sets_are_read() -> None:
    """It is installed as the run closes, and acts two seconds later: a reading first would be too long."""
    world, acted = World(elects=False), list[str]()
    world.latency = 0.1

    def install(_: Step) -> None:
        world.on_awake = acted.append
        world.deploy(replicas=1, image=installation.image("v0.1.0-alpha.8"))

    closes = when(
        lambda step: step.write > 0 and (step.moment, world.record_state) == ("after", "done"), install, times=1
    )
    world.run(closes)
    assert acted == []
    assert world.replicas == 0


def test_behind_the_lock_the_old_operator_is_no_target_either() -> None:
    """All was new, a revert ends and starts the operator: it is not started beside new hashes by its common tag."""
    world, latest = World(cluster.grown()), installation.image("latest")
    world.upgrade(latest)
    world.die(when(lambda step: step.is_grove and step.moment == "after" and world.grove() == world.after, kill))
    world.run(reverts_at_the_lock(world, latest), target_image=latest, code=NO_RECORD)
    assert world.grove() == world.before
    assert world.replicas == 1


def test_what_is_to_be_written_only_behind_the_lock_is_proven_there_before_the_stop() -> None:
    """All was new, a revert ends and starts the operator, and a policy denies patches: it is not stopped for that."""
    locks = reverts_at_the_lock(world := killed(_LAST), cluster.OLD_IMAGE)

    def at(step: Step) -> None:
        locks(step)
        if step.kind == "dry run" and step.target.startswith("pods/"):
            raise Rejected("denied the request", denied_by="policy.example.test")

    process = world.start(at=at)
    process.run(code=REFUSED)
    assert users.stops(process.writes) == 0
    assert world.replicas == 1


def test_a_refused_run_that_lost_its_lease_does_not_say_that_nothing_is_changed() -> None:
    """It has started the operator that a dead run had stopped, and cannot give its Lease back any more: 6."""
    world = World()
    parks = when(lambda step: step.write > 0 and world.holder == PARKED, kill)
    users.begin_update(world.die(parks))
    unparks = when(
        lambda step: (step.verb, step.target, world.replicas) == ("get", f"leases/{cluster.LEASE}", 1),
        lambda _: world.advance(LONGER_THAN_A_LEASE),
        times=1,
    )
    world.run(unparks, code=STUCK)
    assert world.replicas == 1
    assert world.holder == PARKED


#: A dead run has left it at zero, and no operator is told so by what follows.
_LEFT_AT_ZERO: Final = table(
    "dies",
    ("The dead run had parked its Lease, too.", (lambda step: step.write > 0 and step.process.world.holder == PARKED,)),
    ("The dead run had only stopped it.", (lambda step: users.stops(step.process.applied) > 0,)),
)


@_LEFT_AT_ZERO
@pytest.mark.parametrize("forbidden", [False, True], ids=["it lost its Lease", "it cannot look again"])
def test_a_refused_run_that_gives_nothing_back_does_not_hide_that_no_operator_acts(
    dies: Chosen, *, forbidden: bool
) -> None:
    """A dead run had stopped it, so it is 6, and not that nothing is changed; a rerun puts that in order."""
    world, read = World(), list[Step]()
    users.begin_update(world.die(when(dies, kill)))

    def at(step: Step) -> None:
        if step.process.applied and step.target == "podcliquesets/" and step.moment == "before":
            read.append(step)
            if len(read) == 1 and not forbidden:
                world.advance(LONGER_THAN_A_LEASE)
            if len(read) > 1 and forbidden:
                raise Forbidden("HTTP 403")

    world.run(at, code=STUCK)
    assert world.replicas == 0
    world.run(code=REFUSED)
    assert world.replicas == 1


@_LEFT_AT_ZERO
def test_a_run_without_rights_does_not_hide_that_no_operator_acts(dies: Chosen) -> None:
    """It never had its Lease, so a dead run's operator stays at zero: 6."""
    world = World().die(when(dies, kill))
    world.run(forbidding(lambda step: step.kind == "dry run"), code=STUCK)


def test_a_run_without_rights_beside_an_operator_that_runs_again_changes_nothing() -> None:
    """Somebody has started the operator that a dead run had stopped, so nothing of that run is left to tell."""
    world = World().die(when(lambda step: users.stops(step.process.applied) > 0, kill))
    world.upgrade(cluster.OLD_IMAGE)
    world.run(forbidding(lambda step: step.kind == "dry run"), code=FAILED)
