"""Several migrators at once, one step at a time: a seed gives one interleaving of all their requests."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tests.faults.process import At, Ending, Process
from tests.faults.world import LONGER_THAN_A_LEASE, World

_LONGEST: Final = 120.0
#: How long a process may stand still at a request, in seconds.
_PAUSES: Final = (*[0.0] * 60, LONGER_THAN_A_LEASE)


class Interleaving:
    """Lets one of several processes run at any moment; who is next, and after which pause, is drawn."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._random = random.Random(seed)  # noqa: S311 - schedules, not secrets
        self._turn = threading.Condition()
        self._wakes: dict[int, float] = {}
        self._running: int | None = None

    def run(self, runs: Sequence[tuple[At, dict[str, Any]]]) -> list[Ending]:
        """Run processes to their ends, each with its faults and the options of its run."""
        processes = [self._start(number, fault) for number, (fault, _) in enumerate(runs)]
        self._wakes = {number: self._random.random() * 10 for number in range(len(runs))}
        with ThreadPoolExecutor(len(runs)) as pool:
            endings = [pool.submit(self._live, number, processes[number], runs[number][1]) for number in self._wakes]
            self._give_up()
        return [ending.result() for ending in endings]

    def _start(self, number: int, fault: At) -> Process:
        return self._world.start(
            at=fault,
            gate=lambda: self._pause(number, self._random.choice(_PAUSES) + self._random.random()),
            sleep=lambda seconds: self._pause(number, seconds),
        )

    def _live(self, number: int, process: Process, options: dict[str, Any]) -> Ending:
        try:
            self._wait_for_turn(number)
            return process.run(code=None, **options)
        finally:
            self._give_up()

    def _pause(self, number: int, seconds: float) -> None:
        with self._turn:
            self._wakes[number] = self._world.seconds + seconds
            self._give_up()
        self._wait_for_turn(number)

    def _wait_for_turn(self, number: int) -> None:
        with self._turn:
            if not self._turn.wait_for(lambda: self._running == number, timeout=_LONGEST):
                raise TimeoutError(f"process {number} never got its turn")

    def _give_up(self) -> None:
        """Give the turn to the process that wakes first; the caller does not run any more."""
        with self._turn:
            self._running = None
            if self._wakes:
                number = min(self._wakes, key=lambda n: (self._wakes[n], n))
                at = self._wakes.pop(number)
                if at > self._world.seconds:
                    self._world.advance(at - self._world.seconds)
                self._running = number
                self._turn.notify_all()
