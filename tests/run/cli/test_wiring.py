"""What the command line gives a run to work with."""

from __future__ import annotations

import threading
import time

from migrator.cli import wiring
from migrator.cli.options import Session


def test_a_stop_ends_a_sleep_and_not_a_rest() -> None:
    """SIGTERM need not wait for a sleep; a write in doubt may still land, and is waited for all the same."""
    stop = threading.Event()
    stop.set()
    context = wiring.context(Session(), stop)
    started = time.monotonic()
    context.sleep(60.0)
    context.rest(0.05)
    assert time.monotonic() - started >= 0.05
