"""What happens to a run of the state machine at its writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hypothesis import strategies as st

from migrator.errors import Conflict, LostReply, TestFailed, Unreachable
from tests.simulation import users
from tests.simulation.process import Fault, Moment, Write
from tests.simulation.twins import Twins
from tests.simulation.world import LONGER_THAN_A_LEASE

#: Errors of the API server, which did nothing.
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

    def strikes(self, write: Write) -> bool:
        """Whether it happens at that write; an API server that is down stays so."""
        due = self.write == write.number or (self.kind == "down" and self.write < write.number)
        return due and self.moment == write.moment


#: What leads to endings after a write, and what only a check right before each write sees, comes more often.
_KINDS: Final = ("kill", "kill", "lose", *_ERRORS, "down", *["steal"] * 4, "pause", "stop", *["restore"] * 3)

mishaps: Final = st.builds(
    Mishap,
    kind=st.sampled_from([*_KINDS, *users.USERS]),
    write=st.integers(10, 44),
    moment=st.sampled_from(["before", "after"]),
    choice=numbers,
)


def fault(twins: Twins, found: Sequence[Mishap]) -> Fault:
    """The mishaps of one run; each of its writes is witnessed."""

    def strike(write: Write) -> None:
        due = [mishap for mishap in found if mishap.strikes(write)]
        if write.moment == "after":
            twins.witness.applied(write)
        else:
            twins.witness.arrive(write)
        ends = [mishap for mishap in due if mishap.kind in {"kill", "lose", *_ERRORS}]
        for mishap in due:
            if mishap not in ends:
                _happen(twins, mishap, write)
        if write.moment == "before":
            twins.witness.stash(write)
        for mishap in ends:
            _end(mishap, write)

    return strike


def _end(mishap: Mishap, write: Write) -> None:
    """What the process does not survive, or learns of its request."""
    if mishap.kind == "kill":
        write.process.kill()
    elif mishap.kind == "lose":
        raise LostReply("no answer")
    elif mishap.moment == "before":
        error = _ERRORS[mishap.kind]()
        raise error


def _happen(twins: Twins, mishap: Mishap, write: Write) -> None:
    """What others do meanwhile."""
    if mishap.kind == "steal":
        twins.world.steal_leases("thief", seconds=15)
    elif mishap.kind == "restore":
        twins.restored = True
        twins.world.deploy(replicas=1)
    elif mishap.kind == "pause":
        twins.world.advance(LONGER_THAN_A_LEASE)
    elif mishap.kind == "stop":
        write.process.stop.set()
    else:
        twins.happens(mishap.kind, mishap.choice, 1 + mishap.choice % 3, written=True)
