"""What happens to a run of the state machine at its writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hypothesis import strategies as st

from migrator.errors import ApiError, Conflict, LostReply, NotAuthorised, Rejected, TestFailed, Unreachable
from tests.faults import users
from tests.faults.process import At, Moment, Step, raising
from tests.faults.twins import Twins
from tests.faults.world import LONGER_THAN_A_LEASE

#: What the API server, a proxy before it or the network can answer with.
ERRORS: Final[dict[str, Callable[[], BaseException]]] = {
    "a lost reply": lambda: LostReply("no answer"),
    "a conflict": lambda: Conflict("modified", status=409, reason="Conflict"),
    "a failed test": lambda: TestFailed("a test does not hold", status=422),
    "a rejection": lambda: Rejected("is invalid: spec: forbidden", status=422, reason="Invalid"),
    "an outage": lambda: Unreachable("HTTP 503, 8 times"),
    "a lasting outage": lambda: Unreachable("HTTP 503, at every request"),
    "a bug of the server": lambda: ApiError("HTTP 400", status=400),
    "a missing right": lambda: NotAuthorised("HTTP 403"),
    "a void token": lambda: NotAuthorised("HTTP 401"),
}
#: Those of them after which nothing was done, as mishaps of the state machine.
_REFUSALS: Final = ("a conflict", "a failed test", "an outage", "a lasting outage")

numbers: Final = st.integers(0, 9)


@dataclass(frozen=True, slots=True)
class Mishap:
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

mishaps: Final = st.builds(
    Mishap,
    kind=st.sampled_from([*_KINDS, *users.USERS]),
    write=st.integers(10, 44),
    moment=st.sampled_from(["before", "after"]),
    choice=numbers,
)


def fault(twins: Twins, found: Sequence[Mishap]) -> At:
    """The mishaps of one run; each of its writes is witnessed."""

    def strike(step: Step) -> None:
        due = [mishap for mishap in found if mishap.strikes(step)]
        if step.moment == "after":
            twins.witness.applied(step)
        else:
            twins.witness.arrive(step)
        ends = [mishap.kind for mishap in due if mishap.kind in {"kill", *ERRORS}]
        for mishap in due:
            if mishap.kind not in ends:
                _happen(twins, mishap, step)
        if step.moment == "before":
            twins.witness.stash(step)
        for kind in ends:
            if kind == "kill":
                step.process.kill()
            elif kind == "a lost reply" or step.moment == "before":
                raising(ERRORS[kind])(step)

    return strike


def _happen(twins: Twins, mishap: Mishap, step: Step) -> None:
    """What others do meanwhile."""
    if mishap.kind == "steal":
        twins.world.steal_leases("thief", seconds=15)
    elif mishap.kind == "restore":
        twins.restored = True
        twins.world.deploy(replicas=1)
    elif mishap.kind == "pause":
        twins.world.advance(LONGER_THAN_A_LEASE)
    elif mishap.kind == "stop":
        step.process.stop.set()
    else:
        twins.happens(mishap.kind, mishap.choice, 1 + mishap.choice % 3, written=True)
