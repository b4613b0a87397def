"""What a run leaves to operators at its end, above all where an earlier run had left their Lease parked."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from typing import Final

import pytest

from migrator import kinds
from migrator.errors import LostReply, Rejected, Unreachable
from migrator.run.leases import OWN_LEASE, PARKED
from testbed import operator_installation as installation
from tests.faults import cluster, users
from tests.faults.operators import ALPHA_9
from tests.faults.process import DONE, FAILED, KILLED, REFUSED, STUCK, At, Ending, Step, kill, raising, stopped, when
from tests.faults.products import FAULTS, strikes
from tests.faults.steps import finished, killed
from tests.faults.world import LONGER_THAN_A_LEASE, World

_HALF, _LAST = 8, -1  # of the writes to Grove's objects


def _at_grove_write(number: int) -> At:
    """Kill the process after so many writes of its own to Grove's objects."""
    return when(lambda step: step.process.wrote == number, kill)


def closes(world: World) -> Callable[[Step], bool]:
    """Whether a step is the write to the record that comes once every hash is the target's."""

    def is_that(step: Step) -> bool:
        saved = (step.target, step.moment, step.write > 0) == (f"leases/{OWN_LEASE}", "after", True)
        return saved and (world.record_state, world.holder) == ("done", PARKED) and world.grove() == world.after

    return is_that


def _closed() -> World:
    world = World()
    return world.die(when(closes(world), kill))


def _forgotten(number: int) -> World:
    world = killed(number)
    world.rewrite_record()
    return world


#: What a killed run leaves: the operator's Lease is parked, the operator at zero.
LEFT: Final[dict[str, Callable[[], World]]] = {
    "half of the writes": lambda: killed(_HALF),
    "half of the writes, and no record": lambda: _forgotten(_HALF),
    "every write": lambda: killed(_LAST),
    "every write, and no record": lambda: _forgotten(_LAST),
    "a closed record": _closed,
}

#: A theft frees the Lease by itself.
_STRIKING: Final = [name for name in FAULTS if "theft" not in name]


def left(what: str, image: str = "", *, replicas: int = 1) -> World:
    """That cluster, in which somebody then starts an operator of this image, if any; none may be let loose."""
    world = LEFT[what]()
    assert world.holder == PARKED
    if image:
        world.deploy(replicas=replicas, image=image)
        world.advance(3)
    world.forbid_unknown_hashes()
    return world


@cache
def steps_beside(what: str, image: str) -> tuple[Step, ...]:
    """The steps of the rerun that nothing disturbs."""
    found = list[Step]()
    left(what, image).run(found.append)
    return tuple(found)


@pytest.mark.parametrize("every", [167, pytest.param(11, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])])
@pytest.mark.parametrize("name", _STRIKING)
@pytest.mark.parametrize("image", ["", cluster.OLD_IMAGE, cluster.NEW_IMAGE], ids=["none", "old", "target"])
@pytest.mark.parametrize("what", LEFT)
def test_a_fault_in_a_rerun_lets_no_operator_loose(what: str, image: str, name: str, every: int) -> None:
    """No operator acts on hashes that it does not know. After exit 0 none waits for a Lease. A rerun ends with 0."""
    offset = 7 * _STRIKING.index(name) + 3 * [*LEFT].index(what)
    for step in [step for step in steps_beside(what, image) if FAULTS[name].may(step)][offset % every :: every]:
        world = left(what, image)
        ending = world.run(strikes(FAULTS[name], step), code=None)
        world.advance(20)
        world.advance(20)
        assert ending.code != DONE or (world.holder != PARKED, world.grove() == world.after) == (True, True), step
        world.advance(LONGER_THAN_A_LEASE)
        world.run()
        assert world.holder != PARKED
        assert world.grove() == world.after


#: In these no open record says what is to be undone, or it is all that is left to do.
NOTHING_TO_UNDO: Final = pytest.mark.parametrize("what", [what for what in LEFT if what != "half of the writes"])


@NOTHING_TO_UNDO
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_controller_that_starts_the_old_operator_beside_a_parked_lease(what: str, replicas: int) -> None:
    """The operator is started again after each stop: 6, and the Lease stays parked.

    Without a record it is taken for one that acts; where the source is certain, every old hash is restored: 3.
    """
    world = left(what, cluster.OLD_IMAGE, replicas=replicas)
    if what == "half of the writes, and no record":
        world.run(users.restores(world), code=REFUSED)
        assert world.grove() == world.undone
        assert world.record == ""
        return
    world.run(users.restores(world), code=STUCK)
    assert world.holder == PARKED
    world.run(stop_operator=False, code=STUCK)
    assert world.holder == PARKED
    world.advance(LONGER_THAN_A_LEASE)
    world.run()


@NOTHING_TO_UNDO
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_revert_does_not_take_a_lost_record_for_nothing_written(what: str, moment: str) -> None:
    """A rerun is killed as it stops the old operator: then a revert starts that one only beside old hashes."""
    world = left(what, cluster.OLD_IMAGE)
    world.die(when(lambda step: (step.subresource, step.moment) == ("scale", moment), kill))
    known = world.run(revert=True, code=(DONE, STUCK))
    assert known.code == STUCK or (world.grove() == world.undone, world.replicas) == (True, 1)
    assert known.code == DONE or world.holder == PARKED


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("prepare", [World, LEFT["every write"]], ids=["a run", "a rerun"])
def test_an_old_operator_that_starts_as_the_record_is_closed_is_stopped_again(
    prepare: Callable[[], World], *, interrupted: bool
) -> None:
    """It waits for its Lease, every hash is new, and stops are left: it is put to zero, and the run ends with 0."""
    world = prepare()
    world.forbid_unknown_hashes()

    def start(_: Step) -> None:
        world.deploy(replicas=1)
        if interrupted:
            raise KeyboardInterrupt

    world.run(when(closes(world), start, times=1))
    world.advance(20)
    assert world.replicas == 0
    assert world.holder == ""
    assert world.grove() == world.after
    assert world.record_state == "done"


LASTS: Final = pytest.mark.parametrize("lasts", [False, True], ids=["once", "always"])


@pytest.mark.parametrize("error", [partial(Unreachable, "HTTP 503"), KeyboardInterrupt], ids=["an outage", "Ctrl-C"])
@LASTS
def test_a_lease_that_cannot_be_released_is_no_success(error: Callable[[], BaseException], *, lasts: bool) -> None:
    """One failure is retried: 0. A lasting one is 6, because the operator would wait; a rerun releases the Lease."""
    world = World()
    of_lease = (f"leases/{cluster.LEASE}", "before", "done")
    releases = when(
        lambda step: (step.target, step.moment, world.record_state) == of_lease,
        raising(error),
        times=10**6 if lasts else 1,
    )
    ending = world.run(releases, code=STUCK if lasts else DONE)
    assert world.holder == (PARKED if lasts else "")
    assert ("for up to an hour" in str(ending)) == lasts
    world.advance(LONGER_THAN_A_LEASE)
    world.run()
    assert world.holder == ""


def test_a_run_that_stood_still_gives_back_no_lease_that_another_one_has_parked() -> None:
    """It wakes up at its last reading of that Lease; a revert that began meanwhile has died in mid-write."""
    world, others = World(), list[Ending]()

    def at(step: Step) -> None:
        reads = (step.verb, step.target, step.moment) == ("get", f"leases/{cluster.LEASE}", "before")
        if reads and world.record_state == "done" and not others:
            world.advance(LONGER_THAN_A_LEASE)
            others.append(world.run(_at_grove_write(_HALF), revert=True, code=KILLED))

    world.run(at, code=STUCK)
    assert others
    assert world.holder == PARKED


@LASTS
@pytest.mark.parametrize("name", ["an outage", "a rejection", "two signals"])
def test_a_revert_ends_well_only_once_the_operator_is_given_back(name: str, *, lasts: bool) -> None:
    """The scale-up fails: it is tried again, and 0 means that the operator runs."""
    world = finished()
    scales = when(
        lambda step: (step.subresource, step.moment) == ("scale", "before") and step.write > 0,
        lambda step: FAULTS[name].strike(step.process),
        times=10**6 if lasts else 1,
    )
    world.run(scales, revert=True, code=STUCK if lasts else DONE)
    assert (world.replicas, bool(world.record)) == ((0, True) if lasts else (1, False))


def test_of_two_operators_none_is_stopped_beside_a_parked_lease() -> None:
    """Nothing is to be written, and either may be the operator: the run fails at once and stops neither."""
    world = left("a closed record", cluster.NEW_IMAGE)
    other = installation.deployment(cluster.OLD_IMAGE, observed=True)
    world.store.put(other | {"metadata": other["metadata"] | {"name": "second"}})
    world.store.put(installation.pod(cluster.OLD_IMAGE, name="second-1"))
    process, begun = world.start(), world.seconds
    assert "GM-203" in str(process.run(code=STUCK))
    assert world.replicas == 1
    assert world.holder == PARKED
    assert world.seconds - begun < 120  # most of it for the dead run's Lease
    assert not [step for step in process.writes if step.subresource == "scale"]


@pytest.mark.parametrize("again", [True, False], ids=["a revert", "a run"])
@pytest.mark.parametrize("elects", [True, False], ids=["", "no leader election"])
def test_beside_a_half_revert_the_targets_operator_is_not_started(*, elects: bool, again: bool) -> None:
    """The revert was killed, and the next command is told to end: at zero, because some hashes are old again."""
    world = finished(elects=elects)
    world.upgrade()
    world.die(_at_grove_write(6), revert=True)
    told = when(lambda step: step.kind == "dry run" and step.verb == "patch", lambda step: step.process.stop.set())
    ending = world.run(told, revert=again, code=STUCK)
    assert world.replicas == 0
    assert world.holder == PARKED
    assert "target's operator" not in str(ending)


@pytest.mark.parametrize("name", ["an outage", "two signals", "a missing right"])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("elects", [True, False], ids=["", "no leader election"])
def test_the_record_that_was_read_before_the_lock_counts_no_more(name: str, times: int, *, elects: bool) -> None:
    """Another run writes half and dies meanwhile, and its record cannot be read: 6, it stays, and a revert restores."""
    world = World(elects=elects)
    saves = when(lambda step: step.target == f"leases/{OWN_LEASE}" and world.record_state == "stopping", kill)
    world.run(saves, code=KILLED)
    world.hand_lease_to("", seconds=1, name=OWN_LEASE)
    world.forbid_unknown_hashes()
    met = list[str]()

    def at(step: Step) -> None:
        if (step.moment, step.target) != ("before", f"leases/{OWN_LEASE}"):
            return
        if not met:
            met.append("another run")
            world.run(_at_grove_write(_HALF), code=KILLED)
        elif len(met) <= times and step.kind == "read":
            met.append(name)
            FAULTS[name].strike(step.process)

    world.run(at, code=STUCK)
    assert world.replicas == 0
    assert world.holder == PARKED
    assert world.record_state == "writing"
    assert met[1:] == times * [name]
    world.advance(LONGER_THAN_A_LEASE)
    world.run(revert=True)
    assert world.grove() == world.undone


def test_what_another_run_wrote_before_the_lock_is_not_let_loose() -> None:
    """It writes half and dies after our first look, and we are told to end before our first write: 6, at zero."""
    world, met = World(), list[str]()
    world.forbid_unknown_hashes()

    def at(step: Step) -> None:
        if step.moment == "before" and not met and step.target == f"leases/{OWN_LEASE}" and step.kind == "write":
            met.append("another run")
            world.hand_lease_to("", seconds=1, name=OWN_LEASE)
            world.run(_at_grove_write(_HALF), code=KILLED)
        elif met and step.target == "podcliquesets/":
            step.process.stop.set()

    world.run(at, code=STUCK)
    assert world.replicas == 0
    assert world.holder == PARKED


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("revert", [False, True])
@pytest.mark.parametrize("what", [what for what in LEFT if not what.endswith("no record")])
def test_a_lost_reply_leaves_no_lease_parked_after_exit_0(what: str, moment: str, *, revert: bool) -> None:
    """One answer about the operator's Lease is lost: it is asked for again."""
    world = left(what)
    replies = when(
        lambda step: step.write > 0 and (step.target, step.moment) == (f"leases/{cluster.LEASE}", moment),
        raising(lambda: LostReply("no answer")),
        times=1,
    )
    world.run(replies, revert=revert)
    assert world.holder != PARKED


@pytest.mark.parametrize("killed", [False, True], ids=["done", "killed in mid-write"])
def test_a_revert_after_a_lost_record_computes_the_old_hashes(*, killed: bool) -> None:
    """The rerun found a source that explains every value, so its record names it: a revert needs no --from."""
    world = left("half of the writes, and no record", cluster.OLD_IMAGE)
    world.run(_at_grove_write(3) if killed else None, code=KILLED if killed else DONE)
    world.advance(LONGER_THAN_A_LEASE)
    world.revert(replicas=1)


def test_ctrl_c_at_our_own_lease_is_no_other_ending() -> None:
    """Ctrl-C while our own Lease is released changes nothing: 0."""
    world = World()
    strike = raising(KeyboardInterrupt)
    released = when(
        lambda step: step.target == f"leases/{OWN_LEASE}" and (world.record_state, world.holder) == ("done", ""), strike
    )
    world.run(released)
    assert world.holder == ""


@pytest.mark.parametrize(("state", "target"), [("writing", "podcliques/"), ("done", "pods/")])
def test_a_closing_run_reads_again_what_an_operator_may_have_changed_that_it_stops(state: str, target: str) -> None:
    """By the record it waits for its Lease, but its election was switched off meanwhile: no 0 beside what it began."""
    world, acted = World(cluster.grown()), list[str]()
    world.checker.after_write = world.checker.before_write = lambda _: None  # type: ignore[method-assign]

    def begin(image: str) -> None:
        if image == cluster.OLD_IMAGE and world.grove() == world.after:
            acted.extend(world.operate(cluster.SOURCE, ALPHA_9, replacing=1))

    def start(_: Step) -> None:
        world.on_awake, world.elects = begin, False
        world.deploy(replicas=1)

    reads_last = when(
        lambda step: world.grove() == world.after and world.record_state == state and step.target == target,
        start,
        times=1,
    )
    world.run(reads_last, code=STUCK)
    assert world.replicas == 0
    assert len(acted) == 1


@pytest.mark.parametrize("ends", ["killed", "stopped", "rejected"])
def test_a_run_that_writes_nothing_leaves_the_time_of_the_one_before(ends: str) -> None:
    """It was to migrate a set that came back from a backup; `verify` still judges what happened since the first one."""
    world = World(cluster.grown())
    world.run()
    first, world.seconds = world.record, 86400.0
    for item in world.before.values():
        if cluster.set_of(item) == "web":
            world.store.put(item)
    world.upgrade()
    if ends == "killed":
        world.die(stopped)
    interrupted = when(lambda step: step.process.name in world.record, lambda step: step.process.stop.set())
    rejected = when(lambda step: step.is_grove, raising(lambda: Rejected("is invalid")))
    world.run(rejected if ends == "rejected" else interrupted, code=FAILED)
    began = [json.loads(record)["started"] for record in (first, world.record)]
    assert world.record_state == "done"
    assert began[1] == began[0]


def test_a_run_that_is_interrupted_while_it_looks_judges_by_the_sets_too() -> None:
    """Both Leases were deleted after a kill: 6, and not 1, with which the old operator may start."""
    world = killed(_HALF)
    for lease in (OWN_LEASE, cluster.LEASE):
        world.store.drop(kinds.LEASES, cluster.NAMESPACE, lease)
    interrupt = when(lambda step: step.target.startswith("podcliques/"), raising(KeyboardInterrupt), times=1)
    world.run(interrupt, code=STUCK)


@pytest.mark.parametrize("stop_operator", [True, False])
def test_the_targets_operator_that_starts_once_all_is_written_is_left_alone(*, stop_operator: bool) -> None:
    """It elects no leader, and knows every hash that there is: it is neither stopped nor a reason not to end with 0."""
    world = World(elects=False, replicas=int(stop_operator))
    start = when(
        lambda step: step.is_grove and step.moment == "after" and world.grove() == world.after,
        lambda _: world.deploy(replicas=1, image=cluster.NEW_IMAGE),
        times=1,
    )
    process = world.start(at=start)
    process.run(stop_operator=stop_operator)
    assert world.replicas == 1
    assert sum(step.subresource == "scale" for step in process.applied) == stop_operator
