"""Runs through the public entry: states that once ended badly, and what a run would do before it begins."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
import structlog
from structlog.testing import capture_logs

from migrator.errors import AGAIN, STAY_AT_ZERO, Rejected, Reverted
from migrator.exact_json import JSONObject
from migrator.planning.model import Severity
from migrator.run.context import RunOptions
from migrator.run.leases import OWN_LEASE
from migrator.run.migration import look_ahead
from migrator.run.preview import preview
from testbed import operator_installation as installation
from tests.faults import cluster
from tests.faults.operators import would_roll
from tests.faults.process import FAILED, KILLED, REFUSED, STUCK, Step, do_at, kill_at, stopped, when
from tests.faults.steps import finished, first, killed
from tests.faults.users import begin_update
from tests.faults.world import World
from tests.support.builders import options_of
from tests.support.clock import context_of
from tests.support.tables import table


@table(
    "replicas late",
    ("The preflight refuses.", (1, False)),
    ("Somebody scaled it to 2, and the rerun is refused behind the fence: the replicas of the last stop.", (2, True)),
)
def test_a_refused_rerun_gives_back_the_operator_that_a_dead_run_stopped(replicas: int, *, late: bool) -> None:
    """Killed after the scale-down; what refuses the rerun needs the operator, so that comes back: exit 3."""
    world = World().die(stopped)
    if late:
        world.deploy(replicas=replicas)
    else:
        begin_update(world)
    world.run(do_at(1, "after", lambda _: begin_update(world)) if late else None, code=REFUSED)
    assert world.replicas == replicas
    assert world.record == ""


@table(
    "lag options",
    ("The controller acts 5 s after the scale-down: pods that still run do not hide what was stopped.", (5.0, {})),
    ("An update that begins at zero needs the operator to end: it is not waited for.", (0.0, {"wait": 3600.0})),
)
def test_a_run_that_is_refused_behind_the_fence_gives_the_operator_back(lag: float, options: dict[str, float]) -> None:
    """Refused by an update that began after the scale-down, at once and not in an hour."""
    world = World()
    world.lag, began = lag, world.now()
    at_zero = do_at(first("deployments", "scale"), "after", lambda _: begin_update(world))
    world.run(at_zero, **options, code=REFUSED)
    assert world.replicas == 1
    assert world.record == ""
    assert (world.now() - began).total_seconds() < 600


@pytest.mark.parametrize("late", [False, True], ids=["in the preflight", "behind the fence"])
def test_replicas_that_somebody_else_set_to_zero_stay(*, late: bool) -> None:
    """An operator at zero that no run of ours stopped is somebody's maintenance: a refused run leaves it alone."""
    world = World(cluster.grown(), replicas=0)
    if not late:
        begin_update(world)
    world.run(do_at(1, "after", lambda _: begin_update(world)) if late else None, code=REFUSED)
    assert world.replicas == 0


@pytest.mark.parametrize(("image", "code"), [(cluster.OLD_IMAGE, REFUSED), (cluster.NEW_IMAGE, STUCK)])
def test_an_operator_without_election_stops_the_run(image: str, code: int) -> None:
    """It acts at once: the run sees it with its next look, and goes back, or stops where the target's is at work."""
    world = World(elects=False)
    number = first("pods") + 1

    def start(_: Step) -> None:
        world.store.put(installation.pod(image, name="early"))
        world.advance(6)

    ending = world.run(do_at(number, "after", start), code=code)
    assert "early" in str(ending.error)
    if code == REFUSED:
        assert isinstance(ending.error, Reverted)
        assert world.grove() == world.undone


def test_slow_reads_of_operators_do_not_hold_up_the_patches() -> None:
    """Where a read of Deployments takes 20 s, patches are sent between two looks for an operator: no look for each."""
    world, steps = World(), list[str]()

    def at(step: Step) -> None:
        if step.moment == "after" and step.is_grove:
            steps.append("patch")
        if step.moment == "before" and step.verb == "list" and step.target == "deployments/" and "patch" in steps:
            steps.append("look")
            for _ in range(20):
                world.advance(1)
                step.process.renew()

    world.start(at=at).run()
    last = len(steps) - steps[::-1].index("patch")
    assert steps[:last].count("look") < steps.count("patch") / 2


def test_a_half_written_cluster_never_ends_with_3() -> None:
    """A dead run left it half-written, and the rerun is refused without the right to stop the operator: 6."""
    world = killed()
    world.deploy(replicas=1)
    world.run(stop_operator=False, code=STUCK)


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_set_with_new_hashes_beside_no_operator_is_what_a_dead_run_may_have_left(*, dry_run: bool) -> None:
    """Rule 1: no Lease tells of a run, one set holds new hashes only, and another one is refused: 6."""
    grown = cluster.by_key(cluster.grown())
    new = [item for item in cluster.migrated(grown).values() if cluster.set_of(item) != "web"]
    world = World([*new, *(item for item in grown.values() if cluster.set_of(item) == "web")], replicas=0)
    begin_update(world)
    world.run(dry_run=dry_run, code=STUCK)


def test_new_hashes_of_a_run_that_ended_since_the_first_look_are_seen() -> None:
    """It ended well right before this one took the Lease; refused then, 3 would let the old operator start: 6."""
    world = World(cluster.grown())
    world.checker.before_write = lambda _: None  # type: ignore[method-assign,assignment]

    def other(_: Step) -> None:
        world.start().run()
        begin_update(world)

    world.run(when(lambda step: step.write == 1, other, times=1), code=STUCK)


def test_hashes_that_both_algorithms_give_are_no_sign_of_a_dead_run() -> None:
    """One set is in canonical order, another is refused until the old operator runs: 3, as nobody has written."""
    world = World(cluster.grown("legacy-1.35"), replicas=0)
    begin_update(world)
    world.run(target="canonical-1.35", code=REFUSED)


@table(
    "begin",
    ("For an update to end.", (begin_update,)),
    ("For another run to end.", (lambda world: world.hand_lease_to("another_1", name=OWN_LEASE),)),
)
def test_sigterm_while_waiting_is_no_refusal(begin: Callable[[World], object]) -> None:
    """Told to end before anything was done: 1, so that a Job is tried again."""
    world = World()
    begin(world)

    def sleep(seconds: float) -> None:
        world.advance(seconds)
        process.stop.set()

    process = world.start(sleep=sleep)
    process.run(wait=60.0, code=FAILED)
    assert process.writes == []
    assert world.replicas == 1


def test_a_reason_to_wait_is_logged_once() -> None:
    """Ten minutes of waiting are no 600 lines in front of what a Job's log says at its end."""
    world = World()
    begin_update(world)
    with capture_logs() as logs:
        world.start(log=structlog.get_logger()).run(wait=600.0, code=REFUSED)
    assert [one["codes"] for one in logs if one["event"] == "waiting_for_idle"] == [["GM-101"]]
    assert [one["stage"] for one in logs if one["event"] == "stage"] == ["looking"]


def test_a_wrong_source_is_not_waited_for() -> None:
    """Only another --from helps: refused at once, whatever ``--wait`` says."""
    world = World(cluster.grown())
    began = world.now()
    ending = world.run(source="legacy-1.33", wait=3600.0, code=REFUSED)
    assert world.now() - began < timedelta(minutes=1)
    assert "Leave out --from" in str(ending.error)


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_half_written_migration_of_other_schemes_refuses_before_anything(*, dry_run: bool) -> None:
    """Another direction cannot finish it: nothing is touched, and the exit code says that something is left."""
    world = killed(world=World(cluster.grown()))
    before, replicas = world.grove(), world.replicas
    ending = world.run(source=cluster.SOURCE, target="legacy-1.33", dry_run=dry_run, code=STUCK)
    assert "GM-205" in str(ending.error)
    assert STAY_AT_ZERO in str(ending)
    assert AGAIN not in str(ending), "it would be refused again"
    assert "No stored hash" not in str(ending), "some are of a third scheme"
    assert world.grove() == before
    assert world.replicas == replicas


def test_a_plan_warns_of_what_a_run_refuses() -> None:
    """Another migration that did not end; not an operator that runs, which is how every plan finds a cluster."""

    def found() -> list[tuple[str, Severity]]:
        options = options_of(source=cluster.SOURCE, target="legacy-1.33")
        plan = preview(world.store, options, now=world.now)
        return [(f.code, f.severity) for f in plan.findings if f.code in {"GM-122", "GM-203", "GM-205"}]

    world = World(cluster.grown())
    assert found() == []
    killed(world=world)
    assert found() == [("GM-205", Severity.WARNING)]
    world.store.put(installation.deployment(cluster.OLD_IMAGE, replicas=0, namespace="other", observed=True))
    assert found() == [("GM-203", Severity.WARNING), ("GM-205", Severity.WARNING)]


@table(
    "revert",
    ("The revert starts the old operator, so it must not overlook a value.", (True,)),
    ("A run ends the migration, so it must not overlook one either.", (False,)),
)
def test_a_late_write_of_a_killed_run_is_seen_by_the_next(*, revert: bool) -> None:
    """The last run died at its first patch, which the cluster applies while the next one waits for its Lease."""
    world = World() if revert else finished()
    begun, died = world.grove(), list[Step]()
    patched, wanted = (world.after, world.undone) if revert else (world.before, world.after)

    def die(step: Step) -> None:
        died.append(step)
        step.process.kill()

    world.run(when(lambda step: step.is_grove, die, times=1), revert=not revert, code=KILLED)

    def land(_: Step) -> None:
        [key] = [key for key in begun if (cluster.RESOURCES[key[0]], key[2]) == (died[0].resource, died[0].name)]
        world.store.put(patched[key])

    world.run(when(lambda step: step.kind == "sleep", land, times=1), revert=revert)
    assert cluster.hashes(world.grove()) == cluster.hashes(wanted)


def test_a_set_with_a_hash_in_an_unknown_place_is_left_out_behind_the_fence_too() -> None:
    """GM-136 refuses one set, and ``--skip-refused`` migrates the others."""
    world = World()

    def mark(body: JSONObject) -> None:
        body["metadata"]["annotations"] = {"example.com/made-from": body["status"]["currentGenerationHash"]}

    world.edit("web", mark)
    before = world.grove()
    world.run(skip_refused=True)
    changed = {cluster.set_of(item) for key, item in world.grove().items() if item != before[key]}
    assert changed == {"disagg", "patient"}


def test_a_rule_that_is_made_during_the_stop_refuses_before_the_first_patch() -> None:
    """Behind the fence patches are proven again, so that the operator comes back and nothing was written."""
    world = World()

    def reject(step: Step) -> None:
        if step.process.writes and world.replicas == 0 and step.target.startswith("pods/") and step.kind != "read":
            raise Rejected("labels: Invalid value")

    process = world.start(at=reject)
    ending = process.run(code=REFUSED)
    assert [step for step in process.writes if step.is_grove] == []
    assert "a dry run was rejected" in str(ending)
    assert world.replicas == 1
    assert world.record == ""


# --- what a run would do, before it begins ----------------------------------------------------------------------------


def test_a_run_that_did_not_end_is_gone_on_with() -> None:
    """With an open record there is something to do, refused or not: to finish, or to put back."""
    world = World().die(kill_at(3, "after"))
    options = RunOptions(options_of(target=cluster.TARGET), stop_operator=False)
    found = look_ahead(world.store, options, context_of(lambda: world.seconds, world.now))
    assert found.open_record is not None
    assert found.writes


def test_a_rehearsal_waits_only_for_what_may_end_without_help() -> None:
    """A live operator that may not be stopped is refused at once, whatever ``--wait`` says."""
    world = World()
    ending = world.run(dry_run=True, stop_operator=False, wait=3600.0, code=REFUSED)
    assert "GM-122" in str(ending)
    assert world.seconds < 60


@pytest.mark.parametrize("replaced", [1, 2])
def test_a_run_spares_what_an_upgrade_without_a_migration_has_not_replaced_yet(replaced: int) -> None:
    """It does not wait for the target's operator, which would replace the rest, and starts it again at the end."""
    world = World(cluster.grown())
    world.upgrade()
    assert len(world.operate(cluster.TARGET, replacing=replaced)) == replaced
    left, began = would_roll(world.grove(), cluster.TARGET), world.now()
    assert "Run with --allow GM-102" in str(world.run(wait=3600.0, code=REFUSED))
    assert (world.now() - began).total_seconds() < 600
    world.run(allow=["GM-102"])
    assert world.replicas == 1
    assert left
    assert world.operate(cluster.TARGET) == []


def test_an_edit_that_an_upgrade_has_overtaken_refuses_before_anything_is_stopped() -> None:
    """It was in flight when somebody upgraded without a migration; the set is not done, and old pods are left."""
    world = World(cluster.grown())
    world.edit("web", lambda pcs: cluster.edit(pcs, "router"))
    world.operate(cluster.SOURCE, replacing=0)
    world.upgrade()
    world.operate(cluster.TARGET, replacing=0)
    world.run(allow=["GM-102"], code=REFUSED)
    assert world.replicas == 1


def is_tried(step: Step) -> bool:
    """Whether a patch of an object of Grove's is about to be sent."""
    return (step.verb, step.moment) == ("patch", "before") and step.target.split("/")[0] in {"pods", "podcliques"}


def test_a_rehearsal_that_is_told_to_end_is_no_success() -> None:
    """Sets that were not tried are neither proven nor wrong."""
    tells = when(lambda step: is_tried(step) and "/patient" in step.target, lambda step: step.process.stop.set())
    ending = World().run(tells, dry_run=True, code=FAILED)
    assert "after 2 of 3 sets" in str(ending)


def test_a_rehearsal_ends_at_its_timeout_which_counts_from_the_end_of_the_wait() -> None:
    """An update ends after minutes; then every patch takes 5 s, so that after the first proofs no set is begun."""
    world = World()
    world.latency = 0.0
    begin_update(world)

    def at(step: Step) -> None:
        if step.kind == "sleep" and world.seconds > 200:
            world.edit("web", lambda pcs: pcs["spec"]["template"]["cliques"][0].pop("annotations", None))
        world.advance(5.0 if is_tried(step) else 0.0)

    ending = world.run(at, dry_run=True, wait=3600.0, timeout=10.0, code=FAILED)
    assert "after 0 of 3 sets" in str(ending)
