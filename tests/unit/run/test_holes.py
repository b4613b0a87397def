"""States that once ended badly, each through the public entry: what a run does in them, and what it says."""

from __future__ import annotations

import pytest

from migrator import resources
from migrator.errors import Reverted
from migrator.planning.model import Severity
from migrator.planning.options import PlanOptions
from migrator.run.dry_run import preview
from migrator.store import DryRun
from testbed import operator_installation as installation
from testbed.trees import Object
from tests.faults import cluster
from tests.faults.process import DONE, FAILED, KILLED, REFUSED, STUCK, Ending, Moment, Step, do_at, kill_at
from tests.faults.steps import GROVE, first, of_trees
from tests.faults.users import begin_update
from tests.faults.world import LONGER_THAN_A_LEASE, World
from tests.support.tables import table

LOST_LABELS = {"app": "own"}


def bad(world: World) -> bool:
    """Whether the old operator may act on hashes that it does not know."""
    return bool(world.replicas) and world.image == cluster.OLD_IMAGE and world.grove() != world.before


# --- the old operator beside a migrated cluster ---------------------------------------------------------------------


@pytest.mark.parametrize("stopped", [False, True], ids=["goes on", "is told to end"])
def test_a_run_that_another_overtook_never_starts_the_old_operator(*, stopped: bool) -> None:
    """A second run migrates everything while the first stands still at one of its writes, or is told to end there."""
    number = 1
    while True:
        world = World()
        seen: list[Ending] = []

        def overtake(step: Step, world: World = world, seen: list[Ending] = seen, number: int = number) -> None:
            if step.write == number and step.moment == "after" and not seen:
                seen.append(world.run())
                if stopped:
                    step.process.stop.set()

        ending = world.run(overtake)
        if not seen:
            break
        assert not bad(world), (number, str(ending))
        if seen[0].code == DONE:
            assert world.grove() == world.after
        number += 1
    assert number > 10


# --- the operator at zero for ever ----------------------------------------------------------------------------------


def test_a_refused_rerun_gives_back_the_operator_that_a_dead_run_stopped() -> None:
    """Killed after the scale-down; what refuses the rerun needs the operator, so that comes back: exit 3."""
    world = World()
    assert world.run(kill_at(first("deployments", "scale"), "after")).code == KILLED
    world.advance(30)
    begin_update(world)
    ending = world.run()
    assert (ending.code, world.replicas, world.records) == (REFUSED, 1, []), str(ending)


def test_the_replicas_of_the_last_stop_come_back() -> None:
    """Killed after the scale-down, scaled to 2 by somebody: a rerun that is refused behind the fence gives 2 back."""
    world = World()
    assert world.run(kill_at(first("deployments", "scale"), "after")).code == KILLED
    world.advance(30)
    world.deploy(replicas=2)
    ending = world.run(do_at(1, "after", lambda _: begin_update(world)))
    assert (ending.code, world.replicas, world.records) == (REFUSED, 2, []), str(ending)


@table(
    "lag options",
    ("The controller acts 5 s after the scale-down: pods that still run do not hide what was stopped.", (5.0, {})),
    (
        "An update that begins at zero needs the operator to end: it is not waited for.",
        (0.0, {"wait": 3600.0}),
    ),
)
def test_a_run_that_is_refused_behind_the_fence_gives_the_operator_back(lag: float, options: dict[str, float]) -> None:
    """Refused by an update that began after the scale-down, at once and not in an hour."""
    world = World()
    world.lag, began = lag, world.now()
    at_zero = do_at(first("deployments", "scale"), "after", lambda _: begin_update(world))
    ending = world.run(at_zero, **options)
    assert (ending.code, world.replicas, world.records) == (REFUSED, 1, []), str(ending)
    assert (world.now() - began).total_seconds() < 600


def test_a_pod_that_no_scale_down_ends_is_waited_for_and_named() -> None:
    """A pod with the operator's labels beside a Deployment at zero: 1 once the patience is over, without a deadline."""
    world = World(replicas=0)
    world.store.put(installation.pod(cluster.OLD_IMAGE, name="bare"))
    ending = world.run()
    assert (ending.code, world.records) == (FAILED, []), str(ending)
    assert "grove-system/bare" in str(ending)


@pytest.mark.parametrize("late", [False, True], ids=["in the preflight", "behind the fence"])
def test_replicas_that_somebody_else_set_to_zero_stay(*, late: bool) -> None:
    """An operator at zero that no run of ours stopped is somebody's maintenance: a refused run leaves it alone."""
    world = World(replicas=0)
    if not late:
        begin_update(world)
    ending = world.run(do_at(1, "after", lambda _: begin_update(world)) if late else None)
    assert (ending.code, world.replicas) == (REFUSED, 0), str(ending)


@pytest.mark.parametrize(
    ("number", "moment"), [(first("podcliquesets", "status"), "before"), (of_trees()[-1].write, "after")]
)
def test_told_to_end_beside_a_restored_operator_it_does_not_let_that_in(number: int, moment: Moment) -> None:
    """GitOps puts the old operator back at a write, where a SIGTERM comes too: 6, and the Leases are not let go of."""
    world = World()
    world.forbid_unknown_hashes()

    def restore(step: Step) -> None:
        world.deploy(replicas=1)
        step.process.stop.set()

    ending = world.run(do_at(number, moment, restore))
    assert ending.code == STUCK, str(ending)
    world.advance(300)
    world.deploy(replicas=0)
    assert world.run().code == DONE


# --- operators that no Lease keeps out ------------------------------------------------------------------------------


def without_election(world: World) -> None:
    """The operator's configuration turns leader election off."""

    def change(body: Object) -> None:
        body["data"]["config.yaml"] = body["data"]["config.yaml"].replace("enabled: true", "enabled: false")

    world.store.edit(resources.CONFIG_MAPS, cluster.NAMESPACE, "grove-operator-cm-0123abcd", change)


@pytest.mark.parametrize(("image", "code"), [(cluster.OLD_IMAGE, REFUSED), (cluster.NEW_IMAGE, STUCK)])
def test_an_operator_without_election_stops_the_run(image: str, code: int) -> None:
    """It acts at once: the run sees it with its next look, and goes back, or stops where the target's is at work."""
    world = World()
    without_election(world)
    number = first("pods") + 1

    def start(_: Step) -> None:
        world.store.put(installation.pod(image, name="early"))
        world.advance(6)

    ending = world.run(do_at(number, "after", start))
    assert ending.code == code, str(ending)
    assert "early" in str(ending.error)
    if code == REFUSED:
        assert isinstance(ending.error, Reverted)
        assert world.grove() == world.before


def test_slow_reads_of_operators_do_not_hold_up_the_patches() -> None:
    """Where a read of Deployments takes 20 s, patches are sent between two looks for an operator: no look for each."""
    world, steps = World(), list[str]()

    def at(step: Step) -> None:
        if step.moment == "after" and step.resource in GROVE:
            steps.append("patch")
        if step.moment == "before" and step.verb == "list" and step.target == "deployments/" and "patch" in steps:
            steps.append("look")
            for _ in range(20):
                world.advance(1)
                step.process.renew()

    assert world.start(at=at).run().code == DONE
    last = len(steps) - steps[::-1].index("patch")
    assert steps[:last].count("look") < steps.count("patch") / 2


def own_labels(world: World) -> None:
    """An installation under labels and a container name of its own, behind Grove's webhook."""
    for pod in world.store.everything(resources.PODS):
        if pod["metadata"]["namespace"] == cluster.NAMESPACE:
            world.store.drop(resources.PODS, cluster.NAMESPACE, pod["metadata"]["name"], cascade=False)
    world.store.drop(resources.DEPLOYMENTS, cluster.NAMESPACE, cluster.DEPLOYMENT, cascade=False)
    deployment, pod = installation.deployment(cluster.OLD_IMAGE), installation.pod(cluster.OLD_IMAGE, name="own-1")
    deployment["metadata"]["labels"] = pod["metadata"]["labels"] = LOST_LABELS
    deployment["spec"]["selector"]["matchLabels"] = deployment["spec"]["template"]["metadata"]["labels"] = LOST_LABELS
    for spec in (deployment["spec"]["template"]["spec"], pod["spec"]):
        spec["containers"][0]["name"] = "manager"
    for body in (deployment, pod, *installation.webhook(selector=LOST_LABELS)):
        world.store.put(body)


def test_an_operator_under_its_own_labels_is_seen() -> None:
    """Its webhook's Service names it: without --stop-operator the run refuses beside it."""
    world = World()
    own_labels(world)
    ending = world.run(stop_operator=False)
    assert ending.code == REFUSED, str(ending)
    assert "GM-122" in str(ending.error)


# --- exits that say too little --------------------------------------------------------------------------------------


def test_a_half_written_cluster_never_ends_with_3() -> None:
    """A dead run left it half-written, and the rerun is refused without the right to stop the operator: 6."""
    world = World()
    assert world.run(kill_at(first("podcliques", "status"), "after")).code == KILLED
    world.deploy(replicas=1)
    ending = world.run(stop_operator=False)
    assert ending.code == STUCK, str(ending)


def test_sigterm_while_waiting_for_idle_is_no_refusal() -> None:
    """Told to end before anything was done: 1, so that a Job is tried again."""
    world = World()
    begin_update(world)

    def sleep(seconds: float) -> None:
        world.advance(seconds)
        process.stop.set()

    process = world.start(sleep=sleep)
    assert process.run(wait=60.0).code == FAILED
    assert world.replicas == 1


def test_a_dry_run_ends_as_the_run_would() -> None:
    """Beside a live operator, and without --stop-operator, both refuse."""
    world = World()
    ending = world.run(stop_operator=False, dry_run=DryRun.SERVER)
    assert ending.code == REFUSED, str(ending)
    assert world.run(dry_run=DryRun.SERVER).code == DONE


# --- a record of another migration ----------------------------------------------------------------------------------


def test_the_way_back_after_a_finished_migration_is_a_migration() -> None:
    """The record of the finished run is open for a revert; a run in the other direction closes it and goes on."""
    world = World(cluster.grown())
    assert world.run().code == DONE
    ending = world.run(target=cluster.SOURCE)
    assert ending.code == DONE, str(ending)
    assert world.grove() == world.before


def test_a_half_written_migration_of_other_schemes_refuses_before_anything() -> None:
    """Another direction cannot finish it: nothing is touched, and the exit code says that something is left."""
    world = World(cluster.grown())
    assert world.run(kill_at(first("podcliques", "status"), "after")).code == KILLED
    before, replicas = world.grove(), world.replicas
    ending = world.run(source=cluster.SOURCE, target="legacy-1.33")
    assert ending.code == STUCK, str(ending)
    assert "GM-205" in str(ending.error)
    assert (world.grove(), world.replicas) == (before, replicas)


def test_a_plan_warns_of_what_a_run_refuses() -> None:
    """A second operator, another migration that did not end, and an operator that runs."""

    def found() -> list[tuple[str, Severity]]:
        options = PlanOptions(source=cluster.SOURCE, target="legacy-1.33")
        plan = preview(world.store, options, now=world.now, namespace=cluster.NAMESPACE)
        return [(f.code, f.severity) for f in plan.findings if f.code in {"GM-122", "GM-203", "GM-205"}]

    world = World(cluster.grown())
    assert found() == [("GM-122", Severity.WARNING)]
    world.run(kill_at(first("podcliques", "status"), "after"))
    world.advance(LONGER_THAN_A_LEASE)
    assert found() == [("GM-205", Severity.WARNING)]
    world.store.put(installation.deployment(cluster.OLD_IMAGE, replicas=0, namespace="other", observed=True))
    assert found() == [("GM-203", Severity.WARNING), ("GM-205", Severity.WARNING)]
