"""A state machine: users, operators and migrators act on one cluster in any order, and invariants hold after each step.

The same happens in a second cluster, but no migrator ever runs there: an operator must never replace more pods in the
first one. :mod:`tests.faults.shadow` has the invariants.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

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

from tests.faults import cluster, users
from tests.faults.invariants import none
from tests.faults.operators import ALPHA_11, ALPHA_12_RC1, MAIN, Line
from tests.faults.process import DONE, MOMENTS, NO_RECORD, REFUSED, STUCK, At, Ending, Moment, Step
from tests.faults.products import FAULTS, RESTORED
from tests.faults.shadow import ShadowedCluster

numbers: Final = st.integers(0, 9)


@dataclass(frozen=True, slots=True)
class RunFault:
    """What happens at a run's write of that number; ``choice`` is whom it happens to, where that matters."""

    kind: str
    write: int
    moment: Moment
    choice: int = 0

    def strike(self, clusters: ShadowedCluster, step: Step) -> None:
        """Let it happen, if it is due at that step of a run."""
        fault = FAULTS.get(self.kind)
        lasts = fault is not None and fault.lasts and self.write < step.write
        if step.moment != self.moment or not (lasts or self.write == step.write):
            return
        if self.kind in _OTHERS:
            if not clusters.upgraded:  # where nobody reverts
                revert = _OTHERS[self.kind]
                clusters.check_ending(clusters.world.run(code=None, revert=revert), revert=revert)
        elif fault is None:
            clusters.happens(self.kind, self.choice, 1 + self.choice % 3, written=True)
        elif fault.may(step):
            clusters.restored = clusters.restored or self.kind == RESTORED
            fault.strike(step.process)


def at_writes(clusters: ShadowedCluster, faults: Sequence[RunFault]) -> At:
    """The faults of one run; what ends it comes last."""

    def strike(step: Step) -> None:
        for fault in sorted(faults, key=lambda fault: fault.kind in FAULTS):
            fault.strike(clusters, step)

    return strike


#: Another command, from its beginning to its end, while the first one stands still; and whether it is a revert.
_OTHERS: Final = {"another run": False, "another revert": True}

#: What leads to endings after a write, and what only a check right before each write sees, comes more often.
_KINDS: Final = (
    *("a kill", "a kill", "a lost reply", "a conflict", "a failed test", "an outage", *["a lasting outage"] * 2),
    *(*["a theft of the Leases"] * 4, "a long pause", "SIGTERM", *[RESTORED] * 3, *_OTHERS, *_OTHERS, *users.USERS),
)

run_faults: Final = st.builds(
    RunFault,
    kind=st.sampled_from(_KINDS),
    write=st.integers(10, 44),
    moment=st.sampled_from(MOMENTS),
    choice=numbers,
)


class Machine(RuleBasedStateMachine):
    """The steps that the two clusters can take; ``ended`` is how often a run ended with each code."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: Counter[int] = Counter()
        self.clusters = ShadowedCluster(cluster.grown())

    @initialize(planted=st.booleans(), line=st.sampled_from([ALPHA_11, ALPHA_12_RC1, MAIN]))
    def begin(self, line: Line, *, planted: bool) -> None:
        """Choose the next operator's line, and whether some values are the target's from the beginning."""
        if planted:
            self.clusters = ShadowedCluster(users.planted(), planted=True)
        self.clusters.next_line = line

    # --- users ------------------------------------------------------------------------------------------------------

    @rule(kind=st.sampled_from(users.USERS), choice=numbers, number=st.integers(1, 3))
    def somebody(self, kind: str, choice: int, number: int) -> None:
        """A user or a node acts, and no operator is awake."""
        self.clusters.happens(kind, choice, number)

    @precondition(lambda self: not self.clusters.upgraded)
    @rule(kind=st.sampled_from(users.USERS), choice=numbers, number=st.integers(1, 3))
    def noticed(self, kind: str, choice: int, number: int) -> None:
        """A user or a node acts, and the old operator reacts."""
        self.clusters.happens(kind, choice, number)
        self.clusters.old_operator(None)

    # --- operators --------------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.clusters.upgraded)
    @rule(replacing=st.sampled_from([None, 1]))
    def old_operator(self, replacing: int | None) -> None:
        """Start the old operator, which works to its end or is stopped after it replaced one pod."""
        self.clusters.old_operator(replacing)

    @rule()
    def new_operator(self) -> None:
        """Upgrade: what a run migrated stays, what was edited is rolled out; all else is no worse than without us."""
        self.clusters.new_operator()

    @precondition(lambda self: self.clusters.upgraded)
    @rule()
    def next_cluster(self) -> None:
        self.clusters = ShadowedCluster(cluster.grown(), self.clusters.next_line)

    # --- migrators --------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.clusters.pending)
    @rule(
        found=st.lists(run_faults, min_size=1, max_size=2),
        skip_refused=st.booleans(),
        allowed=st.booleans(),
    )
    def migrate(self, found: list[RunFault], *, skip_refused: bool, allowed: bool) -> None:
        more: dict[str, Any] = {"skip_refused": skip_refused}
        if allowed:
            more["allow"] = frozenset({"GM-101", "GM-102"})
        self._run(found, **more)

    @precondition(lambda self: self.clusters.pending)
    @rule(write=st.integers(1, 55), moment=st.sampled_from(MOMENTS))
    def die(self, write: int, moment: Moment) -> None:
        self._run([RunFault("a kill", write, moment)])

    @precondition(lambda self: self.clusters.pending)
    @rule()
    def finish(self) -> None:
        """A run that nothing disturbs migrates everything, or is refused and writes nothing.

        Beside what was written before, a refusal ends with 6. So does a value that somebody else wrote into a set that
        an earlier run had finished: the last look finds it, after the other sets are written. Beside the next operator
        an unfinished run cannot be reverted: the advice is to let that operator run first. After an unfinished revert
        there is no such advice: some hashes may be old again.
        """
        left, here = self.clusters.world.record_state is not None, self.clusters.here
        dirty = left and bool(self.clusters.translated())  # what an edit hid from a clean revert is no run's (W14)
        ending = self._run(())
        if self.clusters.upgraded and ending.code == STUCK:
            assert self.clusters.here == here, f"written beside the next operator, which then ended with {ending}"
            reverting = json.loads(self.clusters.world.record)["revert"]
            assert reverting or "let the target's operator run" in str(ending), str(ending)
            return
        if ending.code == STUCK:
            assert self.clusters.here == here, f"written by a run that was refused: {ending}"
        may_refuse = self.clusters.done or not dirty
        assert ending.code in ({DONE, REFUSED, STUCK} if may_refuse else {DONE, STUCK}), str(ending)

    @precondition(lambda self: not self.clusters.upgraded)
    @rule(found=st.lists(run_faults, min_size=1, max_size=2))
    def revert(self, found: list[RunFault]) -> None:
        self._run(found, revert=True)

    @precondition(lambda self: not self.clusters.upgraded)
    @rule()
    def undo(self) -> None:
        """A revert that nothing disturbs leaves the cluster as it is without us.

        It does not believe that every set of an unfinished run is gone. Without a record it asks for ``--from``, as for
        new hashes that an edit hid from an earlier revert (W14).
        """
        ending = self._run((), revert=True)
        if ending.code == NO_RECORD:
            ending = self._run((), revert=True, source=cluster.SOURCE)
        if ending.code == STUCK and "no PodCliqueSet was read" in str(ending):
            assert self.clusters.world.record_state != "done", str(ending)
            return
        assert ending.code == DONE, str(ending)
        none(f"left by a revert that ended with {ending}", self.clusters.left())

    def _run(self, found: Sequence[RunFault], **options: Any) -> Ending:
        self.clusters.restored = self.clusters.restored and self.clusters.world.replicas > 0
        ending = self.clusters.world.run(at_writes(self.clusters, found), code=None, **options)
        self.ended[ending.code] += 1
        self.clusters.check_ending(ending, revert=options.get("revert", False))
        return ending

    @invariant()
    def what_must_hold(self) -> None:
        """The migrators did nothing that they may not do, and no operator replaces more pods than without them."""
        self.clusters.look()


def explore(*, examples: int, steps: int, seed: int | None = None) -> Counter[int]:
    """Let the machine run; returns how many runs ended with each exit code, and raises what an invariant raises.

    Without a ``seed`` the examples are the same every time. Of histories that fail the shortest is told.
    """
    tally = Counter[int]()

    class Tallied(Machine):
        def teardown(self) -> None:
            tally.update(self.ended)

    machine = Tallied if seed is None else hypothesis.seed(seed)(Tallied)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=seed is None,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return tally


def history(*steps: Callable[[Machine], object]) -> None:
    """Take these steps of the state machine in this order, and check the invariants after each."""
    machine = Machine()
    for step in steps:
        step(machine)
        machine.what_must_hold()
