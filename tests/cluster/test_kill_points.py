"""A run whose process is killed at a write to a real API server: a rerun finishes it, and a revert undoes it.

The process is killed by SIGKILL from the proxy between it and the server: before the server has the write, after the
server did it and before the reply, or so that the write arrives late. Nobody else is at work by then: the Lease of the
dead run keeps others out for a minute, which the tests shorten once the write has arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import pytest

from tests.faults import harm
from tests.faults.live import REQUEST_TIMEOUT, LiveCluster
from tests.faults.process import KILLED
from tests.faults.proxy import Fault, Seen
from tests.faults.truth import DONE, lies

pytestmark = [pytest.mark.controlplane, pytest.mark.faults]

Way = Literal["rerun", "revert"]

MOMENTS: Final[dict[str, Fault]] = {
    "before": harm.kill_before,
    "after": harm.kill_after,
    "late": harm.kill_late(0.75 * REQUEST_TIMEOUT),
}
USAGE: Final = 2

#: Where and how to kill, and what comes afterwards.
CHOSEN: Final[dict[str, tuple[Callable[[], Callable[[Seen], bool]], str, Way]]] = {
    "the middle": (lambda: harm.nth(3, "PATCH", "podcliques/"), "late", "rerun"),
    "the first set": (lambda: harm.nth(1, "PATCH", "podcliquesets/"), "after", "revert"),
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
    return True


@pytest.mark.parametrize("name", CHOSEN, ids=lambda name: f"{CHOSEN[name][1]} {name}, {CHOSEN[name][2]}")
def test_a_kill_at_a_chosen_write_is_repaired(live: LiveCluster, name: str) -> None:
    """Killed in the middle of the writes: no value is ever a third one, and a rerun or a revert ends well."""
    chosen, moment, way = CHOSEN[name]
    assert check(live, moment, chosen(), way), "the run never came to that write"
