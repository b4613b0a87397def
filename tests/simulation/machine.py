"""A state machine: users, operators and migrators act on one cluster, in any order; what must hold is looked at always.

Beside it stands another cluster in which the same happens, but no migrator ever runs: what an operator would replace
here must never be more than there. See :mod:`tests.simulation.twins` for the two clusters,
:mod:`tests.simulation.expected` for what must hold, :mod:`tests.simulation.mishaps` for what happens to a run, and
:mod:`tests.simulation.operators` for what operators do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

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

from tests.simulation import cluster, expected, users
from tests.simulation.lines import ALPHA_11, ALPHA_12_RC1, MAIN, Line
from tests.simulation.mishaps import Mishap, fault, mishaps, numbers
from tests.simulation.points import GROVE
from tests.simulation.process import MOMENTS, Ending, Moment, Process
from tests.simulation.truth import DONE, NO_RECORD, REFUSED, REVERTED, STUCK
from tests.simulation.turns import Turns
from tests.simulation.twins import Twins, none
from tests.simulation.world import LONGER_THAN_A_LEASE


class Machine(RuleBasedStateMachine):
    """What may be done to the two clusters.

    ``looks`` is how often all was looked at, ``writes`` how many writes to Grove's objects were applied, ``ended`` how
    often a run ended with each code.
    """

    def __init__(self) -> None:
        super().__init__()
        self.looks = self.writes = 0
        self.ended: Counter[int] = Counter()
        self.twins = Twins(cluster.grown())

    @initialize(planted=st.booleans(), line=st.sampled_from([ALPHA_11, ALPHA_12_RC1, MAIN]))
    def begin(self, line: Line, *, planted: bool) -> None:
        """The next operator's line; and perhaps a few values of the target's, of which nobody knows whence."""
        if planted:
            self.twins = Twins(users.planted(), planted=True)
        self.twins.next_line = line

    # --- users ------------------------------------------------------------------------------------------------------

    @rule(kind=st.sampled_from(users.USERS), choice=numbers, number=st.integers(1, 3))
    def somebody(self, kind: str, choice: int, number: int) -> None:
        """Users and nodes do what they do, and no operator notices."""
        self.twins.happens(kind, choice, number)

    @precondition(lambda self: not self.twins.upgraded)
    @rule(kind=st.sampled_from(users.USERS), choice=numbers, number=st.integers(1, 3))
    def noticed(self, kind: str, choice: int, number: int) -> None:
        """They do, and the old operator acts on it."""
        self.twins.happens(kind, choice, number)
        self.twins.old_operator(None)

    # --- operators --------------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.twins.upgraded)
    @rule(replacing=st.sampled_from([None, 1]))
    def old_operator(self, replacing: int | None) -> None:
        """The old operator is started, and stopped again perhaps."""
        self.twins.old_operator(replacing)

    @precondition(lambda self: not self.twins.done)
    @rule()
    def new_operator_instead(self) -> None:
        """Somebody upgrades without us, or after a run that did not end well: no worse than if it had never begun."""
        self.twins.new_operator()

    @precondition(lambda self: self.twins.done)
    @rule()
    def new_operator(self) -> None:
        """The upgrade: what was migrated stays, what was edited is rolled out."""
        self.twins.new_operator()

    @precondition(lambda self: self.twins.upgraded)
    @rule()
    def next_cluster(self) -> None:
        """Everything from the beginning, elsewhere."""
        self.twins = Twins(cluster.grown(), self.twins.next_line)

    # --- migrators --------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.twins.pending)
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

    @precondition(lambda self: self.twins.pending)
    @rule(write=st.integers(1, 55), moment=st.sampled_from(MOMENTS))
    def die(self, write: int, moment: Moment) -> None:
        """A run that is killed."""
        self._run([Mishap("kill", write, moment, 0)])

    @precondition(lambda self: self.twins.pending)
    @rule()
    def finish(self) -> None:
        """A run that nothing disturbs: everything is migrated, or nothing is written and what was is put back.

        Beside the next operator a run that was begun cannot go back. What is refused then, such as an edit that this
        operator has not seen, ends with 6 and is left to it; the advice says so.
        """
        dirty, here = bool(self.twins.translated()), self.twins.here
        ending = self._run(())
        if self.twins.upgraded and ending.code == STUCK:
            assert self.twins.here == here, f"written beside the next operator, which then ended with {ending}"
            assert "let the target's operator run" in str(ending), str(ending)
            return
        may_refuse = self.twins.done or not dirty
        assert ending.code in ({DONE, REFUSED, REVERTED} if may_refuse else {DONE, REVERTED}), str(ending)

    @precondition(lambda self: not self.twins.upgraded)
    @rule(found=st.lists(mishaps, min_size=1, max_size=2))
    def revert(self, found: list[Mishap]) -> None:
        """A revert; whatever happens to it."""
        self._run(found, revert=True)

    @precondition(lambda self: not self.twins.upgraded)
    @rule()
    def undo(self) -> None:
        """A revert that nothing disturbs: everything is as without us."""
        ending = self._run((), revert=True)
        assert ending.code in {DONE, NO_RECORD}, str(ending)
        none(f"left by a revert that ended with {ending}", self.twins.left())

    @precondition(lambda self: self.twins.pending and not self.twins.upgraded)
    @rule(seed=st.integers(0, 99), found=mishaps, second=st.booleans())
    def two_migrators(self, seed: int, found: Mishap, *, second: bool) -> None:
        """Two runs at once, or a run and a revert, under one Lease; one of them with a mishap."""
        turns = Turns(self.twins.world, seed, pauses=(*[0.0] * 60, LONGER_THAN_A_LEASE))
        processes = [turns.start(fault=fault(self.twins, each)) for each in ((found,), ())]
        reverts = (False, second)
        endings = turns.run(*({"revert": revert} for revert in reverts))
        for process, ending, revert in zip(processes, endings, reverts, strict=True):
            self._note(process, ending, revert=revert)

    def _run(self, found: Sequence[Mishap], **options: Any) -> Ending:
        self.twins.restored = self.twins.restored and self.twins.world.replicas > 0
        process = self.twins.world.start(fault=fault(self.twins, found))
        ending = process.run(**options)
        self._note(process, ending, revert=options.get("revert", False))
        return ending

    def _note(self, process: Process, ending: Ending, *, revert: bool) -> None:
        self.ended[ending.code] += 1
        self.writes += sum(write.resource in GROVE for write in process.applied)
        expected.claim(self.twins, ending, revert=revert)

    @invariant()
    def what_always_holds_does(self) -> None:
        """The migrators have done nothing that they may not do, and no operator replaces more than without them."""
        self.looks += 1
        expected.look(self.twins)


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


def history(*steps: Callable[[Machine], object]) -> None:
    """Let these things happen to the state machine, in this order; after each all must hold that always must."""
    machine = Machine()
    for step in steps:
        step(machine)
        machine.what_always_holds_does()
