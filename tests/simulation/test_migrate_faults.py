"""A run whose writes fail, in memory: whatever happens, its exit code tells the truth, and a rerun ends well."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from migrator.errors import ApiError, Conflict, LostReply, NotAuthorised, Rejected, TestFailed, Unreachable
from tests.simulation.points import CHOICE, points
from tests.simulation.process import MOMENTS, Moment, Write, raise_at
from tests.simulation.truth import DONE, lies
from tests.simulation.world import World
from tests.support.counts import record

ERRORS: dict[str, Callable[[], BaseException]] = {
    "a conflict": lambda: Conflict("modified", status=409, reason="Conflict"),
    "a failed test": lambda: TestFailed("a test does not hold", status=422),
    "a rejection": lambda: Rejected("is invalid: spec: forbidden", status=422, reason="Invalid"),
    "an outage": lambda: Unreachable("HTTP 503, 8 times"),
    "a bug of the server": lambda: ApiError("HTTP 400", status=400),
    "a missing right": lambda: NotAuthorised("HTTP 403"),
}


def check(world: World, fault: Callable[[Write], None]) -> int:
    """Run with the fault: the exit code tells the truth, and another run, or a revert, ends well. Returns the code."""
    ending = world.run(fault)
    assert lies(world, ending) == []
    again = world.run()
    assert (again.code, lies(world, again)) == (DONE, []), str(again)
    back = world.run(revert=True)
    assert (back.code, world.grove() == world.before, world.replicas) == (DONE, True, 1), str(back)
    return ending.code


@CHOICE
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_lost_reply_never_ends_a_run(moment: Moment, *, every: bool) -> None:
    """The reply to any one write gets lost, applied or not: the run reads what happened and goes on to its end."""
    writes = points(every=every)
    for write in writes:
        world = World()
        ending = world.run(raise_at(write.number, moment, lambda: LostReply("no answer")))
        assert (ending.code, lies(world, ending)) == (DONE, []), (write.target, str(ending))
    record("memory_faults", len(writes))


@CHOICE
@pytest.mark.parametrize("error", ERRORS)
def test_an_error_at_any_write_is_told_truthfully(error: str, *, every: bool) -> None:
    """One write fails: what the exit code says of the cluster is so, and a rerun and a revert end well."""
    writes = points(every=every)
    for write in writes:
        check(World(), raise_at(write.number, "before", ERRORS[error]))
    record("memory_faults", len(writes))
