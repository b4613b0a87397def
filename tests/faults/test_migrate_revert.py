"""Undoing a migration, in memory: in mid-flight, killed at any write, with and without a record, after the upgrade."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from migrator import kinds
from migrator.errors import Rejected, Reverted
from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH as HASH
from migrator.run.leases import OWN_LEASE, PARKED
from migrator.run.operator import OperatorFlags
from testbed import operator_installation as installation
from testbed.trees import Object
from tests.faults import cluster
from tests.faults.invariants import HashTable
from tests.faults.process import DONE, FAILED, KILLED, NO_RECORD, REFUSED, STUCK, At, Step, kill_at, raising, when
from tests.faults.steps import of_trees
from tests.faults.world import LONGER_THAN_A_LEASE, World
from tests.support.tables import table


def migrated_world(*, upgraded: bool = False) -> World:
    """A cluster after a migration; ``upgraded``: and after the next operator has been started."""
    world = World()
    assert world.run().code == DONE
    if upgraded:
        world.deploy(replicas=1, image=cluster.NEW_IMAGE)
        world.advance(20)
        assert world.holder.startswith("grove-operator-2")
    return world


LATER = "legacy-1.36"
UNKNOWN_IMAGE = installation.image("v0.1.0-alpha.13")


def judged_later(world: World) -> None:
    """From now on the hashes of a second migration, to other ones, are judged."""
    world.checker.table = HashTable(cluster.TARGET, LATER)
    world.checker.learn()


def generations(objects: dict[cluster.Key, Object]) -> dict[str, str]:
    """The stored generation hash of each set."""
    return {key[2]: pcs["status"]["currentGenerationHash"] for key, pcs in objects.items() if key[0] == "PodCliqueSet"}


def test_a_revert_without_a_record_leaves_the_new_operator_at_zero() -> None:
    """Once the record is closed, a revert needs --from, and knows by the image that the operator is the target's."""
    world = migrated_world(upgraded=True)
    world.forget_record()
    ending = world.run(revert=True)
    assert ending.code == 2
    assert "--from" in str(ending.error)
    assert (world.grove() == world.after, world.replicas) == (True, 1)
    assert world.run(revert=True, source=cluster.SOURCE).code == DONE
    assert generations(world.grove()) == generations(world.before)
    assert (world.replicas, world.image) == (0, cluster.NEW_IMAGE)
    assert not world.record


def test_a_revert_that_dies_without_its_record_leaves_no_parked_lease() -> None:
    """The record is deleted last: the old operator that was started again must not wait for an hour."""
    world = migrated_world()
    forgets = when(lambda _: not world.record, lambda step: step.process.kill())
    assert world.run(forgets, revert=True).code == KILLED
    world.advance(LONGER_THAN_A_LEASE)
    assert (world.replicas, world.record, world.grove() == world.undone) == (1, "", True)
    assert world.holder.startswith("grove-operator")


def test_an_interruption_while_the_error_is_recorded_is_no_other_ending() -> None:
    """Half-way stays 6, whoever presses Ctrl-C once more."""
    told = of_trees()[5].write
    saves = when(lambda step: step.name == OWN_LEASE and step.write > told, raising(KeyboardInterrupt))

    def at(step: Step) -> None:
        if step.write == told:
            step.process.stop.set()
        saves(step)

    ending = World().run(at)
    assert ending.code == STUCK, str(ending)


def test_a_later_run_that_fails_puts_an_earlier_migration_back_too() -> None:
    """W5: an automatic revert restores every set, also those that an earlier run had migrated; run again."""
    world = World()
    refused = (kinds.POD_CLIQUES, "default", "web-0-router")
    own = world.store.read(*refused)["metadata"]["labels"][HASH]
    world.store.edit(*refused, lambda body: body["metadata"]["labels"].update({HASH: "4445566677788899"}))
    assert world.run(skip_refused=True).code == DONE
    world.store.edit(*refused, lambda body: body["metadata"]["labels"].update({HASH: own}))

    labels: list[str] = []

    def reject_the_second_label(step: Step) -> None:
        if step.moment == "before" and step.resource == kinds.POD_CLIQUES and not step.subresource:
            labels.append(step.name)
            if step.name == max(labels) and len(set(labels)) > 1:
                raise Rejected("is invalid")

    ending = world.run(reject_the_second_label)
    assert isinstance(ending.error, Reverted), str(ending)
    assert (world.grove() == world.undone, world.replicas) == (True, 0)
    assert world.run().code == DONE
    assert world.grove() == world.after


def test_a_signal_does_not_end_an_automatic_revert() -> None:
    """A patch is rejected for good, and SIGTERM comes while the hashes go back: they all do, and it is 3."""
    world = World()
    rejected = when(lambda step: step.write == of_trees()[8].write, raising(lambda: Rejected("is invalid")), times=1)

    def at(step: Step) -> None:
        rejected(step)
        if step.is_grove and '"revert":true' in world.record:
            step.process.stop.set()

    ending = world.run(at)
    assert (ending.code, world.grove() == world.undone, world.replicas) == (REFUSED, True, 1), str(ending)


@table(
    "source target code",
    ("A wrong --from.", ("legacy-1.33", cluster.TARGET, NO_RECORD)),
    ("The flags of another run.", ("legacy-1.33", cluster.SOURCE, REFUSED)),
)
def test_a_revert_to_other_hashes_than_the_recorded_ones_is_refused(source: str, target: str, code: int) -> None:
    """It writes nothing where the record names others."""
    world = migrated_world()
    records, process = world.record, world.start(at=kill_at(100, "before"))
    ending = process.run(revert=True, source=source, target=target)
    assert ending.code == code, str(ending)
    assert f"run --revert --to {cluster.TARGET}" in str(ending.error)
    assert (world.grove(), world.replicas, world.record) == (world.after, 0, records)
    assert process.writes == []
    assert world.run(revert=True).code == DONE
    assert world.grove() == world.undone


def test_a_later_migration_can_be_undone_alone() -> None:
    """It dies half-way, and its revert ends with what an earlier migration to other hashes had left."""
    world = World()
    assert world.run().code == DONE
    source = cluster.TARGET
    judged_later(world)
    before = world.grove()
    ending = world.run(kill_at(14, "before"), target=LATER, source=source)
    assert ending.code == KILLED
    assert world.grove() != before
    world.advance(100)
    assert world.run(kill_at(200, "before"), target=LATER, source=source, revert=True).code == DONE
    assert world.grove() == before


@pytest.mark.parametrize("at", [None, kill_at(14, "before")])
def test_a_revert_starts_no_operator_that_does_not_know_its_hashes(at: At | None) -> None:
    """After two migrations without an upgrade between them, the operator at zero is that of the first one's source."""
    world = migrated_world()
    judged_later(world)
    world.run(at, target=LATER)
    world.advance(LONGER_THAN_A_LEASE)
    ending = world.run(target=LATER, revert=True)
    assert (ending.code, world.grove() == world.after, world.replicas) == (DONE, True, 0), str(ending)


@pytest.mark.parametrize("recorded", [False, True])
def test_a_revert_starts_no_operator_of_the_target_with_an_unknown_tag(*, recorded: bool) -> None:
    """Nobody says anew that it is the target's; it is not the operator that the record has."""
    world = World(replicas=int(recorded))
    if recorded:  # killed, upgraded too early, and killed again
        assert world.run(kill_at(of_trees()[5].write, "after")).code == KILLED
    else:
        assert world.run(target_image=UNKNOWN_IMAGE).code == DONE
    world.deploy(replicas=1, image=UNKNOWN_IMAGE)
    world.advance(LONGER_THAN_A_LEASE)
    if recorded:
        assert world.run(kill_at(8, "before")).code == KILLED
        world.advance(LONGER_THAN_A_LEASE)
    ending = world.run(revert=True)
    assert (ending.code, world.grove() == world.undone, world.replicas) == (DONE, True, 0), str(ending)


def reinstalled(world: World) -> None:
    """The operator's Deployment is deleted and made again, with the same image."""
    deployment = world.store.read(kinds.DEPLOYMENTS, cluster.NAMESPACE, cluster.DEPLOYMENT)
    metadata = {**deployment["metadata"], "uid": "another"}
    world.store.put({**deployment, "metadata": metadata, "spec": {**deployment["spec"], "replicas": 1}})


def of_another_release(world: World) -> None:
    """The operator is upgraded to a release with the same hashes."""
    world.deploy(replicas=1, image=installation.image("v0.1.0-alpha.8"))


@pytest.mark.parametrize("killed", ["early", "late"])
@pytest.mark.parametrize("change", [reinstalled, of_another_release])
def test_a_revert_starts_the_operator_of_the_old_hashes_that_was_there_last(
    change: Callable[[World], None], killed: str
) -> None:
    """Between two runs it became another one, whose tag says that it knows the old hashes."""
    world = World()
    assert world.run(kill_at(3 if killed == "early" else of_trees()[5].write, "after")).code == KILLED
    change(world)
    world.advance(LONGER_THAN_A_LEASE)
    ending = world.run()
    assert (ending.code, world.replicas) == (DONE, 0), str(ending)
    ending = world.run(revert=True)
    assert (ending.code, world.grove() == world.undone, world.replicas) == (DONE, True, 1), str(ending)


def test_a_revert_that_stops_an_operator_of_the_old_hashes_starts_it_again() -> None:
    """The user had stopped it, so the record does not have it, and has started it since."""
    world = World(replicas=0)
    assert world.run(kill_at(of_trees()[5].write, "after")).code == KILLED
    world.deploy(replicas=1)
    world.advance(LONGER_THAN_A_LEASE)
    ending = world.run(revert=True)
    assert (ending.code, world.grove() == world.undone, world.replicas) == (DONE, True, 1), str(ending)


def another(world: World) -> None:
    """Another operator of the old release, which no Lease of ours keeps out."""
    world.store.put(installation.deployment(cluster.OLD_IMAGE, namespace="other", observed=True))


def the_targets(world: World) -> None:
    """The target's operator, which waits for its Lease."""
    world.deploy(replicas=1, image=cluster.NEW_IMAGE)


@table(
    "appears replicas",
    ("The one that was stopped runs again, whoever else does.", (another, 1)),
    ("It does not know the old hashes: it is put to zero before its Lease is given back.", (the_targets, 0)),
)
def test_an_operator_that_appears_once_every_hash_is_old(appears: Callable[[World], None], replicas: int) -> None:
    """The revert ends with 0 all the same."""
    flags, world = OperatorFlags(cluster.NAMESPACE, cluster.DEPLOYMENT), migrated_world()
    read_back = when(
        lambda step: step.target == "podcliquesets/" and world.grove() == world.undone,
        lambda _: appears(world),
        times=1,
    )
    ending = world.run(read_back, revert=True, flags=flags)
    assert (ending.code, world.replicas, world.record) == (DONE, replicas, ""), str(ending)
    assert (world.grove() == world.undone, world.holder != PARKED) == (True, True)


def test_a_later_migration_knows_no_operator_of_an_earlier_one() -> None:
    """The operator of the first one's source has a tag that names no release; the second one's revert leaves it."""
    world = World()
    world.deploy(replicas=1, image=UNKNOWN_IMAGE)
    world.advance(20)
    assert world.run().code == DONE
    judged_later(world)
    assert world.run(target=LATER).code == DONE
    ending = world.run(target=LATER, revert=True)
    assert (ending.code, world.grove() == world.after, world.replicas) == (DONE, True, 0), str(ending)


def test_a_run_to_another_target_that_writes_nothing_leaves_no_record_of_one() -> None:
    """It went on with the record of a run that was killed early, and an earlier one to that target had ended well."""
    world = World(cluster.grown())
    web = (kinds.POD_CLIQUE_SETS, "default", "web")
    world.store.edit(*web, lambda pcs: pcs["status"].update(currentRevision="web-1"))
    assert world.run(skip_refused=True).code == DONE
    world.store.edit(*web, lambda pcs: pcs["status"].pop("currentRevision"))
    world.deploy(replicas=1)
    world.advance(20)
    assert world.run(kill_at(3, "after")).code == KILLED
    world.advance(LONGER_THAN_A_LEASE)
    world.deploy(replicas=1)
    judged_later(world)
    ending = world.run(lambda step: world.replicas or step.process.stop.set(), target=LATER)
    assert (ending.code, world.record) == (FAILED, ""), str(ending)


def test_a_run_that_finds_nothing_to_write_ends_no_other_run() -> None:
    """One to another target was killed before its first patch: its record says nothing of that target any more."""
    world = World(cluster.grown())
    assert world.run(kill_at(3, "after")).code == KILLED
    world.advance(LONGER_THAN_A_LEASE)
    ending = world.run(target=cluster.SOURCE)
    assert (ending.code, world.replicas, cluster.TARGET in world.record) == (DONE, 1, False), str(ending)


@pytest.mark.parametrize("source", ["auto", cluster.TARGET])
@pytest.mark.parametrize("image", [cluster.NEW_IMAGE, UNKNOWN_IMAGE])
def test_a_run_that_died_early_leaves_no_record_of_an_earlier_one(source: str, image: str) -> None:
    """W6: its own revert restores what it stopped; that of the earlier migration asks for --from."""
    world = migrated_world()
    world.deploy(replicas=1, image=image)
    world.advance(20)
    stopped = when(lambda step: (step.subresource, step.moment) == ("scale", "after"), lambda step: step.process.kill())
    assert world.run(stopped, target=LATER, source=source).code == KILLED
    world.advance(LONGER_THAN_A_LEASE)
    ending = world.run(revert=True)
    assert ending.code == REFUSED, str(ending)
    assert LATER in str(ending.error)
    assert cluster.TARGET in str(ending.error)
    ending = world.run(target=LATER, revert=True)
    assert (ending.code, world.replicas, world.record) == (DONE, 1, ""), str(ending)
    ending = world.run(revert=True)
    assert (ending.code, "--from" in str(ending.error)) == (NO_RECORD, True), str(ending)
    assert world.run(revert=True, source=cluster.SOURCE).code == DONE
    assert (world.grove() == world.undone, world.replicas) == (True, 0)


def test_a_revert_does_not_mind_a_label_that_was_missing_before_the_run() -> None:
    """A pod without its hash label was allowed: the old operator replaces it as it would have done before."""
    world = World(cluster.grown())
    name = next(key[2] for key in world.before if key[0] == "Pod" and key[2].startswith("web-0-frontend"))
    world.store.edit(kinds.PODS, "default", name, lambda body: body["metadata"]["labels"].pop(cluster.HASH_LABEL))
    before = world.grove()
    assert world.run(allow=frozenset({"GM-101"})).code == DONE
    ending = world.run(revert=True)
    assert (ending.code, world.grove() == before) == (DONE, True), str(ending)
