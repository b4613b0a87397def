"""Two processes that migrate one cluster at once: only one of them writes hashes."""

from __future__ import annotations

import threading
import time
from typing import Final

import pytest

from tests.faults import harm
from tests.faults.live import LiveCluster, Migrator
from tests.faults.proxy import Exchange, Fault, Seen
from tests.faults.truth import DONE, lies

pytestmark = [pytest.mark.controlplane, pytest.mark.faults]

#: Nobody loses such a Lease by being slow (seconds).
PATIENT_LEASE: Final = 20
SLOWLY: Final = 0.3


def test_one_of_two_runs_writes(live: LiveCluster) -> None:
    """A second run that starts while the first one writes waits for its Lease, and finds nothing left to write."""
    live.lease_seconds = PATIENT_LEASE
    live.reset()
    writing, first_pod = threading.Event(), harm.nth(1, "PATCH", "pods/")

    def slow(exchange: Exchange) -> None:
        writing.set()
        time.sleep(SLOWLY)
        exchange.pass_on()

    def schedule(seen: Seen) -> Fault | None:
        return slow if first_pod(seen) or (writing.is_set() and seen.write and seen.plural != "leases") else None

    first = live.start(schedule)
    assert writing.wait(60)
    second = live.start(None)
    said = _end(live, first, second)
    assert ((first.code, second.code), second.hash_writes) == ((DONE, DONE), []), said
    assert (live.grove(), live.replicas, live.holder) == (live.after, 0, ""), said


def _end(live: LiveCluster, *runs: Migrator) -> str:
    for run in runs:
        run.wait()
        assert lies(live, run) == []
    assert live.wrongs == []
    return "\n".join(map(str, runs))
