"""Faults that were found in runs by hostile histories and by real operators; each has a number."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from structlog import ReturnLogger, wrap_logger
from structlog.testing import LogCapture

from migrator import resources
from migrator.errors import NotFound, Rejected, Unreachable
from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from migrator.run.leases import PARKED
from migrator.run.record import RUN_NAME
from testbed import operator_installation as installation
from testbed.trees import Object
from tests.faults import cluster, users
from tests.faults.process import DONE, KILLED, REFUSED, STUCK, At, Step, do_at, kill_at, raising, when
from tests.faults.products import put_right, truthful
from tests.faults.steps import GROVE, Command, first, of_trees, perform, prepared, steps, tree_points
from tests.faults.world import LONGER_THAN_A_LEASE, World
from tests.support.memory_objects import timestamp
from tests.support.tables import table

OUTAGE = partial(Unreachable, "HTTP 503, at every request")
NO_KIND = partial(NotFound, "the server could not find the requested resource")


def reads(target: str) -> Callable[[Step], bool]:
    """Whether a step is about to read this."""
    return lambda step: (step.kind, step.moment, step.target) == ("read", "before", target)


def number_is(number: int) -> Callable[[Step], bool]:
    """Whether a step is about to happen that has this number."""
    return lambda step: (step.number, step.moment) == (number, "before")


def half_written(**options: Any) -> World:
    """A run was killed in the middle of a set."""
    world = World(**options)
    assert world.run(kill_at(of_trees()[5].write, "after")).code == KILLED
    return world


def stops(steps: list[Step]) -> int:
    """How often the operator's Deployment was scaled; three times it may be stopped, and given back once."""
    return sum(step.resource == resources.DEPLOYMENTS for step in steps)


# --- what cannot be read is not known --------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["forward", "revert"])
def test_a_kind_that_is_missing_once_is_no_cluster_without_sets(command: Command) -> None:
    """One 404 for the list of PodCliqueSets, at any of them: the exit code tells the truth, and a rerun ends well."""
    for number in [step.number for step in steps(command) if reads("podcliquesets/")(step)]:
        world = prepared(command)
        process = world.start(at=when(number_is(number), raising(NO_KIND), times=1))
        truthful(world, process, command, perform(process, command))
        put_right(world, command, back=command == "forward")


def test_sets_that_have_all_disappeared_were_not_read() -> None:
    """One empty list, though the record has sets: a revert does not end with 0 and leave everything migrated."""
    world = half_written()
    sets = world.store.everything(resources.POD_CLIQUE_SETS)

    def vanish(step: Step) -> None:
        for pcs in sets:
            if step.moment == "before":
                world.store.drop(resources.POD_CLIQUE_SETS, "default", pcs["metadata"]["name"], cascade=False)
            else:
                world.store.put(pcs)

    lists = when(lambda step: step.kind == "read" and step.target == "podcliquesets/", vanish)
    ending = world.start(at=lists).run(revert=True)
    assert (ending.code, world.replicas) == (STUCK, 0), str(ending)


def test_an_operator_that_the_last_look_sees_is_kept_out() -> None:
    """The old operator is started after the last write to a set, and a look sees it: 6, and its Lease is parked."""
    for number in range(of_trees()[-1].number + 1, steps("forward")[-1].number + 1):
        world, looks = World(), list[Step]()
        start = when(number_is(number), lambda _, w=world: w.deploy(replicas=1), times=1)

        def at(step: Step, start: At = start, looks: list[Step] = looks, number: int = number) -> None:
            start(step)
            looks += [step] if step.number >= number and step.target.startswith("deployments/") else []

        ending = world.start(at=at).run()
        assert not looks or (ending.code, world.holder) == (STUCK, PARKED), (number, str(ending))


@table(
    "target error",
    ("N3: the record cannot be read in an outage.", (f"configmaps/{RUN_NAME}", OUTAGE)),
    ("N4: the very first request fails.", ("", OUTAGE)),
)
@pytest.mark.parametrize("times", [1, 10**6], ids=["once", "always"])
def test_a_rerun_that_cannot_read_knows_nothing(target: str, error: Callable[[], Exception], times: int) -> None:
    """A rerun of half-written sets meets an error before it has seen them: 0 if it gets over it, else 6."""
    world = half_written()
    world.advance(LONGER_THAN_A_LEASE)
    fails = when(lambda step: step.target == target or not target, raising(error), times=times)
    ending = world.start(at=fails).run()
    assert ending.code in {DONE, STUCK}, str(ending)


@pytest.mark.parametrize("state", [None, "done", "none", "other", "sleeping"])
def test_a_damaged_record_proves_a_run(state: str | None) -> None:
    """A record of half-written sets that is no JSON, or in a state that no run writes: 6, and nothing is written."""
    world = half_written()
    world.advance(LONGER_THAN_A_LEASE)

    def damage(body: Object) -> None:
        text = json.loads(body["data"]["run.json"])
        damaged = json.dumps(text | {"run": text["run"] | {"state": state}})
        body["data"]["run.json"] = damaged if state else "{"

    world.store.edit(resources.CONFIG_MAPS, cluster.NAMESPACE, RUN_NAME, damage)
    found = world.grove()
    ending = world.run(kill_at(100, "before"))
    assert (ending.code, world.grove() == found) == (STUCK, True), str(ending)
    assert state is None or "GM-205" in str(ending)


def test_a_foreign_value_after_the_writes_is_seen() -> None:
    """Somebody writes another hash on migrated pods during the run: 6, never 0."""

    def mark(_: Step) -> None:
        label = {LABEL_POD_TEMPLATE_HASH: users.FOREIGN}
        for pod in [key for key in world.grove() if key[0] == "Pod"]:
            world.store.edit(resources.PODS, *pod[1:], lambda body: body["metadata"]["labels"].update(label))

    world = World()
    ending = world.run(do_at(of_trees()[-1].write, "before", mark))
    assert ending.code == STUCK, str(ending)


# --- what a run leaves when it is killed -----------------------------------------------------------------------------


def test_a_killed_run_keeps_operators_out_for_an_hour() -> None:
    """Killed in mid-write, an operator that is started waits for an hour; a rerun needs no more than the own Lease."""
    world = half_written()
    awake: list[str] = []
    world.on_awake = awake.append
    world.deploy(replicas=1)
    for _ in range(330):
        world.advance(10)
    assert awake == []
    world.deploy(replicas=0)
    begun = world.seconds
    assert world.run().code == DONE
    assert (world.grove() == world.after, world.seconds - begun < 150) == (True, True)


def test_a_rerun_with_nothing_to_write_releases_what_names_us() -> None:
    """Killed after its last write, the next run finds nothing to do, and leaves no Lease with our name."""
    for number in range(of_trees()[-1].number + 1, steps("forward")[-1].number + 1):
        world = World()
        kill = when(number_is(number), lambda step: step.process.kill())
        assert world.start(at=kill).run().code == KILLED
        assert world.run().code == DONE
        assert world.holder == "", number


def test_the_wait_after_a_takeover_is_explained() -> None:
    """After a kill the rerun says that it waits for late writes of the dead run, and not for itself."""
    world, said = half_written(), LogCapture()
    rerun = world.start(log=wrap_logger(ReturnLogger(), processors=[said]))
    assert rerun.run().code == DONE
    events = [str(event) for event in said.entries]
    assert not [event for event in events if f"held by {rerun.name}" in event]
    assert any("15 s for late writes of the run that was killed" in event for event in events)


# --- what others do --------------------------------------------------------------------------------------------------


def test_a_webhook_of_another_namespace_is_refused() -> None:
    """Service and Deployment are in two namespaces: 3 with GM-203, and nothing is touched."""
    world = World()
    for item in installation.webhook(namespace="elsewhere"):
        world.store.put(item)
    ending = (process := world.start()).run()
    assert (ending.code, "GM-203" in str(ending.error), process.writes) == (REFUSED, True, []), str(ending)


def test_the_expected_downtime_is_the_plans() -> None:
    """A gang that would be ended in 8 minutes does not refuse a run of seconds; one in 4 minutes does."""
    for minutes, code in ((4, REFUSED), (8, DONE)):
        world = World()
        breached = {"type": "MinAvailableBreached", "status": "True", "lastTransitionTime": timestamp(world.now())}
        pcs = world.store.read(resources.POD_CLIQUE_SETS, "default", "web")
        pcs["spec"]["template"]["terminationDelay"] = f"{minutes}m0s"
        clique = world.store.read(resources.POD_CLIQUES, "default", "web-0-frontend")
        clique["status"]["conditions"] = [breached]
        world.store.put(pcs)
        world.store.put(clique)
        ending = world.run()
        assert ending.code == code, (minutes, str(ending))


def test_a_patch_that_is_certain_to_be_rejected_is_found_before_the_stop() -> None:
    """A rule rejects status patches of PodCliques: 3, and the operator was never stopped."""
    rejected = partial(Rejected, "status.x: Invalid value")
    world = World()
    process = world.start(
        at=when(lambda s: s.target.startswith("podcliques/") and s.target.endswith("/status"), raising(rejected))
    )
    ending = process.run()
    assert (ending.code, stops(process.writes)) == (REFUSED, 0), str(ending)
    assert world.lies(ending) == []


def test_a_scale_during_the_run_is_no_edit() -> None:
    """`kubectl scale` of one set at any write: 0, and every hash is the target's."""
    for step in tree_points():
        world = World()

        def scale(_: Step, world: World = world) -> None:
            world.store.edit(resources.POD_CLIQUE_SETS, "default", "web", lambda pcs: pcs["spec"].update(replicas=2))

        ending = world.run(do_at(step.write, "before", scale))
        found, wanted = cluster.hashes(world.grove()), cluster.hashes(world.after)
        assert (ending.code, found == wanted) == (DONE, True), (step.write, str(ending))


def restores(world: World, *, begins: int = 0) -> At:
    """A GitOps controller that gives the operator its replicas back within 3 seconds, from this write on."""
    since: list[float] = []

    def at(step: Step) -> None:
        if world.replicas or len(step.process.writes) < begins:
            since.clear()
            return
        since[:] = since or [world.seconds]
        if world.seconds - since[0] >= 3:
            world.deploy(replicas=1)
        if stops(step.process.writes) > 5:
            step.process.kill()

    return at


@table(
    "begins code",
    ("From the beginning: 3, and nothing was written.", (0, REFUSED)),
    ("From the first write to a pod on: 6, and the operator waits for its Lease.", (first("pods"), STUCK)),
)
def test_a_controller_that_scales_the_operator_up_is_named(begins: int, code: int) -> None:
    """Something restores the operator's replicas each time: three stops in all, then the advice to pause it."""
    world = World()
    process = world.start(at=restores(world, begins=begins))
    ending = process.run()
    assert (ending.code, stops(process.writes) <= 4) == (code, True), str(ending)
    assert "pause it" in str(ending)
    assert world.lies(ending) == []


def replaced(world: World, image: str, *, another: bool = False) -> None:
    """Others change the Deployment that was stopped, and a set is edited, so that the run is refused."""
    world.deploy(replicas=0, image=image)
    if another:
        old = world.store.read(resources.DEPLOYMENTS, cluster.NAMESPACE, cluster.DEPLOYMENT)
        world.store.drop(resources.DEPLOYMENTS, cluster.NAMESPACE, cluster.DEPLOYMENT)
        old["metadata"] = {key: old["metadata"][key] for key in ("name", "namespace", "labels")}
        world.store.put(old)
    users.act(world, "edit", 0, 2, born=0)


@table(
    "image another code replicas",
    ("Another registry, the same release: it gets its replicas.", (f"mirror.test/{cluster.OLD_IMAGE}", False, 3, 1)),
    ("Another release: left at zero.", (installation.image("v0.1.0-alpha.8"), False, STUCK, 0)),
    ("A tag that is no release: left at zero.", (installation.image("nightly"), False, STUCK, 0)),
    ("Another Deployment of that name: left at zero.", (cluster.OLD_IMAGE, True, STUCK, 0)),
)
def test_an_operator_that_was_changed_meanwhile(image: str, code: int, replicas: int, *, another: bool) -> None:
    """The run is refused behind the fence, and the Deployment is not the one that it stopped."""
    world = World()
    ending = world.run(do_at(first("deployments", "scale"), "after", lambda _: replaced(world, image, another=another)))
    assert (ending.code, world.replicas) == (code, replicas), str(ending)
    assert replicas or (image in str(ending) and cluster.OLD_IMAGE in str(ending)), str(ending)


def test_a_denial_is_of_the_webhook_that_denied() -> None:
    """A policy of somebody else denies a label patch: the message names it, and not Grove's authorizer."""
    denied = partial(
        Rejected,
        'admission webhook "policy.example.test" denied the request',
        denied_by="policy.example.test",
    )
    world = World()
    ending = world.start(at=when(lambda s: s.kind != "read" and s.target.startswith("pods/"), raising(denied))).run()
    assert (ending.code, "policy.example.test" in str(ending)) == (REFUSED, True), str(ending)
    assert "authorizer" not in str(ending)


def unelected() -> World:
    """A cluster whose operator elects no leader, and requests that take as long as in practice."""
    world = World(elects=False)
    world.latency = 0.05
    return world


def test_an_operator_without_leader_election_is_stopped_before_it_acts() -> None:
    """It is scaled up in mid-write: seen and stopped within 2 seconds, and the run ends with 0; it had warned of it."""
    world, said, warned, acted = unelected(), LogCapture(), list[bool](), list[str]()
    world.on_awake = lambda image: acted.append(image) if world.grove() != world.before else None

    def at(step: Step) -> None:
        if step.resource == resources.DEPLOYMENTS and not warned:
            warned.append("leader election" in str(said.entries))
        do_at(first("pods"), "after", lambda _: world.deploy(replicas=1))(step)

    ending = world.start(at=at, log=wrap_logger(ReturnLogger(), processors=[said])).run()
    assert (ending.code, acted, warned, world.replicas) == (DONE, [], [True], 0), str(ending)
    assert world.grove() == world.after


def test_an_operator_without_leader_election_that_cannot_be_stopped_undoes_everything() -> None:
    """Something starts it again each time: everything is restored, 3, and the pod that it deleted is named."""
    world, lost = World(elects=False), list[str]()

    def delete(_image: str) -> None:
        if not lost and world.grove() != world.before:
            lost.append(next(name for kind, _, name in world.grove() if kind == "Pod"))
            world.store.drop(resources.PODS, "default", lost[0])

    world.on_awake = delete
    ending = world.start(at=restores(world, begins=first("pods"))).run()
    assert ending.code == REFUSED, str(ending)
    assert world.grove() == {key: item for key, item in world.before.items() if key[2] not in lost}
    assert all(name in str(ending) for name in lost), str(ending)


def test_a_rerun_beside_the_targets_operator_ends_well() -> None:
    """A run was killed, somebody upgraded, and no Lease keeps that operator out: 0; only writes need it stopped."""
    for killed in of_trees():
        world = World(elects=False)
        assert world.run(kill_at(killed.write, "after")).code == KILLED
        world.deploy(replicas=1, image=cluster.NEW_IMAGE)
        world.advance(LONGER_THAN_A_LEASE)
        world.operate(cluster.TARGET)
        process = world.start()
        ending = process.run()
        wrote = any(step.resource in GROVE for step in process.writes)
        assert ending.code == DONE, str(ending)
        assert wrote or (stops(process.writes), world.replicas) == (0, 1)


def test_a_set_that_is_being_deleted_is_left_alone() -> None:
    """`kubectl delete pcs` at any write: 0, and the other sets are migrated."""
    for step in tree_points():
        world = World()

        def delete(_: Step, world: World = world) -> None:
            stamp = {"deletionTimestamp": timestamp(world.now()), "generation": 2}  # the server moves the generation
            world.store.edit(resources.POD_CLIQUE_SETS, "default", "disagg", lambda pcs: pcs["metadata"].update(stamp))

        ending = world.run(do_at(step.write, "before", delete))
        wanted, found = (
            {key: item for key, item in objects.items() if cluster.set_of(item) != "disagg"}
            for objects in (world.after, world.grove())
        )
        assert (ending.code, found == wanted) == (DONE, True), (step.write, str(ending))


def test_a_pod_that_is_deleted_by_hand_during_the_run_fails_no_check() -> None:
    """A pod is deleted by hand at any write, and the next operator replaces it: `verify --after-upgrade` passes."""
    for step in tree_points():
        world = World()
        evict = partial(users.act, world, "evict", 3, 1, born=0)
        assert world.run(do_at(step.write, "before", lambda _, evict=evict: evict())).code == DONE
        world.deploy(replicas=1, image=cluster.NEW_IMAGE)
        world.advance(60)
        assert world.operate(cluster.TARGET) == []
        ending = world.start().verify()
        assert ending.code == DONE, (step.write, str(ending))
