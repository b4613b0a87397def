"""What became otherwise between two runs, or in a long one, though a record or a Lease still tells how it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from migrator import __version__, kinds
from migrator.cluster import LONGEST_WRITE
from migrator.errors import AGAIN, Rejected, Reverted
from migrator.run.leases import OWN_LEASE, PARKED, RECORD
from migrator.run.operator import OperatorFlags
from testbed import operator_installation as installation
from testbed.trees import Object
from tests.faults import cluster, users
from tests.faults.operators import ALPHA_9, ALPHA_11, ALPHA_12_RC1
from tests.faults.process import KILLED, REFUSED, STUCK, Process, Step, do_at, kill, stopped, when
from tests.faults.steps import first, killed, of_trees
from tests.faults.world import LONGER_THAN_A_LEASE, World
from tests.support.tables import table

UNKNOWN_IMAGE = installation.image("v0.1.0-alpha.13")


def test_an_election_that_was_switched_off_since_the_last_run_keeps_nobody_out() -> None:
    """That run ended well, and by its record the operator elects: the next run stops it all the same before it acts."""
    world = World(cluster.grown())
    world.run()
    world.elects, world.latency = False, 0.05
    for replicas in (0, 1):
        world.deploy(replicas=replicas, image=cluster.NEW_IMAGE)
        world.advance(60)
    world.checker.after_write = lambda _: None  # type: ignore[method-assign,assignment]
    acted = list[str]()
    world.on_awake = lambda image: acted.append(image) if world.grove() != world.after else None

    def at(step: Step) -> None:
        world.advance(0.5 if step.is_grove else 0)
        do_at(first("pods"), "after", lambda _: world.deploy(replicas=1))(step)

    world.run(at, target=cluster.SOURCE)
    assert acted == []
    assert world.grove() == world.before


def test_a_run_of_hours_keeps_an_operator_out_that_waits() -> None:
    """It starts among the first writes, and would take the parked Lease an hour later."""
    world = World()
    world.forbid_unknown_hashes()
    began = of_trees()[2].write

    def last(process: Process) -> None:
        for _ in range(100):
            world.advance(2)
            process.renew()

    def at(step: Step) -> None:
        if (step.write, step.moment) == (began, "before"):
            world.deploy(replicas=1)
        if step.is_grove and step.moment == "before" and step.write > began:
            last(step.process)

    world.run(at)
    assert world.seconds > 4000


def test_a_parked_lease_that_is_deleted_is_parked_again() -> None:
    """Somebody deletes it in mid-run, and an operator starts a while later: it finds it parked."""
    world = World()
    world.forbid_unknown_hashes()
    world.checker.before_write = lambda _: None  # type: ignore[method-assign,assignment]
    began, deleted = of_trees()[2].write, list[float]()

    def at(step: Step) -> None:
        if (step.write, step.moment) == (began, "after"):
            world.store.drop(kinds.LEASES, cluster.NAMESPACE, cluster.LEASE)
            deleted.append(world.seconds)
        if deleted and world.seconds - deleted[0] > 8 and len(deleted) == 1:
            deleted.append(world.seconds)
            world.deploy(replicas=1)
        if deleted and step.is_grove and step.moment == "before":
            world.advance(1)

    world.run(at)
    assert len(deleted) == 2
    assert world.replicas == 0


def test_a_run_that_stood_still_parks_no_lease_that_another_one_has_given_back() -> None:
    """It wakes up at a look in mid-write, after another run has ended well: the next operator need not wait an hour."""
    world, others = World(), list[Process]()
    world.checker.before_write = lambda _: None  # type: ignore[method-assign,assignment]

    def at(step: Step) -> None:
        if step.is_grove:
            world.advance(1)
        if step.process.wrote and step.target == f"leases/{cluster.LEASE}" and not others:
            others.append(world.start())
            world.advance(LONGER_THAN_A_LEASE)
            others[0].run()

    world.run(at, code=STUCK)
    assert others
    assert world.holder == ""


def test_what_happened_before_a_run_wrote_is_no_matter_of_its_migration() -> None:
    """One died before its first patch; a day later an edit was rolled out, and only then the next run began."""
    world = World(cluster.grown())
    world.run(stopped, code=KILLED)
    world.deploy(replicas=1)
    world.advance(86400)
    for name in users.NAMES:
        world.store.edit(kinds.POD_CLIQUE_SETS, "default", name, users.in_flight)
    world.operate(cluster.SOURCE, ALPHA_9)
    world.checker.learn()
    world.advance(3600)
    world.run()
    world.upgrade()
    world.operate(cluster.TARGET, ALPHA_11)
    world.start().verify()


@pytest.mark.parametrize("pauses", [True, False])
def test_a_pod_that_is_lost_beside_a_needless_update_fails_no_verification(*, pauses: bool) -> None:
    """A node is drained in the pause or after the upgrade; alpha.12-rc1 updates every PodClique without progress."""
    world = World(cluster.grown())
    world.run()
    for before in (pauses, not pauses):
        if before:
            users.act(world, "evict", 4, 1)
        world.upgrade()
        assert world.operate(cluster.TARGET, ALPHA_12_RC1) == []
    assert len(world.grove().keys() - world.before.keys()) == 1
    world.start().verify()


@pytest.mark.parametrize("options", [{"source": "legacy-1.33"}, {"target": "legacy-1.33"}])
def test_a_revert_with_flags_of_another_run_names_the_right_ones_alone(options: dict[str, Any]) -> None:
    """Beside half-written sets: 6, and not also that the same command helps."""
    world = killed()
    said = str(world.run(revert=True, **options, code=STUCK))
    assert f"run --revert --to {cluster.TARGET}" in said, said
    assert "again" not in said, said


def test_a_revert_of_what_a_newer_version_has_written_names_that_version() -> None:
    """Another laptop has a newer one, and this one does not know its target: the same command needs that version."""
    world = World()
    world.run()
    newer = world.record.replace(cluster.TARGET, "v0.1.0-alpha.99").replace(__version__, "9.8.7")
    annotations = {RECORD: newer}
    world.store.edit(
        kinds.LEASES, cluster.NAMESPACE, OWN_LEASE, lambda body: body["metadata"].update(annotations=annotations)
    )
    ending = world.run(revert=True, code=REFUSED)
    assert "version 9.8.7" in str(ending)


def test_a_run_with_another_home_beside_a_dead_one_is_half_way() -> None:
    """--operator names a Deployment in another namespace, which never ends: 6, and it is not given back."""
    world = killed(world=World(cluster.grown()))
    world.checker.before_write = lambda _: None  # type: ignore[method-assign,assignment]
    other = installation.deployment(cluster.OLD_IMAGE, namespace="other", observed=True)
    world.store.put(other)
    ending = world.run(flags=OperatorFlags("other", other["metadata"]["name"]), code=STUCK)
    assert "still exists" in str(ending)
    assert world.store.read(kinds.DEPLOYMENTS, "other", other["metadata"]["name"])["spec"]["replicas"] == 0


def test_a_set_that_nobody_can_decode_does_not_take_the_next_command_away() -> None:
    """A user stores such a quantity beside half-written sets: that is mended, and the same command run again."""
    world = killed()
    resources = {"limits": {"cpu": "abc"}}

    def change(pcs: Object) -> None:
        pcs["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["resources"] = resources

    world.store.edit(kinds.POD_CLIQUE_SETS, "default", "web", change)
    ending = world.run(code=STUCK)
    assert AGAIN in str(ending)


@table(
    "options loop",
    ("Without the right to stop it.", ({"stop_operator": False}, False)),
    ("It is started again after each stop.", ({}, True)),
)
def test_a_closing_run_that_dies_leaves_no_record_of_one_that_wrote_nothing(
    options: dict[str, bool], *, loop: bool
) -> None:
    """The old operator appeared once all was recorded as done, was stopped again, and that run was killed: 6."""
    world = World(cluster.grown())
    starts = when(lambda _: world.record_state == "done", lambda _: world.deploy(replicas=1), times=1)

    def at(step: Step) -> None:
        starts(step)
        if world.grove() == world.after:
            stopped(step)

    world.run(at, code=KILLED)
    assert world.grove() == world.after
    world.deploy(replicas=1)
    world.advance(LONGER_THAN_A_LEASE)
    world.run(lambda _: None if world.replicas or not loop else world.deploy(replicas=1), **options, code=STUCK)
    assert world.holder == PARKED


def test_a_record_that_arrives_late_does_not_hide_that_a_killed_run_has_written() -> None:
    """Its reply was lost; the run recorded that it writes, and died in mid-write: a rerun that is refused says 6."""
    world = World(cluster.grown())
    world.latency = 0.05
    loses = when(
        lambda step: step.verb == "patch" and step.name == OWN_LEASE and step.write > 0,
        lambda step: step.process.hold_back(LONGEST_WRITE - 1),
        times=1,
    )

    def at(step: Step) -> None:
        loses(step)
        if step.is_grove and step.moment == "after":
            world.advance(1)
            if step.process.wrote > 10:
                step.process.kill()

    world.die(at)
    users.begin_update(world)
    world.run(code=STUCK)
    assert world.holder == PARKED


def upgraded_half_way(world: World) -> None:
    """A run dies in mid-write, and somebody upgrades; the tag of that operator names no known release."""
    killed(world=world).upgrade(UNKNOWN_IMAGE)


def pulled_anew(world: World) -> None:
    """A run dies in mid-write, and the image's tag is pushed and pulled anew."""
    world.upgrade(UNKNOWN_IMAGE)
    upgraded_half_way(world)


def nothing(_: World) -> None:
    """Nobody has run before."""


@table(
    "replicas before",
    ("A run had stopped the old operator.", (1, upgraded_half_way)),
    ("The old operator was at zero.", (0, upgraded_half_way)),
    ("The other one starts in mid-run.", (0, nothing)),
    ("It has the tag of the old one.", (1, pulled_anew)),
)
def test_an_automatic_revert_starts_no_operator_that_may_be_the_targets(
    replicas: int, before: Callable[[World], None]
) -> None:
    """It was stopped beside half-written sets, so nothing tells that it knows the old hashes."""
    world = World(replicas=replicas)
    before(world)

    def reject(step: Step) -> None:
        if step.is_grove and step.moment == "before" and '"revert":true' not in world.record:
            if before is nothing and step.process.wrote == 5:
                world.deploy(replicas=1, image=UNKNOWN_IMAGE)
            if before is not nothing or step.process.wrote >= 12:
                raise Rejected("is invalid")

    ending = world.run(reject, code=REFUSED)
    assert isinstance(ending.error, Reverted), str(ending)
    assert world.grove() == world.undone
    assert world.image == UNKNOWN_IMAGE
    assert world.replicas == 0


def test_an_automatic_revert_lets_no_operator_of_the_target_in() -> None:
    """It starts meanwhile, may not be stopped, and waits: 6, at the parked Lease."""
    world = World(replicas=0)

    def at(step: Step) -> None:
        if step.is_grove and step.moment == "before":
            if step.process.wrote >= 8 and '"revert":true' not in world.record:
                raise Rejected("is invalid")
            if '"revert":true' in world.record:
                world.deploy(replicas=1, image=cluster.NEW_IMAGE)

    ending = world.run(at, stop_operator=False, code=STUCK)
    world.advance(60)
    assert world.grove() == world.undone
    assert world.holder == PARKED
    assert "No stored hash is a new one" in str(ending)


@pytest.mark.parametrize("dies", [False, True])
def test_a_revert_starts_no_operator_that_ran_beside_new_hashes_with_the_tag_of_the_old_one(*, dies: bool) -> None:
    """The tag was pushed anew, and the operator restarted: whether the old program comes back is not known."""
    world = World(cluster.grown())
    world.upgrade(UNKNOWN_IMAGE)
    world.run()
    world.upgrade(UNKNOWN_IMAGE)
    if dies:
        world.die(stopped, revert=True)
    world.revert(replicas=0)


@pytest.mark.parametrize("rejected", [True, False])
def test_an_operator_that_ran_beside_new_hashes_is_not_taken_for_the_old_one(*, rejected: bool) -> None:
    """One set came back from a backup with old hashes, and the tag of the operator names no release."""
    world = World(cluster.grown(), replicas=0)
    world.run()
    world.upgrade(UNKNOWN_IMAGE)
    for item in world.before.values():
        if cluster.set_of(item) == "web":
            world.store.put(item)

    def reject(step: Step) -> None:
        due = step.is_grove and step.moment == "before" and step.process.wrote >= 3
        if due and '"revert":true' not in world.record:
            raise Rejected("is invalid")

    if rejected:
        world.run(reject, code=REFUSED)
    else:
        world.run()
        world.run(revert=True)
    assert world.grove() == world.undone
    assert world.replicas == 0


def test_a_migration_goes_on_after_a_revert_that_died_beside_the_targets_operator() -> None:
    """Under OnDelete some pods have the old hash of the present template again: that is no leftover of an older one."""
    world = World(cluster.grown())
    world.run()
    world.deploy(replicas=0, image=cluster.NEW_IMAGE)
    of_patient = when(lambda step: step.is_grove and "patient" in step.name and step.moment == "after", kill)
    world.die(of_patient, revert=True)
    world.run()
    assert world.grove() == world.after
