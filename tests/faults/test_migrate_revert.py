"""Undoing a migration, in memory: in mid-flight, killed at any write, with and without a record, after the upgrade."""

from __future__ import annotations

import pytest

from migrator import kinds
from migrator.errors import Rejected, Reverted
from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH as HASH
from migrator.run.leases import OWN_LEASE, PARKED
from migrator.run.operator import OperatorFlags
from testbed import operator_installation as installation
from tests.faults import cluster
from tests.faults.invariants import HashTable
from tests.faults.process import FAILED, NO_RECORD, REFUSED, STUCK, At, Step, kill, kill_at, raising, stopped, when
from tests.faults.steps import finished, killed, of_trees
from tests.faults.world import LONGER_THAN_A_LEASE, World
from tests.support.tables import table

LATER = "legacy-1.36"
UNKNOWN_IMAGE = installation.image("v0.1.0-alpha.13")


def judged_later(world: World) -> None:
    """From now on the hashes of a second migration, to other ones, are judged."""
    world.checker.table = HashTable(cluster.TARGET, LATER)
    world.checker.learn()


def test_a_revert_that_dies_without_its_record_leaves_no_parked_lease() -> None:
    """The record is deleted last: the old operator that was started again must not wait for an hour."""
    world = finished()
    world.die(when(lambda _: not world.record, kill), revert=True)
    assert world.replicas == 1
    assert world.record == ""
    assert world.grove() == world.undone
    assert world.holder.startswith("grove-operator")


def test_an_interruption_while_the_error_is_recorded_is_no_other_ending() -> None:
    """Half-way stays 6, whoever presses Ctrl-C once more."""
    told = of_trees()[5].write

    def at(step: Step) -> None:
        if step.write == told:
            step.process.stop.set()
        if step.name == OWN_LEASE and step.write > told:
            raise KeyboardInterrupt

    World().run(at, code=STUCK)


def test_a_later_run_that_fails_puts_an_earlier_migration_back_too() -> None:
    """W5: an automatic revert restores every set, also those that an earlier run had migrated; run again."""
    world = World()
    refused = (kinds.POD_CLIQUES, "default", "web-0-router")
    own = world.store.read(*refused)["metadata"]["labels"][HASH]
    world.store.edit(*refused, lambda body: body["metadata"]["labels"].update({HASH: "4445566677788899"}))
    world.run(skip_refused=True)
    world.store.edit(*refused, lambda body: body["metadata"]["labels"].update({HASH: own}))

    labels: list[str] = []

    def reject_the_second_label(step: Step) -> None:
        if step.moment == "before" and step.resource == kinds.POD_CLIQUES and not step.subresource:
            labels.append(step.name)
            if step.name == max(labels) and len(set(labels)) > 1:
                raise Rejected("is invalid")

    ending = world.run(reject_the_second_label, code=REFUSED)
    assert isinstance(ending.error, Reverted), str(ending)
    assert world.grove() == world.undone
    assert world.replicas == 0
    world.run()
    assert world.grove() == world.after


def test_a_signal_does_not_end_an_automatic_revert() -> None:
    """A patch is rejected for good, and SIGTERM comes while the hashes go back: they all do, and it is 3."""
    world = World()
    rejected = when(lambda step: step.write == of_trees()[8].write, raising(lambda: Rejected("is invalid")), times=1)

    def at(step: Step) -> None:
        rejected(step)
        if step.is_grove and '"revert":true' in world.record:
            step.process.stop.set()

    world.run(at, code=REFUSED)
    assert world.grove() == world.undone
    assert world.replicas == 1


@table(
    "source target code",
    ("A wrong --from.", ("legacy-1.33", cluster.TARGET, NO_RECORD)),
    ("The flags of another run.", ("legacy-1.33", cluster.SOURCE, REFUSED)),
)
def test_a_revert_to_other_hashes_than_the_recorded_ones_is_refused(source: str, target: str, code: int) -> None:
    """It writes nothing where the record names others."""
    world = finished()
    records, process = world.record, world.start(at=kill_at(100, "before"))
    ending = process.run(revert=True, source=source, target=target, code=code)
    assert f"run --revert --to {cluster.TARGET}" in str(ending.error)
    assert world.grove() == world.after
    assert world.replicas == 0
    assert world.record == records
    assert process.writes == []
    world.revert(replicas=1)


@pytest.mark.parametrize("at", [None, kill_at(14, "before")], ids=["ended", "killed"])
@pytest.mark.parametrize("image", [cluster.OLD_IMAGE, UNKNOWN_IMAGE])
def test_a_later_migration_is_undone_alone(image: str, at: At | None) -> None:
    """What the earlier one left comes back, and not the operator: it is that of the first source, whatever its tag."""
    world = World()
    world.upgrade(image)
    world.run()
    judged_later(world)
    world.run(at, target=LATER, code=None)
    assert world.grove() != world.after
    world.advance(LONGER_THAN_A_LEASE)
    world.run(target=LATER, revert=True)
    assert world.grove() == world.after
    assert world.replicas == 0


@pytest.mark.parametrize("recorded", [False, True])
def test_a_revert_starts_no_operator_of_the_target_with_an_unknown_tag(*, recorded: bool) -> None:
    """Nobody says anew that it is the target's; it is not the operator that the record has."""
    world = World(replicas=int(recorded))
    if recorded:  # killed, upgraded too early, and killed again
        killed(5, world).upgrade(UNKNOWN_IMAGE)
        world.die(kill_at(8, "before"))
    else:
        world.run(target_image=UNKNOWN_IMAGE)
        world.upgrade(UNKNOWN_IMAGE)
    world.revert(replicas=0)


@pytest.mark.parametrize("write", [3, of_trees()[5].write], ids=["killed early", "killed late"])
@table(
    "release anew",
    ("The Deployment is deleted and made again.", ("v0.1.0-alpha.9", True)),
    ("It is upgraded to a release with the same hashes.", ("v0.1.0-alpha.8", False)),
)
def test_a_revert_starts_the_operator_of_the_old_hashes_that_was_there_last(
    release: str, write: int, *, anew: bool
) -> None:
    """Between two runs it became another one, whose tag says that it knows the old hashes."""
    world = World().die(kill_at(write, "after"))
    world.deploy(replicas=1, image=installation.image(release), anew=anew)
    world.advance(20)
    world.run()
    assert world.replicas == 0
    world.revert(replicas=1)


def test_a_revert_that_stops_an_operator_of_the_old_hashes_starts_it_again() -> None:
    """The user had stopped it, so the record does not have it, and has started it since."""
    world = killed(5, World(replicas=0))
    world.upgrade(cluster.OLD_IMAGE)
    world.revert(replicas=1)


@table(
    "namespace image replicas",
    ("The one that was stopped runs again, whoever else does.", ("other", cluster.OLD_IMAGE, 1)),
    ("The target's is put to zero before its Lease is given back.", (cluster.NAMESPACE, cluster.NEW_IMAGE, 0)),
)
def test_an_operator_that_appears_once_every_hash_is_old(namespace: str, image: str, replicas: int) -> None:
    """The revert ends with 0 all the same."""
    flags, world = OperatorFlags(cluster.NAMESPACE, cluster.DEPLOYMENT), finished()
    appears = when(
        lambda step: step.target == "podcliquesets/" and world.grove() == world.undone,
        lambda _: world.store.put(installation.deployment(image, namespace=namespace, observed=True)),
        times=1,
    )
    world.revert(appears, replicas=replicas, flags=flags)
    assert world.record == ""
    assert world.holder != PARKED


def test_a_run_to_another_target_that_writes_nothing_leaves_no_record_of_one() -> None:
    """It went on with the record of a run that was killed early, and an earlier one to that target had ended well."""
    world = World(cluster.grown())
    world.edit("web", lambda pcs: pcs["status"].update(currentRevision="web-1"))
    world.run(skip_refused=True)
    world.edit("web", lambda pcs: pcs["status"].pop("currentRevision"))
    world.upgrade(cluster.OLD_IMAGE)
    world.die(kill_at(3, "after"))
    world.deploy(replicas=1)
    judged_later(world)
    world.run(lambda step: world.replicas or step.process.stop.set(), target=LATER, code=FAILED)
    assert world.record == ""


def test_a_run_that_finds_nothing_to_write_ends_no_other_run() -> None:
    """One to another target was killed before its first patch: its record says nothing of that target any more."""
    world = World(cluster.grown())
    world.die(kill_at(3, "after"))
    world.run(target=cluster.SOURCE)
    assert world.replicas == 1
    assert cluster.TARGET not in world.record


@pytest.mark.parametrize("source", ["auto", cluster.TARGET])
@pytest.mark.parametrize("image", [cluster.NEW_IMAGE, UNKNOWN_IMAGE])
def test_a_run_that_died_early_leaves_no_record_of_an_earlier_one(source: str, image: str) -> None:
    """W6: its own revert restores what it stopped; that of the earlier migration asks for --from."""
    world = finished()
    world.upgrade(image)
    world.die(stopped, target=LATER, source=source)
    ending = world.run(revert=True, code=REFUSED)
    assert LATER in str(ending)
    assert cluster.TARGET in str(ending)
    world.run(target=LATER, revert=True)
    assert world.replicas == 1
    assert world.record == ""
    ending = world.run(revert=True, code=NO_RECORD)
    assert "--from" in str(ending.error)
    world.revert(replicas=0, source=cluster.SOURCE)


def test_a_revert_does_not_mind_a_label_that_was_missing_before_the_run() -> None:
    """A pod without its hash label was allowed: the old operator replaces it as it would have done before."""
    world = World(cluster.grown())
    name = next(key[2] for key in world.before if key[0] == "Pod" and key[2].startswith("web-0-frontend"))
    world.store.edit(kinds.PODS, "default", name, lambda body: body["metadata"]["labels"].pop(cluster.HASH_LABEL))
    before = world.grove()
    world.run(allow=frozenset({"GM-101"}))
    world.run(revert=True)
    assert world.grove() == before
