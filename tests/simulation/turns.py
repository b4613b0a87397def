"""Several migrators at once, one step at a time: a seed gives one interleaving of all their requests."""

from __future__ import annotations

import random
import threading
from typing import Any

from tests.simulation.process import At, Ending, Process
from tests.simulation.world import World

_LONGEST = 120.0


class Turns:
    """Lets one of several processes run at any moment; who is next, and after which pause, is drawn.

    ``pauses`` are how long a process may stand still at a request, in seconds.
    """

    def __init__(self, world: World, seed: int, *, pauses: tuple[float, ...] = (0.0,)) -> None:
        self._world = world
        self._random = random.Random(seed)  # noqa: S311 - schedules, not secrets
        self._pauses = pauses
        self._turn = threading.Condition()
        self._wakes: dict[int, float] = {}
        self._running: int | None = None
        self._processes: list[Process] = []

    def start(self, *, fault: At | None = None) -> None:
        """Add a process."""
        number = len(self._processes)
        process = self._world.start(
            fault=fault,
            gate=lambda: self._pause(number, self._random.choice(self._pauses) + self._random.random()),
            sleep=lambda seconds: self._pause(number, seconds),
        )
        self._processes.append(process)

    def run(self, *options: dict[str, Any]) -> list[Ending]:
        """Run all processes to their ends; ``options`` are those of each run, in the order of their starts."""
        endings: dict[int, Ending] = {}
        failures: list[BaseException] = []

        def live(number: int) -> None:
            try:
                self._wait_for_turn(number)
                endings[number] = self._processes[number].run(**(options[number] if options else {}))
            except BaseException as error:  # noqa: BLE001 - raised again below
                failures.append(error)
            finally:
                with self._turn:
                    self._running = None
                    self._next()

        count = len(self._processes)
        threads = [threading.Thread(target=live, args=(number,)) for number in range(count)]
        self._wakes = {number: self._random.random() * 10 for number in range(count)}
        for thread in threads:
            thread.start()
        with self._turn:
            self._next()
        for thread in threads:
            thread.join(_LONGEST)
        if failures:
            raise failures[0]
        return [endings[number] for number in range(count)]

    def _pause(self, number: int, seconds: float) -> None:
        with self._turn:
            self._wakes[number] = self._world.seconds + seconds
            self._running = None
            self._next()
        self._wait_for_turn(number)

    def _wait_for_turn(self, number: int) -> None:
        with self._turn:
            if not self._turn.wait_for(lambda: self._running == number, timeout=_LONGEST):
                raise TimeoutError(f"process {number} never got its turn")

    def _next(self) -> None:
        """Give the turn to the process that wakes first; the caller holds the lock and does not run any more."""
        if self._running is None and self._wakes:
            number = min(self._wakes, key=lambda n: (self._wakes[n], n))
            at = self._wakes.pop(number)
            if at > self._world.seconds:
                self._world.advance(at - self._world.seconds)
            self._running = number
            self._turn.notify_all()
