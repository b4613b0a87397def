"""A run whose process is killed at a write to a real API server: a rerun finishes it, and a revert undoes it.

The process is killed by SIGKILL from the proxy between it and the server: before the server has the write, after the
server did it and before the reply, or so that the write arrives late. Nobody else is at work by then: the Lease of the
dead run keeps others out for a minute, which the tests shorten once the write has arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import pytest

from tests.simulation import harm
from tests.simulation.live import REQUEST_TIMEOUT, LiveCluster
from tests.simulation.process import KILLED
from tests.simulation.proxy import Fault, Seen
from tests.simulation.truth import DONE, lies
from tests.support.counts import record

pytestmark = [pytest.mark.controlplane, pytest.mark.faults]

Way = Literal["rerun", "revert"]

MOMENTS: Final[dict[str, Fault]] = {
    "before": harm.kill_before,
    "after": harm.kill_after,
    "late": harm.kill_late(0.75 * REQUEST_TIMEOUT),
}
RECORD: Final = "configmaps/grove-migrator-run"
USAGE: Final = 2

#: No fewer than an undisturbed run has; renewals of the Leases add a few.
WRITES: Final = 40

#: Each kind of write, the commit records above all: where and how to kill, and what comes afterwards.
CHOSEN: Final[dict[str, tuple[Callable[[], Callable[[Seen], bool]], str, Way]]] = {
    "the first write": (lambda: harm.write(1), "before", "revert"),
    "the operator's replicas": (lambda: harm.nth(1, "PATCH", "deployments/"), "after", "revert"),
    "our Lease": (lambda: harm.nth(1, "POST", "leases"), "after", "rerun"),
    "the operator's Lease": (lambda: harm.nth(2, "POST", "leases"), "after", "revert"),
    "the tables": (lambda: harm.nth(2, "POST", "configmaps"), "before", "rerun"),
    "the first pod": (lambda: harm.nth(1, "PATCH", "pods/"), "after", "revert"),
    "the middle": (lambda: harm.nth(3, "PATCH", "podcliques/"), "late", "rerun"),
    "the first set": (lambda: harm.nth(1, "PATCH", "podcliquesets/"), "after", "rerun"),
    "the last set": (lambda: harm.nth(3, "PATCH", "podcliquesets/"), "before", "revert"),
    "the end in the record": (lambda: harm.nth(2, "PATCH", RECORD), "before", "rerun"),
    "the last write": (lambda: harm.nth(3, "POST", "events"), "after", "revert"),
}


def check_rerun(live: LiveCluster) -> None:
    """A rerun ends well: everything is the target's, the record tells so, and the operator waits at zero for Helm."""
    again = live.finish()
    assert (again.code, lies(live, again)) == (DONE, []), str(again)
    assert live.grove() == live.after
    assert live.replicas == 0
    assert "grove-migrator-run" in live.records
    if again.proxy.writes:
        assert live.holder == ""


def check_revert(live: LiveCluster, killed: list[Seen]) -> None:
    """A revert gives back the very objects, the replicas as if they had never been touched, and its own record."""
    back = live.revert()
    assert live.grove() == live.before, str(back)
    if killed[-1].write == 1 and not live.records:
        assert back.code == USAGE, str(back)  # nothing was begun, so there is nothing to undo
    else:
        assert back.code == DONE, str(back)
    assert live.replicas == 1
    assert live.owners_of_replicas == []
    assert live.records == [] or killed[-1].write <= 2  # what was never stopped need not be forgotten
    if back.proxy.writes:
        assert live.holder == ""


def check(live: LiveCluster, moment: str, chosen: Callable[[Seen], bool], way: Way) -> bool:
    """Kill a run, and look at what it left and at what comes then; false if it ended before the point came."""
    run = live.start(harm.once(MOMENTS[moment], chosen)).wait()
    assert lies(live, run) == []
    if not run.proxy.faulted:
        assert run.code == DONE, str(run)
        return False
    assert run.code == KILLED, str(run)
    if way == "rerun":
        check_rerun(live)
    else:
        check_revert(live, run.proxy.faulted)
    run.proxy.settle()
    assert live.wrongs == []
    record("kill_points", 1)
    return True


@pytest.mark.parametrize("name", CHOSEN, ids=lambda name: f"{CHOSEN[name][1]} {name}, {CHOSEN[name][2]}")
def test_a_kill_at_a_chosen_write_is_repaired(live: LiveCluster, name: str) -> None:
    """Killed at one write of each kind: no value is ever a third one, and a rerun or a revert ends well."""
    chosen, moment, way = CHOSEN[name]
    assert check(live, moment, chosen(), way), "the run never came to that write"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["rerun", "revert"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_a_kill_at_any_write_is_repaired(live: LiveCluster, moment: str, way: Way, number: int) -> None:
    """Killed at every write there is, in each way: no value is ever a third one, and a rerun or a revert ends well."""
    check(live, moment, harm.write(number), way)


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_a_revert_that_is_killed_at_any_write_is_finished(live: LiveCluster, moment: str, number: int) -> None:
    """The revert itself is killed at every write there is: the next one brings the rest back."""
    assert live.finish().code == DONE
    back = live.start(harm.once(MOMENTS[moment], harm.write(number)), "--revert").wait()
    assert live.wrongs == []
    if back.code == KILLED:
        again = live.revert()
        back.proxy.settle()
        assert again.code in {DONE, USAGE}, str(again)  # once the record is gone there is nothing to revert any more
        record("kill_points", 1)
    else:
        assert back.code == DONE, str(back)
    assert live.grove() == live.before, str(back)
    assert live.replicas == 1, str(back)
    if live.records:  # beside an operator that runs again a record is left alone; it must not stand in the way
        onward = live.finish()
        assert (onward.code, live.grove() == live.after) == (DONE, True), str(onward)


@pytest.mark.slow
def test_no_write_is_left_out(live: LiveCluster) -> None:
    """An undisturbed run has no more writes than the points that are tried."""
    run = live.run()
    assert run.code == DONE, str(run)
    assert 0 < len(run.proxy.writes) <= WRITES
