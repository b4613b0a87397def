"""A state machine: users, operators and migrators act on one cluster, in any order; what must hold is looked at always.

Beside it stands another cluster in which the same happens, but no migrator ever runs: what an operator would replace
here must never be more than there. See :mod:`tests.simulation.operators` for what operators do, and
:mod:`tests.simulation.witness` for what no write may do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from migrator.errors import Conflict, LostReply, TestFailed, Unreachable
from migrator.run.leases import OWN_LEASE
from testbed.trees import Object
from tests.simulation import cluster, users, witness
from tests.simulation.lines import ALPHA_9, ALPHA_11, ALPHA_12_RC1, MAIN, Line
from tests.simulation.operators import would_roll
from tests.simulation.points import GROVE
from tests.simulation.process import KILLED, MOMENTS, Ending, Fault, Moment, Write
from tests.simulation.truth import DONE, FAILED, LOST, REFUSED, REVERTED, STUCK
from tests.simulation.turns import Turns
from tests.simulation.witness import Lexicon, Witness
from tests.simulation.world import World

Action = Callable[[World], object]
NO_RECORD: Final = 2
LONGER_THAN_A_LEASE: Final = 70.0
_LATE: Final = 60.0

_ERRORS: Final[dict[str, Callable[[], BaseException]]] = {
    "conflict": lambda: Conflict("modified", status=409, reason="Conflict"),
    "test": lambda: TestFailed("a test does not hold", status=422),
    "outage": lambda: Unreachable("HTTP 503, 8 times"),
    "down": lambda: Unreachable("HTTP 503, at every write from here on"),
}

numbers: Final = st.integers(0, 9)


@dataclass(frozen=True, slots=True)
class Mishap:
    """What happens at a run's write of that number; ``choice`` is whom it happens to, where that matters."""

    kind: str
    write: int
    moment: Moment
    choice: int

    def strikes(self, number: int) -> bool:
        """Whether it happens at the write of that number; an API server that is down stays so."""
        return self.write == number or (self.kind == "down" and self.write < number)


#: What leads to endings after a write, and what only a check right before each write sees, comes more often.
_KINDS: Final = ("kill", "kill", "lose", *_ERRORS, "down", *["steal"] * 4, "pause", "stop", *["restore"] * 3)

mishaps: Final = st.builds(
    Mishap,
    kind=st.sampled_from([*_KINDS, *users.USERS]),
    write=st.integers(10, 44),
    moment=st.sampled_from(["before", "after"]),
    choice=numbers,
)


class Machine(RuleBasedStateMachine):
    """Two clusters with one history, but for the migrators.

    ``upgraded``: the next operator has been through, so the old one will not come again. ``done``: a run has ended
    well since all was as without us. ``meddled``: an old operator was awake beside half-migrated sets, so that what it
    did there it did not do in the other cluster. ``moved``: sets that were edited while something of them was
    translated, or met the old operator when all of it was. ``begun``: sets of which the old operator has
    begun an update because they were committed; of those it replaces what holds a hash that no revert turns back.
    ``marked``: sets in which somebody wrote a hash of his own.
    ``pending``: something happened since a run ended well. ``restored``: somebody gave the operator its replicas back.
    """

    def __init__(self) -> None:
        super().__init__()
        self.next_line = ALPHA_11
        self.looks = self.writes = 0
        self.ended: Counter[int] = Counter()
        self._begin(World(cluster.grown()), World(cluster.grown()))

    def _begin(self, world: World, without: World) -> None:
        self.world, self.without = world, without
        self.lexicon = Lexicon()
        self.lexicon.learn(world.grove())
        self.witness = Witness(world, self.lexicon)
        self.others = {cluster.OLDER, users.FOREIGN}
        self.born = 0
        self.upgraded = self.done = self.meddled = self.restored = False
        self.pending = True
        self.moved: set[str] = set()
        self.begun: set[str] = set()
        self.marked: set[str] = set()
        self.planted: set[tuple[witness.Spot, str]] = set()
        self._read: dict[int, tuple[str, witness.Objects]] = {}

    @initialize(planted=st.booleans(), line=st.sampled_from([ALPHA_11, ALPHA_12_RC1, MAIN]))
    def begin(self, line: Line, *, planted: bool) -> None:
        """The next operator's line; and perhaps a few values of the target's, of which nobody knows whence."""
        self.next_line = line
        if planted:
            self._begin(World(users.planted()), World(users.planted()))
            self.planted = set(witness.all_spots(self._here).items())
            self.others |= {value for _, value in self.planted}

    # --- users ------------------------------------------------------------------------------------------------------

    @rule(kind=st.sampled_from(users.USERS), choice=numbers, number=st.integers(1, 3))
    def somebody(self, kind: str, choice: int, number: int) -> None:
        """Users and nodes do what they do, and no operator notices."""
        self._happens(kind, choice, number)

    @precondition(lambda self: not self.upgraded)
    @rule(kind=st.sampled_from(users.USERS), choice=numbers, number=st.integers(1, 3))
    def noticed(self, kind: str, choice: int, number: int) -> None:
        """They do, and the old operator acts on it."""
        self._happens(kind, choice, number)
        self.old_operator(None)

    # --- operators --------------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.upgraded)
    @rule(replacing=st.sampled_from([None, 1]))
    def old_operator(self, replacing: int | None) -> None:
        """The old operator is started, and ends at once or after it replaced a pod; beside hashes of ours before that.

        Nobody may let it go on there; see docs/upgrade.md.
        """
        dirty = self._translated()
        if dirty:
            replacing, self.meddled = 0, True
            self.moved |= _committed(dirty)
            self.begun |= _committed(dirty)
        self._wake(cluster.SOURCE, ALPHA_9, cluster.OLD_IMAGE, replacing)
        if replacing == 0:
            self.world.deploy(replicas=0)
            self.world.advance(_LATE)

    @precondition(lambda self: not self.done)
    @rule()
    def new_operator_instead(self) -> None:
        """Somebody upgrades without us, or after a run that did not end well: no worse than if it had never begun."""
        self.new_operator()

    @precondition(lambda self: self.done)
    @rule()
    def new_operator(self) -> None:
        """The upgrade: what was migrated stays, what was edited is rolled out."""
        self._wake(cluster.TARGET, self.next_line, cluster.NEW_IMAGE, None)
        self.upgraded = True
        none("rollouts that were hidden", witness.hidden(self._here))

    @precondition(lambda self: self.upgraded)
    @rule()
    def next_cluster(self) -> None:
        """Everything from the beginning, elsewhere."""
        self._begin(World(cluster.grown()), World(cluster.grown()))

    # --- migrators --------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.pending)
    @rule(
        found=st.lists(mishaps, min_size=1, max_size=2),
        conflict=st.sampled_from(["stop", "skip"]),
        skip_refused=st.booleans(),
        allowed=st.booleans(),
    )
    def migrate(self, found: list[Mishap], conflict: str, *, skip_refused: bool, allowed: bool) -> None:
        """A run; whatever happens to it."""
        more: dict[str, Any] = {"on_conflict": conflict, "skip_refused": skip_refused}
        if allowed:
            more["allow"] = frozenset({"GM-111"})
        self._run(found, **more)

    @precondition(lambda self: self.pending)
    @rule(write=st.integers(1, 55), moment=st.sampled_from(MOMENTS))
    def die(self, write: int, moment: Moment) -> None:
        """A run that is killed."""
        self._run([Mishap("kill", write, moment, 0)])

    @precondition(lambda self: self.pending)
    @rule()
    def finish(self) -> None:
        """A run that nothing disturbs: everything is migrated, or nothing is written and what was is put back.

        Beside the next operator a run that was begun cannot go back. What is refused then, such as an edit that this
        operator has not seen, ends with 6 and is left to it; the advice says so.
        """
        dirty, here = bool(self._translated()), self._here
        ending = self._run(())
        if self.upgraded and ending.code == STUCK:
            assert self._here == here, f"written beside the next operator, which then ended with {ending}"
            assert "let the target's operator run" in str(ending), str(ending)
            return
        assert ending.code in ({DONE, REVERTED} if dirty and not self.done else {DONE, REFUSED, REVERTED}), str(ending)

    @precondition(lambda self: not self.upgraded)
    @rule(found=st.lists(mishaps, min_size=1, max_size=2))
    def revert(self, found: list[Mishap]) -> None:
        """A revert; whatever happens to it."""
        self._run(found, revert=True)

    @precondition(lambda self: not self.upgraded)
    @rule()
    def undo(self) -> None:
        """A revert that nothing disturbs: everything is as without us."""
        ending = self._run((), revert=True)
        assert ending.code in {DONE, NO_RECORD}, str(ending)
        none(f"left by a revert that ended with {ending}", self._left())

    @precondition(lambda self: self.pending and not self.upgraded)
    @rule(seed=st.integers(0, 99), found=mishaps, second=st.booleans())
    def two_migrators(self, seed: int, found: Mishap, *, second: bool) -> None:
        """Two runs at once, or a run and a revert, under one Lease; one of them with a mishap."""
        turns = Turns(self.world, seed, pauses=(*[0.0] * 60, LONGER_THAN_A_LEASE))
        turns.start(fault=self._fault((found,)))
        turns.start(fault=self._fault(()))
        for ending, options in zip(turns.run({}, {"revert": second}), ({}, {"revert": second}), strict=True):
            self._note(ending, **options)

    # --- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def every_write_was_a_translation(self) -> None:
        """No pod deleted, no spec changed, nothing created; only hashes, by words of their field, under the Lease."""
        self.looks += 1
        none("wrong writes", self.witness.wrongs)

    @invariant()
    def every_hash_is_known(self) -> None:
        """No object holds a hash that is neither the old nor the new one, nor what was there; a commit comes last."""
        none("strange values", witness.strange(self._here, self.lexicon, self.others))
        if not self.upgraded:  # an operator commits first, and then updates
            none("early commits", witness.half_committed(self._here, self.lexicon))

    @invariant()
    def the_next_operator_rolls_no_more_than_without_us(self) -> None:
        """At any moment; and nothing at all of what is committed, but for what somebody else wrote there."""
        here, there = (rolled(objects, cluster.TARGET, self.next_line) for objects in (self._here, self._there))
        none("replaced by the next operator", witness.more(here, there, lambda name: _set_of(name) not in self._odd))
        committed = {name for name, pcs in self._sets.items() if witness.is_committed(pcs, self.lexicon)} - self.marked
        none("replaced by the next operator, though committed", [name for name in here if _set_of(name) in committed])

    @invariant()
    def the_old_operator_rolls_no_more_than_without_us(self) -> None:
        """Once all is put back; and before, of each set that is neither committed nor edited in between."""
        if self.upgraded:
            return
        here, there = (rolled(objects, cluster.SOURCE, ALPHA_9) for objects in (self._here, self._there))
        dirty = self._translated()
        # An update that the old operator has begun goes on beside half-migrated children, committed or not. One that
        # was cut short here replaces later what it has replaced there.
        going_on = _updating(self._here) if dirty or self.meddled else set()
        safe = set(users.NAMES) - self._odd - going_on - (_committed(dirty) | self.moved if dirty else set())
        none("replaced by the old operator", witness.more(here, there, lambda name: _set_of(name) in safe))
        if not dirty and not self.meddled:
            none("not as without us", witness.differences(self._here, self._there))

    @property
    def _odd(self) -> set[str]:
        """Sets of which the old operator has begun an update, and that hold what no revert turns back.

        And after the upgrade every set with a hash of somebody's own: without us the upgrade replaced that pod, and
        here the next update of its set does.
        """
        odd = self.begun if self.planted else self.begun & self.marked
        return odd | self.marked if self.upgraded else odd

    @property
    def _here(self) -> witness.Objects:
        return self._seen(self.world)

    @property
    def _sets(self) -> dict[str, Object]:
        """The PodCliqueSets here, by name."""
        return {key[2]: pcs for key, pcs in self._here.items() if key[0] == "PodCliqueSet"}

    @property
    def _there(self) -> witness.Objects:
        return self._seen(self.without)

    def _seen(self, world: World) -> witness.Objects:
        """Grove's objects, read once after each write, but for pods that are on their way out: nobody's concern."""
        version, found = self._read.get(id(world), ("", {}))
        if version != world.store.version:
            found = {k: item for k, item in world.grove().items() if not item["metadata"].get("deletionTimestamp")}
            self._read[id(world)] = (world.store.version, found)
        return found

    # --- helpers ----------------------------------------------------------------------------------------------------

    def _both(self, action: Action) -> None:
        """The same in both clusters, at the same time."""
        self.without.seconds = self.world.seconds
        for world in (self.world, self.without):
            action(world)
        self.lexicon.learn(self.world.grove())

    def _translated(self) -> dict[witness.Spot, str]:
        """What of ours is in the cluster; if nothing is, all is as without us."""
        found = dict(witness.translated(self._here, self._there, self.lexicon).items() - self.planted)
        if not found and not self.upgraded:
            self.moved.clear()
            self.done, self.pending = False, True
        return found

    def _left(self) -> dict[witness.Spot, str]:
        """What of ours an old operator would find, and would not have found without us.

        Not what a set keeps of an earlier template, if an old operator was awake beside it when it was migrated: that
        is out of date by either hash, and the record of the run after an edit has no word for it any more.
        """
        sets = self._sets

        def is_present(spot: witness.Spot, value: str) -> bool:
            word = self.lexicon.present(sets[spot.set_name]).get(spot.clique) if spot.set_name in sets else None
            return word is None or word.new == value

        found = self._translated()
        return {s: value for s, value in found.items() if s.set_name not in self.begun or is_present(s, value)}

    def _wake(self, scheme: str, line: Line, image: str, replacing: int | None) -> None:
        self.world.deploy(replicas=1, image=image)
        self.world.advance(_LATE)
        replaced: list[Counter[str]] = []
        self._both(
            lambda world: replaced.append(witness.by_pod_clique(world.operate(scheme, line, replacing=replacing)))
        )
        none("replaced by an operator", witness.more(*replaced, lambda name: _set_of(name) not in self._odd))

    def _run(self, found: Sequence[Mishap], **options: Any) -> Ending:
        self.restored = self.restored and self.world.replicas > 0
        ending = self.world.run(self._fault(found), **options)
        self._note(ending, **options)
        return ending

    def _note(self, ending: Ending, **options: Any) -> None:
        """What an ending claims."""
        self.ended[ending.code] += 1
        assert ending.code in {DONE, FAILED, NO_RECORD, REFUSED, LOST, REVERTED, STUCK, KILLED}, str(ending)
        # Killed, or robbed of the Lease, when all was done and recorded.
        closed = ending.code in {KILLED, LOST} and self.world.record_state == "done" and self._translated()
        if (ending.code == DONE or closed) and not options.get("revert"):
            self.done, self.pending = True, False
        left = self._left()
        if ending.code == REVERTED and not self.done:
            none(f"left by {ending}", left)
        if self.world.replicas and ending.code != KILLED and not self.upgraded and not self.restored:
            none(f"the old operator may run after {ending}, beside", left)

    def _fault(self, found: Sequence[Mishap]) -> Fault:
        def strike(write: Write) -> None:
            due = [m for m in found if m.moment == write.moment and m.strikes(write.number)]
            if write.moment == "before":
                self.witness.arrive(write)
                self._befall(due, write, self.witness.stash)
            else:
                self.witness.applied(write)
                self.writes += write.resource in GROVE
                self._befall(due, write, lambda _write: None)

        return strike

    def _befall(self, due: Sequence[Mishap], write: Write, then: Callable[[Write], None]) -> None:
        errors = [mishap for mishap in due if mishap.kind in {"kill", "lose", *_ERRORS}]
        for mishap in due:
            if mishap not in errors:
                self._happen(mishap, write)
        then(write)
        for mishap in errors:
            if mishap.kind == "kill":
                write.process.kill()
            elif mishap.kind == "lose":
                raise LostReply("no answer")
            elif mishap.moment == "before":
                error = _ERRORS[mishap.kind]()
                raise error

    def _happen(self, mishap: Mishap, write: Write) -> None:
        if mishap.kind == "steal":
            self.world.hand_lease_to("thief", name=OWN_LEASE)
            self.world.hand_lease_to("thief")
            self.world.advance(LONGER_THAN_A_LEASE)
        elif mishap.kind == "restore":
            self.restored = True
            self.world.deploy(replicas=1)
        elif mishap.kind == "pause":
            self.world.advance(LONGER_THAN_A_LEASE)
        elif mishap.kind == "stop":
            write.process.stop.set()
        else:
            self._happens(mishap.kind, mishap.choice, 1 + mishap.choice % 3, written=True)

    def _happens(self, kind: str, choice: int, number: int, *, written: bool = False) -> None:
        """Something that no migrator and no operator does, in both clusters.

        ``written``: a run is under way, and what it planned before an edit may be written after it: only the set's
        own patch tests the spec, and that one comes last.
        """
        name = users.set_named(choice)
        self.pending = True
        self.born += 1
        if kind in users.EDITS and (any(spot.set_name == name for spot in self._translated()) or written):
            self.moved.add(name)
        if kind == "mark":
            self.marked |= users.marks(self.world, choice)
        self._both(lambda world: users.act(world, kind, choice, number, born=self.born))


@dataclass(frozen=True, slots=True)
class Tally:
    """What was tried: runs by exit code, writes to Grove's objects, and steps."""

    endings: Counter[int]
    writes: int
    steps: int


def explore(*, examples: int, steps: int, seed: int | None = None, shrink: bool = True) -> Tally:
    """Let the machine run; raises what an invariant raises.

    Without a ``seed`` the examples are the same every time. ``shrink`` finds the shortest history that fails.
    """

    class Tallied(Machine):
        endings: ClassVar[Counter[int]] = Counter()
        writes = 0
        steps = 0

        def teardown(self) -> None:
            Tallied.endings += self.ended
            Tallied.writes += self.writes
            Tallied.steps += self.looks

    machine = Tallied if seed is None else hypothesis.seed(seed)(Tallied)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=seed is None,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return Tally(Tallied.endings, Tallied.writes, Tallied.steps)


def look(machine: Machine) -> None:
    """Look once at all that must always hold; a history that is told step by step does it after each."""
    machine.every_write_was_a_translation()
    machine.every_hash_is_known()
    machine.the_next_operator_rolls_no_more_than_without_us()
    machine.the_old_operator_rolls_no_more_than_without_us()


def history(*steps: Callable[[Machine], object]) -> None:
    """Let these things happen to the state machine, in this order; after each all must hold that always must."""
    machine = Machine()
    for step in steps:
        step(machine)
        look(machine)


def none(what: str, found: Collection[object]) -> None:
    """Raise ``AssertionError`` if any of this was found."""
    if found:
        raise AssertionError(f"{what}: {found}")


def rolled(objects: witness.Objects, scheme: str, line: Line) -> Counter[str]:
    """How many pods of each PodClique an operator would replace."""
    return witness.by_pod_clique(would_roll(objects, scheme, line))


def _committed(translated: Iterable[witness.Spot]) -> set[str]:
    """The sets whose commit record is among what was translated."""
    return {spot.set_name for spot in translated if spot.path[-1] == "currentGenerationHash"}


def _updating(objects: witness.Objects) -> set[str]:
    """The sets with an update that has not ended, of their own or of a PodClique."""
    found = ((key[2], item.get("status", {}).get("updateProgress")) for key, item in objects.items() if key[0] != "Pod")
    return {_set_of(name) for name, progress in found if progress and not progress.get("updateEndedAt")}


def _set_of(name: str) -> str:
    return name.partition("-")[0]
