"""A run that goes back, because it was asked to, or because no rerun could finish."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from migrator import kinds
from migrator.errors import OR_REVERT, LostReply, Rejected, Reverted, Unreachable
from migrator.run.leases import PARKED
from testbed import operator_installation as installation
from tests.faults import cluster, users
from tests.faults.process import DONE, FAILED, REFUSED, STUCK, Process, Step, kill, kill_at, raising, when
from tests.faults.steps import finished, killed, of_trees
from tests.faults.world import World
from tests.support.tables import table


def test_a_revert_does_not_believe_an_early_record() -> None:
    """Hole 7: a backup of before the first patch was restored in mid-run. Values decide."""
    world, early = World(), list[str]()

    def at(step: Step) -> None:
        if world.record_state == "stopping":
            early[:] = [world.record]
        kill_at(of_trees()[12].write, "after")(step)

    world.die(at)
    world.rewrite_record(early[0])
    world.revert(replicas=1)


def test_a_run_that_cannot_go_back_either_names_the_revert() -> None:
    """A webhook rejects each write from one on, also those of the way back: the same command would migrate again."""
    world = World()
    last = of_trees()[12].write
    deny = raising(lambda: Rejected("is denied"))
    ending = world.run(
        when(lambda step: step.is_grove and step.write >= last, lambda step: deny(step.process)), code=STUCK
    )
    assert OR_REVERT in str(ending)


@pytest.mark.parametrize("image", [cluster.OLD_IMAGE, cluster.NEW_IMAGE])
def test_a_revert_writes_the_commit_records_first_unless_the_target_can_start(image: str) -> None:
    """Rule 14: until alpha.11 an operator begins no update of a set whose generation hash is its own."""
    world = finished()
    world.deploy(replicas=0, image=image)
    process = world.start()
    process.run(revert=True)
    written = [step.resource for step in process.applied if step.is_grove]
    commits = [number for number, kind in enumerate(written) if kind == kinds.POD_CLIQUE_SETS]
    first = commits == list(range(len(commits)))
    assert len(commits) == 3
    assert first == (image == cluster.OLD_IMAGE)
    assert (commits[-1] == len(written) - 1) != first


@table(
    "elects half image holder",
    ("No leader election.", (False, False, cluster.OLD_IMAGE, "")),
    ("The target's operator, which is no end of a revert.", (False, False, cluster.NEW_IMAGE, "")),
    ("A killed run has parked the Lease.", (True, True, cluster.OLD_IMAGE, "")),
    ("The Lease's dead holder is waited for, in more than three stops.", (False, False, cluster.OLD_IMAGE, "dead")),
)
def test_a_revert_ends_beside_a_loop_that_scales_the_operator_up_every_second(
    image: str, holder: str, *, elects: bool, half: bool
) -> None:
    """Rule 14: the operator is put to zero each time, and its end is not waited for; what keeps it out is enough."""
    world = World(elects=elects)
    if half:
        killed(world=world)
    else:
        world.run()
    if holder:
        world.hand_lease_to(holder)
    world.latency, scaled, acted = 0.02, [0.0], list[str]()
    world.on_awake = lambda image: acted.append(image) if world.grove() != world.undone else None

    def loop(step: Step) -> None:
        world.seconds += 0.1 if step.is_grove else 0  # all patches together take longer than an operator's start
        if not world.replicas and world.seconds - scaled[0] >= 1.2:
            scaled[0] = world.seconds
            world.deploy(replicas=1, image=image)

    world.start(at=loop).run(revert=True)
    assert world.grove() == world.undone
    assert acted == []


def test_no_operator_acts_while_a_run_that_gives_up_reads_many_sets() -> None:
    """Rule 14: a reading takes longer than an operator's start, and something scales that up within a second."""
    world, since, acted = World(elects=False), [0.0], list[str]()
    world.latency = 0.02

    def restore(process: Process) -> None:
        if world.replicas or process.wrote < 6:
            since[0] = world.seconds
        elif world.seconds - since[0] >= 0.9:
            world.deploy(replicas=1)

    def at(step: Step) -> None:
        world.seconds += 0.1 if step.is_grove else 0  # all patches together take longer than an operator's start
        restore(step.process)
        for _ in range(50 if step.target == "podcliquesets/" and step.moment == "before" else 0):
            world.advance(0.1)
            step.process.renew()
            restore(step.process)

    world.on_awake = lambda image: acted.append(image) if world.grove() not in (world.before, world.undone) else None
    world.run(at, code=REFUSED)
    assert (world.grove(), acted) == (world.undone, [])


def test_an_operator_that_is_started_after_a_revert_let_it_in_is_left_running() -> None:
    """Its record cannot be removed at first: what is read then is beside old hashes alone."""
    world = World(elects=False, replicas=0)
    world.run()

    def is_let_in(step: Step) -> bool:
        unparks = step.write > 0 and step.name == cluster.LEASE and world.holder == ""
        return unparks and step.moment == "after" and world.grove() == world.undone

    def at(step: Step) -> None:
        lets_in(step)
        if world.replicas:
            fails(step)

    lets_in = when(is_let_in, lambda _: world.deploy(replicas=1), times=1)
    fails = when(
        lambda step: step.write > 0 and step.moment == "before", raising(lambda: Unreachable("no answer")), times=1
    )
    world.revert(at, replicas=1)


def test_a_stop_beside_a_reading_is_sent_once() -> None:
    """A second attempt of it may come after the run has given the operator its replicas back."""
    world, stops = World(elects=False), list[Step]()

    def at(step: Step) -> None:
        if world.grove() != world.after or step.moment == "after":
            return
        if step.target == "podcliquesets/":
            world.deploy(replicas=1)
            world.advance(1.0)
        if step.subresource == "scale":
            stops.append(step)
            raise LostReply("no answer")
        if stops and step.target == "podcliques/":
            kill(step)

    world.die(at)
    assert len(stops) == 1


def test_a_revert_ends_though_the_targets_operator_never_does() -> None:
    """Every hash is old, and something scales it up at once, again and again: 6, after two minutes."""
    world = finished(elects=False)

    def loop(step: Step) -> None:
        if not world.replicas:
            world.deploy(replicas=1, image=cluster.NEW_IMAGE)
        if step.number > 9999:
            step.process.kill()

    world.run(loop, revert=True, code=STUCK)
    assert world.grove() == world.undone


def test_a_revert_of_what_is_old_already_is_done() -> None:
    """Rule 20: without --from, and without a record; and nothing is written."""
    world = World(cluster.grown())
    process = world.start()
    process.run(revert=True)
    assert process.writes == []


def _lead_again(world: World) -> None:
    """Somebody starts the old operator, and it leads once the parked Lease has expired."""
    world.deploy(replicas=1)
    for _ in range(3):
        world.advance(3700)


def _reads_under_its_lease(step: Step) -> bool:
    return bool(step.process.applied) and step.target == "podcliquesets/"


def _bug() -> Exception:
    return ValueError("a bug")


@table(
    "fails",
    (
        "It fails before it stops that one,",
        (_reads_under_its_lease,),
    ),
    ("... or before that one has ended.", (lambda step: users.stops(step.process.applied) > 0,)),
)
def test_going_back_begins_only_once_no_operator_acts(fails: Callable[[Step], bool]) -> None:
    """A run died half-way, the old operator leads again two hours later, and a rerun ends with a bug."""
    world = killed(world=World(cluster.grown()))
    _lead_again(world)
    assert world.holder not in {"", PARKED}
    world.latency = 0.05  # many patches in the time in which an operator ends
    ending = world.run(when(fails, raising(_bug), times=1), code=REFUSED)
    assert isinstance(ending.error, Reverted), str(ending)
    assert world.grove() == world.undone


def test_going_back_gives_back_the_operator_that_it_has_stopped() -> None:
    """The dead run had found none; the old one was started since, and leads when the rerun ends with a bug."""
    dies = when(lambda step: step.process.wrote == 12, kill)
    world = World(cluster.grown(), replicas=0).die(dies)
    _lead_again(world)
    fails = when(_reads_under_its_lease, raising(_bug), times=1)
    world.run(fails, code=REFUSED)
    assert world.replicas == 1


def test_going_back_begins_only_once_an_operator_that_was_stopped_again_has_ended() -> None:
    """It elects no leader and is scaled up in mid-write, and the run ends with a bug right after the second stop."""
    world, beside = World(cluster.grown(), elects=False), list[str]()
    world.latency = 0.05  # many patches in the time in which an operator ends
    in_mid_write = when(lambda step: step.is_grove and step.write > 12, lambda _: world.deploy(replicas=1), times=1)
    fails = when(lambda step: users.stops(step.process.applied) > 1, raising(_bug), times=1)

    def at(step: Step) -> None:
        in_mid_write(step)
        names = (pod["metadata"]["name"] for pod in world.store.everything(kinds.PODS))
        if users.stops(step.process.applied) > 1 and step.is_grove:
            beside.extend(name for name in names if name.startswith(cluster.DEPLOYMENT))
        fails(step)

    world.run(at, code=REFUSED)
    assert beside == []


def test_going_back_does_not_wait_again_for_an_operator_that_never_ends() -> None:
    """It elects no leader, so it acts in any case: a rerun has waited for two minutes, and puts every hash back."""
    world = killed(world=World(cluster.grown(), elects=False))
    world.store.put(installation.pod(cluster.OLD_IMAGE, name="early"))
    ending = world.run(code=REFUSED)
    assert isinstance(ending.error, Reverted), str(ending)
    assert world.grove() == world.undone


def _replace_pod(world: World, *, gone_after: float) -> None:
    """A PodClique has a pod more than it wants, which is being deleted."""
    pod = next(pod for pod in world.store.everything(kinds.PODS) if pod["metadata"]["name"].startswith("web-0-front"))
    del pod["metadata"]["uid"]
    pod["metadata"]["name"] = "replaced"
    world.store.put(pod)
    world.store.terminate(kinds.PODS, "default", "replaced")
    world.later(gone_after, lambda: world.store.drop(kinds.PODS, "default", "replaced"))


@pytest.mark.parametrize("reverts", [True, False], ids=["--revert", "It fails, and goes back."])
def test_an_operator_is_given_back_once_the_pods_in_excess_are_gone(*, reverts: bool) -> None:
    """One that has just started would delete pods that serve in place of those that are being deleted (GM-314)."""
    world, beside = World(cluster.grown()), list[str]()
    if reverts:
        world.run()

    def on_awake(_image: str) -> None:
        pods = world.store.everything(kinds.PODS)
        if "grove-operator-1" not in world.holder and any(pod["metadata"]["name"] == "replaced" for pod in pods):
            beside.append(world.holder)

    world.on_awake = on_awake
    _replace_pod(world, gone_after=100)
    fails = when(lambda step: step.process.wrote == 12, raising(_bug), times=1)
    world.run(None if reverts else fails, revert=reverts, code=DONE if reverts else REFUSED)
    world.advance(30)
    assert (beside, world.replicas) == ([], 1)


@pytest.mark.parametrize("fails", [False, True], ids=["", "It cannot be started at first."])
def test_an_operator_is_given_back_though_a_pod_of_a_lost_node_is_never_gone(*, fails: bool) -> None:
    """Two minutes are waited at most: without an operator, nothing replaces a pod that fails."""
    world = finished()
    _replace_pod(world, gone_after=math.inf)
    began = world.seconds
    starts = when(lambda step: step.subresource == "scale" and step.moment == "before", raising(_bug), times=1)
    world.run(starts if fails else None, revert=True)
    assert (world.replicas, 120 < world.seconds - began < 200) == (1, True)


def test_an_operator_is_given_back_though_pods_that_end_cannot_be_read_once() -> None:
    """The run was asked to end before it wrote, and only how long it waits depends on what it reads."""
    world = World(cluster.grown())
    _replace_pod(world, gone_after=100)
    ends = when(lambda step: users.stops(step.process.applied) > 0, lambda step: step.process.stop.set(), times=1)
    fails = when(
        lambda step: world.seconds > 60 and step.target == "podcliques/", raising(lambda: Unreachable("503")), times=1
    )

    def at(step: Step) -> None:
        ends(step)
        fails(step)

    world.run(at, code=FAILED)
    assert world.replicas == 1


def test_a_new_operator_that_comes_while_pods_end_stays_locked_out() -> None:
    """Every old hash was restored, and it would replace every pod."""
    world = World(cluster.grown())
    _replace_pod(world, gone_after=100)
    world.later(80, lambda: world.deploy(replicas=1, image=cluster.NEW_IMAGE))
    world.run(when(lambda step: step.process.wrote == 12, raising(_bug), times=1), code=STUCK)
    assert world.holder == PARKED
