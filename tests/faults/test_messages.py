"""What a run says at its end of the sets: never more than it has seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from migrator import kinds
from migrator.errors import AGAIN, DELETE_JOB, MAY_DIFFER, STAY_AT_ZERO, Unreachable
from migrator.run.leases import OWN_LEASE, RECORD
from migrator.run.operator import OperatorFlags
from testbed import operator_installation as installation
from tests.faults import cluster, users
from tests.faults.process import FAILED, KILLED, REFUSED, STUCK, At, Step, do_at, kill, raising, when
from tests.faults.steps import finished, killed, of_trees
from tests.faults.world import LONGER_THAN_A_LEASE, World
from tests.support.tables import table

_RUNS_AGAIN: Final = f"Deployment {cluster.NAMESPACE}/{cluster.DEPLOYMENT} has its replicas again"


def gone_from(chosen: Callable[[Step], bool]) -> At:
    """The API server answers nothing from this step on."""
    down = list[Step]()

    def at(step: Step) -> None:
        down.extend([step] if chosen(step) else [])
        if down and step.kind != "sleep":
            raise Unreachable("HTTP 503")

    return at


def test_an_error_does_not_contradict_itself() -> None:
    """Told to end, and the operator cannot be given back: 6, and not also that nothing is changed."""
    world = World()
    scales = list[Step]()

    def at(step: Step) -> None:
        if step.subresource == "scale" and step.write:
            if scales and step.moment == "before":
                raise Unreachable("HTTP 503")
            scales.extend([step] if step.moment == "after" else [])
            step.process.stop.set()

    ending = world.run(at, code=STUCK)
    assert "Nothing is changed" not in str(ending)


@table(
    "chosen",
    ("While the sets are read.", (lambda step: step.target == "podcliques/",)),
    ("While the writes are proven.", (lambda step: step.kind == "dry run",)),
    ("At its record.", (lambda step: step.write == 2,)),
)
def test_an_outage_before_the_operator_is_stopped_changes_nothing(chosen: Callable[[Step], bool]) -> None:
    """The API server restarts, and a look has seen the operator at work: 1, not that it is to be kept at zero."""
    world = World(cluster.grown())
    ending = world.run(gone_from(chosen), code=FAILED)
    assert "Nothing is changed; run again" in str(ending)
    assert world.replicas == 1


@table(
    "ends chosen",
    ("It holds its Lease, for which this one waits.", (False, lambda step: step.kind == "sleep")),
    ("It died, and its Lease has expired.", (False, lambda step: step.write and step.moment == "after")),
    ("It has ended with 6.", (True, lambda step: step.write and step.moment == "after")),
)
def test_an_outage_after_another_run_has_begun_is_not_said_to_change_nothing(
    *, ends: bool, chosen: Callable[[Step], bool]
) -> None:
    """The operator was at work when this run looked, and another one has written since: 6, not 1."""
    world, begun, down = World(cluster.grown()), list[Step](), list[Step]()

    def other(step: Step) -> None:
        if step.is_grove and step.moment == "after":
            if not ends:
                step.process.kill()
            step.process.stop.set()

    def at(step: Step) -> None:
        if step.write == 1 and not begun:
            begun.append(step)
            world.run(other, code=STUCK if ends else KILLED)
            return
        if down and step.kind != "sleep":
            raise Unreachable("HTTP 503")
        down.extend([step] if begun and chosen(step) else [])

    world.run(at, code=STUCK)


def test_an_outage_after_our_lease_has_expired_is_not_said_to_change_nothing() -> None:
    """A run is cut off before it stops the operator, and another one takes its Lease and dies half-way: 6, not 1."""
    world, is_cut_off = World(cluster.grown()), lambda step: step.write == 2
    is_gone = gone_from(is_cut_off)

    def overtake(_: Step) -> None:
        world.advance(LONGER_THAN_A_LEASE)
        world.die(do_at(of_trees()[8].write, "after", kill))

    overtakes = when(is_cut_off, overtake, times=1)

    def at(step: Step) -> None:
        overtakes(step)
        is_gone(step)

    world.run(at, code=STUCK)


@table(
    "named",
    ("No record is read where the operator may be in two namespaces.", (False,)),
    ("It is named, and at zero; the Leases of the run that died are deleted.", (True,)),
)
def test_an_operator_elsewhere_is_no_sign_that_no_run_died(*, named: bool) -> None:
    """A run died half-way, a Deployment in another namespace looks like an operator at work, and there is an outage."""
    world = killed()
    world.store.put(installation.deployment(cluster.OLD_IMAGE, namespace="other"))
    for name in (OWN_LEASE, cluster.LEASE) if named else ():
        world.store.drop(kinds.LEASES, cluster.NAMESPACE, name)
    flags = OperatorFlags(cluster.NAMESPACE, cluster.DEPLOYMENT) if named else OperatorFlags()
    world.run(gone_from(lambda step: step.target == "podcliques/"), flags=flags, code=STUCK)


def test_a_set_that_is_edited_once_it_is_written_still_has_its_new_hashes() -> None:
    """A signal leaves the other sets old, and no message says that no hash is a new one."""
    world = World(cluster.grown())

    def edit(step: Step) -> None:
        world.edit("disagg", lambda pcs: cluster.edit(pcs, "frontend"))
        step.process.stop.set()

    committed = (kinds.POD_CLIQUE_SETS, "disagg", "after")
    ending = world.run(
        when(lambda step: (step.resource, step.name, step.moment) == committed, edit, times=1), code=STUCK
    )
    assert "No stored hash is a new one" not in str(ending)


@table(
    "namespace told",
    ("The next attempt of a Job would migrate again what a person has reverted meanwhile.", (cluster.NAMESPACE, True)),
    ("On a laptop nobody but that person runs it again.", (None, False)),
)
def test_a_job_is_deleted_before_a_revert(namespace: str | None, *, told: bool) -> None:
    """Where --revert is advised, so is what must come first."""
    process = World().start(at=do_at(of_trees()[3].write, "before", lambda step: step.process.stop.set()))
    process.namespace = namespace
    assert (DELETE_JOB in str(process.run(code=STUCK).error)) == told


def test_a_revert_is_not_told_to_add_revert() -> None:
    """Cut off from the API server, it is the same command that is run again."""
    gone = when(lambda step: step.process.wrote > 3, raising(lambda: Unreachable("no answer")))
    ending = finished().run(gone, revert=True, code=STUCK)
    assert str(ending).endswith(AGAIN)


@table(
    "replicas image said",
    ("The run had stopped it.", (1, cluster.OLD_IMAGE, _RUNS_AGAIN)),
    ("So it had, and its tag names no release.", (1, installation.image("latest"), _RUNS_AGAIN)),
    ("It was at zero before.", (0, cluster.OLD_IMAGE, f"you can start an operator of {cluster.SOURCE}")),
)
def test_a_run_that_went_back_says_whether_the_operator_runs(replicas: int, image: str, said: str) -> None:
    """Who reads the last line must not start what runs, nor wait for what is at zero."""
    world = World(cluster.grown())
    world.deploy(replicas=replicas, image=image)
    fails = when(lambda step: step.process.wrote == 3, raising(lambda: ZeroDivisionError("a bug")), times=1)
    assert said in str(world.run(fails, code=REFUSED))


@table(
    "revert said",
    ("Every set is written, and the stops are used up.", (False, "No stored hash is an old one")),
    ("Every hash is old again, and the operator is the target's.", (True, "No stored hash is a new one")),
)
def test_a_message_says_what_the_hashes_are(said: str, *, revert: bool) -> None:
    """Rule 15: 6 beside an operator that is started at once, and whether all is new or all is old."""
    world = World()
    if revert:
        world.run()
        world.deploy(replicas=0, image=cluster.NEW_IMAGE)
    wanted = world.undone if revert else world.after
    ending = world.run(
        lambda _: None if world.grove() != wanted else world.deploy(replicas=1), revert=revert, code=STUCK
    )
    assert world.grove() == wanted
    assert said in str(ending)


def test_a_message_does_not_say_what_edited_sets_hold() -> None:
    """Rule 15: a value of the template before the edit may be an old one, so 6 claims neither."""
    world = World()
    ending = world.run(do_at(of_trees()[0].write, "after", lambda _: users.act(world, "edit", 1, 2)), code=STUCK)
    assert MAY_DIFFER in str(ending)


def test_a_message_does_not_say_what_edited_sets_hold_after_a_revert() -> None:
    """Rule 15: a revert leaves the new hashes of the template before the edit, so 6 claims neither."""
    world = finished()
    world.deploy(replicas=0, image=cluster.NEW_IMAGE)
    users.act(world, "edit", 1, 2)
    read_back = list[Step]()

    def starts(step: Step) -> None:
        if step.process.wrote and step.target == "podcliquesets/":
            read_back.append(step)
        if read_back:
            world.deploy(replicas=1)

    ending = world.run(starts, revert=True, code=STUCK)
    assert MAY_DIFFER in str(ending)


def killed_at_its_end() -> World:
    world = World(elects=False)
    return world.die(when(lambda step: step.moment == "after" and world.record_state == "done", kill))


@table(
    "make",
    ("A run died before it gave the operator's Lease back, and the upgrade went on.", (killed_at_its_end,)),
    ("It was installed too early, beside half-written sets.", (killed,)),
)
def test_beside_the_targets_operator_that_is_the_way_on_and_its_price_is_said(make: Callable[[], World]) -> None:
    """A set was edited, so that the rerun is refused; nobody is told to keep the operator at zero."""
    world = make()
    world.deploy(replicas=1, image=cluster.NEW_IMAGE)
    users.begin_update(world)
    said = str(world.run(code=STUCK))
    costs = "let the target's operator run, which recreates the pods of sets that are not migrated"
    assert f"Remove the cause, and run again. Only if you cannot, {costs}" in said, said
    assert "at zero" not in said, said


@table(
    "dry_run",
    ("A rerun.", (False,)),
    ("Its dry run.", (True,)),
)
def test_after_an_edit_in_mid_run_the_same_command_is_no_advice(*, dry_run: bool) -> None:
    """It would end with 6 again: only the revert helps, after which the old operator rolls the edit out."""
    world = killed(world=World(cluster.grown()))
    users.begin_update(world)
    said = str(world.run(code=STUCK, dry_run=dry_run))
    assert STAY_AT_ZERO in said, said
    assert "Undo the run with `--revert`, let the old operator end what blocks it, and run again" in said, said
    assert "command again" not in said, said
    assert "operator finish" not in said, said


def test_beside_a_dead_run_elsewhere_the_same_command_is_no_advice() -> None:
    """Another Grove runs in a namespace of its own: GM-205 names the remedy, which is --operator."""
    world = killed(world=World(cluster.grown()))
    world.store.put(installation.deployment(cluster.OLD_IMAGE, namespace="other", observed=True))
    said = str(world.run(code=STUCK))
    assert "with --operator" in said, said
    assert "command again" not in said, said


def test_beside_a_strange_lease_an_operator_that_runs_need_not_stop() -> None:
    """Anybody may have written it in a namespace of his own: only if that run is yours, the operator stays at zero."""
    world, record = World(cluster.grown()), killed().record
    metadata = {"name": OWN_LEASE, "namespace": "other", "annotations": {RECORD: record}}
    world.store.put({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}})
    said = str(world.run(code=STUCK))
    assert "If a run of yours may have left sets half-way, keep the operator at zero" in said, said
    assert "Keep the operator at zero" not in said, said


def test_beside_a_dead_run_to_another_target_nobody_is_told_to_let_the_operator_run() -> None:
    """The operator of this target is started and does not know that one's hashes: GM-205 alone names the remedy."""
    world = killed(world=World(cluster.grown()))
    world.deploy(replicas=1, image=installation.image("v0.1.0-alpha.3"))
    said = str(world.run(target="legacy-1.33", code=STUCK))
    assert "GM-205" in said, said
    assert "operator run" not in said, said
