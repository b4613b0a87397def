"""A run on a real API server that is told to end, and one whose API server ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from migrator.run.leases import PARKED
from testbed.controlplane.server import ControlPlane
from tests.simulation import harm
from tests.simulation.live import LiveCluster
from tests.simulation.proxy import Exchange, Seen
from tests.simulation.truth import DONE, FAILED, LOST, REVERTED, STUCK, lies
from tests.support.counts import record

pytestmark = [pytest.mark.controlplane, pytest.mark.faults]

#: What a pod has by default between SIGTERM and SIGKILL (``terminationGracePeriodSeconds``), in seconds.
GRACE: Final = 30.0

#: An undisturbed run has at least so many writes, and at most so many requests.
WRITES: Final = 35
REQUESTS: Final = 200
WHILE_DOWN: Final = 1.0

Chosen = Callable[[], Callable[[Seen], bool]]


# --- told to end ----------------------------------------------------------------------------------------------------

TERMINATED: Final[dict[str, Chosen]] = {
    "while it only reads": lambda: harm.nth(2, "GET", "podcliques"),
    "while it stops the operator": lambda: harm.nth(1, "PATCH", "deployments/"),
    "at the first pod": lambda: harm.nth(1, "PATCH", "pods/"),
    "at the first commit": lambda: harm.nth(1, "PATCH", "podcliquesets/"),
}


def check_terminated(live: LiveCluster, chosen: Callable[[Seen], bool]) -> None:
    """SIGTERM at a request: the run ends by itself with a truthful code, no set half-written and the Lease free."""

    def terminate(exchange: Exchange) -> None:
        exchange.proxy.terminate()
        exchange.pass_on()

    run = live.start(harm.once(terminate, chosen)).wait(seconds=GRACE)
    assert run.code in {DONE, FAILED, LOST, REVERTED, STUCK}, str(run)
    assert lies(live, run) == [], str(run)
    assert live.holder == (PARKED if run.code == STUCK else ""), str(run)
    found = live.grove()
    for name in ("web", "disagg", "patient"):
        assert live.part(found, name) in (live.part(live.before, name), live.part(live.after, name)), str(run)
    again = live.finish()
    assert (again.code, lies(live, again)) == (DONE, []), str(again)
    assert live.grove() == live.after
    record("terminations", 1)


@pytest.mark.parametrize("where", TERMINATED)
def test_sigterm_ends_a_run_in_order(live: LiveCluster, where: str) -> None:
    """Told to end, a run finishes the sets that it has begun, lets go of the Lease, and says what is there."""
    check_terminated(live, TERMINATED[where]())


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, REQUESTS + 1, 4))
def test_sigterm_may_come_at_any_request(live: LiveCluster, number: int) -> None:
    """The same at every fourth request."""
    check_terminated(live, lambda seen: seen.number == number)


# --- the API server ends --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server that nobody else needs."""
    with ControlPlane(tmp_path_factory.mktemp("mortal")) as server:
        yield server


def check_outage(mortal: ControlPlane, directory: Path, chosen: Callable[[Seen], bool]) -> int:
    """The API server is killed at a request and comes back a second later; returns the exit code."""
    live = LiveCluster(mortal, directory).reset()
    back = threading.Event()

    def restart() -> None:
        time.sleep(WHILE_DOWN)
        mortal.start()
        back.set()

    def kill(exchange: Exchange) -> None:
        mortal.kill()
        threading.Thread(target=restart).start()
        exchange.reset()

    run = live.run(harm.once(kill, chosen))
    assert run.proxy.faulted, "the run never came to that request"
    assert back.wait(GRACE * 4)
    assert run.code in {DONE, FAILED, LOST, REVERTED, STUCK}, str(run)
    assert lies(live, run) == [], str(run)
    again = live.finish()
    assert (again.code, lies(live, again)) == (DONE, []), f"{again}\n--- first it was ---\n{run}"
    assert live.grove() == live.after
    live.close()
    record("server_restarts", 1)
    return run.code


def test_a_run_survives_its_api_server(mortal: ControlPlane, tmp_path: Path) -> None:
    """The Lease outlasts the restart, so the run goes on where it was, or takes everything back."""
    code = check_outage(mortal, tmp_path, harm.nth(2, "PATCH", "podcliques/"))
    assert code in {DONE, REVERTED, STUCK}


def test_a_run_survives_its_api_server_while_it_stops_the_operator(mortal: ControlPlane, tmp_path: Path) -> None:
    """Whether the operator was stopped is not known: the run finds out, or its exit code counts it as stopped."""
    check_outage(mortal, tmp_path, harm.nth(1, "PATCH", "deployments/"))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, WRITES, 3))
def test_the_api_server_may_end_at_any_write(mortal: ControlPlane, tmp_path: Path, number: int) -> None:
    """The same at every third write."""
    check_outage(mortal, tmp_path, harm.write(number))
