"""What is read while the cluster changes."""

from __future__ import annotations

from itertools import count

import pytest

from migrator.kinds import PODS
from migrator.run.snapshot import read_snapshot
from tests.support.builders import World
from tests.support.memory_store import MemoryCluster, Request


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_pod_that_starts_between_two_lists_has_not_finished(number: int) -> None:
    """It is pending until this list of pods is asked for, and runs from then on: its GPUs count."""
    store, lists = MemoryCluster(*World().grow(pods=1).objects), count(1)

    def turn(phase: str) -> None:
        store.edit(PODS, "default", "web-0-front-0", lambda pod: pod.update(status={"phase": phase}))

    def start(request: Request) -> None:
        if request.resource == PODS and next(lists) == number:
            turn("Running")

    turn("Pending")
    store.before.append(start)
    [tree] = read_snapshot(store, phases=True).trees
    assert [pod.ref.name for clique in tree.pod_cliques for pod in clique.pods if pod.finished] == []
