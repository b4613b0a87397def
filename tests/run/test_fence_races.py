"""Several migrators, one Lease: whatever the pauses, skews, deaths and lost replies, writes never overlap."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import pytest

from migrator.errors import LeaseLost, LostRace, LostReply
from migrator.run.fence import Fence
from tests.support.memory_store import Request
from tests.support.small_cluster import START, SmallCluster

DURATION, REQUEST = 15.0, 10.0
ACTORS, END = 4, 1500.0


@dataclass(frozen=True)
class Write:
    """One write of an actor, from its check to its landing."""

    actor: int
    sent: float
    landed: float


class World:
    """One time for all; exactly one actor runs at any moment, so that a seed gives one history."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - histories, not secrets
        self.time = 0.0
        self.writes: list[Write] = []
        self._turn = threading.Condition()
        self._wakes: dict[int, float] = {}
        self._running: int | None = None

    def sleep(self, actor: int, seconds: float) -> None:
        """Let the others run until it is this actor's turn again."""
        with self._turn:
            self._wakes[actor] = self.time + seconds
            self._running = None
            self._next()
            assert self._turn.wait_for(lambda: self._running == actor, timeout=60)

    def run(self, scripts: list[Callable[[], None]]) -> None:
        """Run every actor to its end."""
        failures: list[BaseException] = []

        def play(actor: int, script: Callable[[], None]) -> None:
            try:
                with self._turn:
                    assert self._turn.wait_for(lambda: self._running == actor, timeout=60)
                script()
            except BaseException as error:  # noqa: BLE001 - reported below
                failures.append(error)
            finally:
                with self._turn:
                    self._running = None
                    self._next()

        threads = [threading.Thread(target=play, args=pair) for pair in enumerate(scripts)]
        self._wakes = {actor: 0.01 * actor for actor in range(len(scripts))}
        for thread in threads:
            thread.start()
        with self._turn:
            self._next()
        for thread in threads:
            thread.join(120)
        if failures:
            raise failures[0]

    def _next(self) -> None:
        """Give the turn to whoever wakes first; the caller holds the lock and no longer runs."""
        if self._running is None and self._wakes:
            actor = min(self._wakes, key=lambda a: (self._wakes[a], a))
            self.time = max(self.time, self._wakes.pop(actor))
            self._running = actor
            self._turn.notify_all()

    @property
    def running(self) -> int:
        """The actor whose code runs."""
        assert self._running is not None
        return self._running

    def pause(self) -> float:
        """How long a process stands still now: mostly not at all, sometimes for longer than any Lease."""
        return self.random.choice([0.0] * 30 + [2.0, 4.0, 8.0, 12.0, 20.0, 90.0])


def migrator(world: World, cluster: SmallCluster, actor: int) -> Callable[[], None]:
    """A migrator that acquires, writes, and now and then is paused, dies or lets go, again and again."""
    offset = world.random.uniform(-1e6, 1e6)
    skew = timedelta(seconds=world.random.uniform(-1e7, 1e7))

    def sleep(seconds: float) -> None:
        world.sleep(actor, seconds + world.pause())

    def write(fence: Fence) -> None:
        fence.check()
        latency = REQUEST * world.random.random() ** 2
        world.writes.append(Write(actor, world.time, world.time + latency))
        sleep(latency)

    def live(life: int) -> None:
        fence = Fence(
            cluster,
            namespace="grove-system",
            name="grove-operator-leader-election",
            duration=DURATION,
            identity=f"migrator-{actor}-{life}",
            request_timeout=REQUEST,
            clock=lambda: world.time + offset,
            sleep=sleep,
            now=lambda: START + skew + timedelta(seconds=world.time),
            threaded=False,
        )
        fence.acquire(world.time + offset + 200)
        renews = world.random.random() < 0.5  # or the path to the Lease is cut, while writes go through
        for _ in range(world.random.randrange(12)):
            write(fence)
            if renews:
                fence.renew_if_due()
        if world.random.random() < 0.5:
            fence.release()  # otherwise it dies here

    def script() -> None:
        life = 0
        while world.time < END:
            life += 1
            with suppress(LostRace, LeaseLost):
                live(life)
            sleep(world.random.uniform(0, 30))

    return script


def history(seed: int) -> World:
    """Play one seed."""
    world, cluster = World(seed), SmallCluster()

    def travel(_request: Request) -> None:
        world.sleep(world.running, world.random.uniform(0, 0.4) + world.pause() * (world.random.random() < 0.2))

    def reply(request: Request) -> None:
        travel(request)
        if request.verb != "get" and world.random.random() < 0.05:
            raise LostReply("no reply")

    cluster.before.append(travel)
    cluster.after.append(reply)
    world.run([migrator(world, cluster, actor) for actor in range(ACTORS)])
    return world


@pytest.mark.parametrize("seed", range(50))
def test_writes_of_two_migrators_never_overlap(seed: int) -> None:
    """Ordered by sending, a migrator sends its first write only after everything of the one before has landed."""
    world = history(seed)
    writes = sorted(world.writes, key=lambda write: write.sent)
    for number, later in enumerate(writes):
        for earlier in writes[:number]:
            if earlier.actor != later.actor:
                assert later.sent >= earlier.landed, f"{earlier} and {later}"
    assert len({write.actor for write in writes}) > 1
    assert len(writes) > 20
