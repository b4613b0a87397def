"""Histories that were decided: what is accepted, what is said, and what heals it (docs/how-it-works.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from structlog import ReturnLogger, wrap_logger

from migrator import kinds
from migrator.errors import Conflict, Rejected
from migrator.run.leases import OWN_LEASE, micro_time
from migrator.run.operator import OperatorFlags
from testbed import operator_installation as installation
from testbed.trees import Object
from tests.faults import cluster, users
from tests.faults.operators import ALPHA_9, ALPHA_11, would_roll
from tests.faults.process import FAILED, NO_RECORD, REFUSED, STUCK, At, Step, do_at, forbidding, kill, raising, when
from tests.faults.steps import finished, killed, of_trees, writes
from tests.faults.world import World

_HALF = 12
WEB = (kinds.POD_CLIQUE_SETS, "default", "web")


def uninstall(world: World) -> None:
    """`helm uninstall`: what is left of that name is no operator any more."""
    body = world.store.read(kinds.DEPLOYMENTS, cluster.NAMESPACE, cluster.DEPLOYMENT)
    pod = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": pod}
    world.store.put({**body, "metadata": {**body["metadata"], "labels": {}, "uid": "another"}, "spec": spec})


def moves(world: World) -> None:
    """... and Grove is installed again in another namespace, at zero."""
    uninstall(world)
    world.store.put(installation.deployment(cluster.NEW_IMAGE, replicas=0, namespace="elsewhere", observed=True))


# --- where the record is ----------------------------------------------------------------------------------------------


def test_a_revert_beside_a_pod_without_a_deployment_has_nothing_to_start() -> None:
    """Its Deployment was deleted after a run had died: the pod is named, and what is not there is not scaled."""
    world = killed()
    uninstall(world)
    world.store.put(installation.pod(cluster.OLD_IMAGE, name="last"))
    assert "runs without a Deployment: stop it yourself" in str(world.run(revert=True, code=None))


@pytest.mark.parametrize("revert", [False, True])
@pytest.mark.parametrize("change", [uninstall, moves])
def test_an_open_run_in_another_namespace_is_named_and_never_followed(
    change: Callable[[World], None], *, revert: bool
) -> None:
    """Holes 3 and 4: 6, nothing is written, and --operator makes that namespace the home: then it ends well."""
    world = killed()
    change(world)
    found = world.grove()
    ending = world.run(revert=revert, code=STUCK)
    assert world.grove() == found
    assert "GM-205" in str(ending)
    assert f"--operator {cluster.NAMESPACE}/NAME" in str(ending)
    world.run(revert=revert, flags=OperatorFlags(cluster.NAMESPACE, cluster.DEPLOYMENT))
    assert world.grove() == (world.undone if revert else world.after)


@pytest.mark.parametrize(
    "flags", [OperatorFlags(), OperatorFlags(cluster.NAMESPACE, cluster.DEPLOYMENT)], ids=["found", "named"]
)
def test_of_two_runs_with_different_homes_one_sees_the_other(flags: OperatorFlags) -> None:
    """The other has taken its Lease between our look and our record: nothing is stopped, also if each was named."""
    world = World()

    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    body |= {"metadata": {"name": OWN_LEASE, "namespace": "elsewhere"}, "spec": {"holderIdentity": "another_1"}}
    own = when(lambda step: step.write > 0 and step.name == OWN_LEASE, lambda _: world.store.put(body), times=1)
    ending = world.run(own, flags=flags, code=FAILED)
    assert world.replicas == 1
    assert world.grove() == world.before
    assert "a run is under way in namespace elsewhere" in str(ending)


def test_a_run_that_finds_no_operator_asks_for_it() -> None:
    """It is not known where the Lease is to be: nothing is changed."""
    world = World(cluster.grown())
    uninstall(world)
    for _ in range(2):  # its pod is told to end, and ends
        world.advance(10)
    assert "name its Deployment with --operator" in str(world.run(code=NO_RECORD))
    assert world.grove() == world.before


# --- operators --------------------------------------------------------------------------------------------------------


def test_an_operator_elsewhere_that_renews_its_lease_is_noticed_before_the_stop() -> None:
    """It has no label of the chart, and renews every two seconds, which is longer than a small cluster is read."""
    world = World()
    place = kinds.LEASES, "elsewhere", "grove-operator-leader-election"
    body = {"apiVersion": kinds.LEASES.api_version, "kind": kinds.LEASES.kind}
    world.store.put({**body, "metadata": {"namespace": place[1], "name": place[2]}, "spec": {"holderIdentity": "it_1"}})
    world.latency = 0.02

    def renew() -> None:
        moment = micro_time(world.now())
        world.store.edit(*place, lambda lease: lease["spec"].update(renewTime=moment))
        world.later(2.0, renew)

    renew()
    ending = world.run(code=REFUSED)
    assert "GM-203" in str(ending)
    assert "somebody renews Lease elsewhere/grove-operator-leader-election" in str(ending)
    assert world.replicas == 1
    assert world.grove() == world.before


def stop(step: Step) -> None:
    """A signal."""
    step.process.stop.set()


@pytest.mark.parametrize(("at", "timeout"), [(when(lambda step: step.kind == "sleep", stop), None), (None, 12.0)])
def test_a_run_that_is_to_end_while_it_watches_a_lease_elsewhere_stops_no_operator(
    at: At | None, timeout: float | None
) -> None:
    """A signal, or --timeout, within the three seconds: to stop the operator and to start it again is for nothing."""
    world = World()
    place = {"namespace": "elsewhere", "name": "grove-operator-leader-election"}
    body = {"apiVersion": kinds.LEASES.api_version, "kind": kinds.LEASES.kind, "metadata": place}
    world.store.put({**body, "spec": {"holderIdentity": "it_1"}})
    process = world.start(at=at)
    process.run(code=FAILED, timeout=timeout)
    assert [step.target for step in process.applied if step.subresource == "scale"] == []


@pytest.mark.parametrize("image", [cluster.OLD_IMAGE, cluster.NEW_IMAGE])
@pytest.mark.parametrize("namespace", ["a-ns", "z-ns"])
def test_an_operator_elsewhere_that_starts_in_mid_run_stops_the_writing(image: str, namespace: str) -> None:
    """Hole 6: whatever its namespace is called. The old one's hashes come back; beside the target's it is 6."""
    world = World()
    began = of_trees()[8]

    def install(_: Step) -> None:
        world.store.put(installation.deployment(image, namespace=namespace, observed=True))
        world.store.put(installation.pod(image, name="second", namespace=namespace))

    process = world.start(at=do_at(began.write, "after", install))
    ending = process.run(code=STUCK if image == cluster.NEW_IMAGE else REFUSED)
    assert f"Deployment {namespace}/grove-operator" in str(ending)
    if image == cluster.NEW_IMAGE:
        assert "kubectl scale" not in str(ending), "the Deployment that is at zero is the old operator's"
        forward = [step for step in process.applied if step.is_grove and step.write > began.write]
        assert len(forward) <= 12, "it is seen within five seconds"
    else:
        assert world.grove() == world.undone


@pytest.mark.parametrize("image", [cluster.OLD_IMAGE, cluster.NEW_IMAGE])
def test_an_operator_without_election_that_is_installed_in_mid_run_is_stopped_before_it_acts(image: str) -> None:
    """There was none when the run began: whether it waits for the parked Lease is not known."""
    world = World(cluster.grown(), elects=False)
    uninstall(world)
    world.latency = 0.05
    for _ in range(2):
        world.advance(60)
    acted = list[str]()
    world.on_awake = lambda image: acted.append(image) if world.grove() not in (world.before, world.after) else None
    again = installation.deployment(image, observed=True)
    again["metadata"]["uid"] = "installed again"
    began = of_trees()[4].write

    def at(step: Step) -> None:
        world.advance(0.5 if step.is_grove else 0)
        do_at(began, "after", lambda _: world.store.put(again))(step)

    process = world.start(at=at)
    process.namespace = cluster.NAMESPACE
    process.run()
    assert acted == []
    assert world.grove() == world.after
    assert world.replicas == (image == cluster.NEW_IMAGE)


def test_a_deployment_that_is_paused_is_no_operator_of_the_image_that_it_names() -> None:
    """`kubectl rollout pause` and the upgrade: its pods go on with the old program, which a run would start again."""
    world = World(cluster.grown())
    world.lag = 1.5

    def pause(body: Object) -> None:
        body["spec"]["paused"] = True

    world.store.edit(kinds.DEPLOYMENTS, cluster.NAMESPACE, cluster.DEPLOYMENT, pause)
    world.upgrade()
    ending = world.run(code=REFUSED)
    assert "GM-203" in str(ending)
    assert world.replicas == 1
    assert world.grove() == world.before


def test_a_third_ctrl_c_is_no_nothing_was_written() -> None:
    """Hole 2: it comes while the end of the run is logged."""
    world = World()

    def interrupt(_logger: object, _method: str, event: Any) -> Any:
        if event["event"] == "ending_run":
            raise KeyboardInterrupt
        return event

    struck = do_at(of_trees()[_HALF].write, "after", raising(KeyboardInterrupt))
    world.start(at=struck, log=wrap_logger(ReturnLogger(), processors=[interrupt])).run(code=STUCK)
    assert world.grove() not in (world.before, world.after)


@pytest.mark.parametrize("revert", [False, True])
@pytest.mark.parametrize("kind", [kinds.PODS, kinds.POD_CLIQUES])
def test_a_label_that_is_lost_in_the_last_seconds_is_no_success(kind: kinds.Resource, *, revert: bool) -> None:
    """Hole 5: an operator would replace that pod: 6, the set is named, and nothing is called a mere warning."""
    world = finished() if revert else World()
    last = [step for step in writes("revert" if revert else "forward") if step.is_grove][-1]
    world.checker.after_write = lambda _write: None  # type: ignore[method-assign]
    name = next(key[2] for key in world.before if key[0] == kind.kind and key[2].startswith("web-0-frontend"))

    def strip(_: Step) -> None:
        world.store.edit(kind, "default", name, lambda body: body["metadata"]["labels"].pop(cluster.HASH_LABEL))

    ending = world.run(do_at(last.write, "after", strip), revert=revert, code=STUCK)
    assert "default/web" in str(ending)
    assert "warning" not in str(ending)


# --- accepted ---------------------------------------------------------------------------------------------------------


def test_a_rerun_beside_the_target_that_fails_names_what_starts_it() -> None:
    """W7: a run died, somebody upgraded, and the rerun is rejected for good: nothing goes back, 6, with the command."""
    world = killed()
    found = world.grove()
    world.upgrade()
    rejects = when(lambda step: step.is_grove and step.moment == "before", raising(lambda: Rejected("is invalid")))
    ending = world.run(rejects, code=STUCK)
    assert world.grove() == found
    assert world.replicas == 0
    assert f"kubectl scale deployment/{cluster.DEPLOYMENT} -n {cluster.NAMESPACE} --replicas=1" in str(ending)
    world.run()
    assert world.grove() == world.after


def test_six_readings_get_over_conflicts() -> None:
    """W10: each conflict stops its set until everything is read again."""
    world, met = World(), list[str]()

    def conflict(step: Step) -> None:
        if step.is_grove and step.moment == "before" and len(met) < 4 and step.name not in met:
            met.append(step.name)
            raise Conflict("modified")

    world.run(conflict)
    assert len(met) == 4
    assert world.grove() == world.after


def test_every_missing_right_is_told_at_once() -> None:
    """W11: before anything is touched, with where the role is."""
    world = World()
    missing = {"pods", "podcliques", "deployments", "leases"}
    process = world.start(at=forbidding(lambda step: step.kind == "dry run" and step.target.split("/")[0] in missing))
    ending = process.run(code=FAILED)
    assert process.writes == []
    assert world.replicas == 1
    for right in (
        "patch pods in namespace default",
        "patch podcliques.grove.io in namespace default",
        "patch podcliques.grove.io/status in namespace default",
        "patch deployments.apps/scale grove-system/grove-operator",
        "patch leases.coordination.k8s.io grove-system/grove-migrator",
        "patch leases.coordination.k8s.io grove-system/grove-operator-leader-election",
        "manifests/job.yaml",
    ):
        assert right in str(ending), right


def test_a_lease_that_is_deleted_in_mid_run_ends_it() -> None:
    """W12: the lock is gone and with it the record: 6. A rerun finishes, and only then a revert needs no --from."""
    world = World()
    world.checker.before_write = lambda _write: None  # type: ignore[method-assign]
    own = (kinds.LEASES, cluster.NAMESPACE, OWN_LEASE)
    world.run(do_at(of_trees()[_HALF // 2].write, "after", lambda _: world.store.drop(*own)), code=STUCK)
    ending = world.run(revert=True, code=STUCK)
    assert "--from" in str(ending)
    world.run()
    world.run(revert=True)
    assert world.grove() == world.undone


def other_source(objects: list[Object]) -> World:
    """A cluster whose old hashes are not those that the invariants know."""
    world = World(objects)
    world.checker.after_write = lambda _write: None  # type: ignore[method-assign]
    return world


def of_two_sources() -> World:
    other = [item for item in cluster.grown("legacy-1.33") if cluster.set_of(item) == "web"]
    rest = [item for item in cluster.grown() if cluster.set_of(item) != "web"]
    return other_source([*other, *rest])


def test_two_sources_in_one_cluster_ask_for_from() -> None:
    """W13: and a wrong one is refused where any value contradicts it; a rerun finds one source in what is left."""
    world = of_two_sources()

    def comes_last(step: Step) -> bool:
        return step.is_grove and step.moment == "after" and step.name.startswith("web")

    for _ in range(2):
        world.die(when(comes_last, kill, times=1))
        assert "--from" in str(world.run(revert=True, code=None))
    ending = world.run(revert=True, source=cluster.SOURCE, code=(NO_RECORD, STUCK))
    assert "legacy-1.33" in str(ending)


@pytest.mark.parametrize("dies", [False, True], ids=["", "the second one died before it wrote"])
def test_runs_of_two_sources_ask_for_from(*, dies: bool) -> None:
    """W13: each of two runs that ended well had one source, and a revert is of both."""
    world = of_two_sources()
    world.run(source=cluster.SOURCE, skip_refused=True)
    if dies:
        world.deploy(replicas=1)
        world.die(when(lambda _: world.record_state == "stopping", kill), source="legacy-1.33")
    world.run(source="legacy-1.33")
    ending = world.run(revert=True, code=NO_RECORD)
    assert "--from" in str(ending)


def test_a_rerun_of_a_canonical_source_does_not_wait_for_an_operator_that_is_at_zero() -> None:
    """A set was scaled in the pause, so no operator has seen its newest generation; the record proves the source."""
    world = killed(world=other_source(cluster.grown("canonical-1.34")))
    world.store.edit(*WEB, lambda pcs: pcs["spec"].update(replicas=2))
    world.run()


def test_a_revert_leaves_what_was_reordered_in_the_pause_of_a_canonical_source() -> None:
    """W15: that operator sees no edit, and replaces the pods; accepted, as only builds of main are canonical."""
    world = killed(world=other_source(cluster.grown("canonical-1.34")))
    users.act(world, "reorder", 1, 1)
    world.run(revert=True)
    assert len(would_roll(world.grove(), "canonical-1.34")) == 3


def test_what_an_old_operator_rolled_back_before_a_run_is_no_matter_of_its_migration() -> None:
    """It was stopped by hand, and OnDelete had kept new hashes: the second run has a time of its own all the same."""
    world = World(cluster.grown())
    world.run()
    world.upgrade()
    world.operate(cluster.TARGET, ALPHA_11)
    world.upgrade(cluster.OLD_IMAGE)
    world.advance(3600)
    assert world.operate(cluster.SOURCE, ALPHA_9)
    world.checker.learn()
    world.deploy(replicas=0)
    world.advance(3600)
    world.run()
    world.upgrade()
    world.operate(cluster.TARGET, ALPHA_11)
    world.start().verify()
