"""What happens to a run of the state machine at its writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hypothesis import strategies as st

from tests.faults import users
from tests.faults.process import ERRORS, At, Moment, Step, raising
from tests.faults.shadow import ShadowedCluster
from tests.faults.world import LONGER_THAN_A_LEASE

#: Those of them after which nothing was done, as faults of the state machine.
_REFUSALS: Final = ("a conflict", "a failed test", "an outage", "a lasting outage")

numbers: Final = st.integers(0, 9)


@dataclass(frozen=True, slots=True)
class RunFault:
    """What happens at a run's write of that number; ``choice`` is whom it happens to, where that matters."""

    kind: str
    write: int
    moment: Moment
    choice: int

    def strikes(self, step: Step) -> bool:
        """Whether it happens at that write."""
        lasts = self.kind == "a lasting outage" and self.write < step.write
        return (lasts or self.write == step.write) and self.moment == step.moment


#: What leads to endings after a write, and what only a check right before each write sees, comes more often.
_KINDS: Final = (
    *("kill", "kill", "a lost reply", *_REFUSALS, "a lasting outage"),
    *(*["steal"] * 4, "pause", "stop", *["restore"] * 3),
)

run_faults: Final = st.builds(
    RunFault,
    kind=st.sampled_from([*_KINDS, *users.USERS]),
    write=st.integers(10, 44),
    moment=st.sampled_from(["before", "after"]),
    choice=numbers,
)


def at_writes(clusters: ShadowedCluster, found: Sequence[RunFault]) -> At:
    """The faults of one run; each of its writes is checked."""

    def strike(step: Step) -> None:
        if not step.write:
            return
        due = [fault for fault in found if fault.strikes(step)]
        if step.moment == "after":
            clusters.checker.after_write(step)
        else:
            clusters.checker.before_write(step)
        ends = [fault.kind for fault in due if fault.kind in {"kill", *ERRORS}]
        for fault in due:
            if fault.kind not in ends:
                _happen(clusters, fault, step)
        if step.moment == "before":
            clusters.checker.remember(step)
        for kind in ends:
            if kind == "kill":
                step.process.kill()
            elif kind == "a lost reply" or step.moment == "before":
                raising(ERRORS[kind])(step)

    return strike


def _happen(clusters: ShadowedCluster, fault: RunFault, step: Step) -> None:
    """What others do meanwhile."""
    if fault.kind == "steal":
        clusters.world.steal_leases("thief", seconds=15)
    elif fault.kind == "restore":
        clusters.restored = True
        clusters.world.deploy(replicas=1)
    elif fault.kind == "pause":
        clusters.world.advance(LONGER_THAN_A_LEASE)
    elif fault.kind == "stop":
        step.process.stop.set()
    else:
        clusters.happens(fault.kind, fault.choice, 1 + fault.choice % 3, written=True)
