"""Another client beside a run: it reads one small object again and again, and notes how long each read took."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Final

from testbed.controlplane.client import Client

_PAUSE: Final = 0.05


def percentile(seconds: Sequence[float], share: float) -> float:
    """The time that this share of the reads did not exceed; 0 without reads."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


@contextmanager
def reading(client: Client) -> Iterator[list[float]]:
    """Read for as long as the block lasts, twenty times a second; gives the seconds of each read."""
    seconds: list[float] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.wait(_PAUSE):
            began = perf_counter()
            client.request("GET", "/api/v1/namespaces/default")
            seconds.append(perf_counter() - began)

    thread = threading.Thread(target=read, name="neighbour", daemon=True)
    thread.start()
    try:
        yield seconds
    finally:
        stop.set()
        thread.join()
