"""The command line, and the example as a cluster that it finds."""

from __future__ import annotations

import pytest

from migrator.cli import connect, dialogue
from tests.support.command_line import Invoke, invoke, objects
from tests.support.memory_site import NEW, Site, after_a_run
from tests.support.memory_store import MemoryCluster

__all__ = ["invoke"]


@pytest.fixture
def cluster(invoke: Invoke) -> MemoryCluster:
    """The example as a cluster in memory, which the command line finds."""
    return invoke.on(MemoryCluster(*objects()))


@pytest.fixture
def site(invoke: Invoke) -> Site:
    """The example of Dynamo beside the operator that made it, which the command line finds."""
    found = Site()
    invoke.on(found.store)
    return found


@pytest.fixture
def migrated(invoke: Invoke) -> Site:
    """The same after a run, which has stopped the operator."""
    found = Site(*after_a_run())
    invoke.on(found.store)
    return found


@pytest.fixture
def upgraded(migrated: Site) -> Site:
    """The same after the upgrade."""
    migrated.install(NEW)
    return migrated


@pytest.fixture
def somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody is at the terminal, who may be asked."""
    monkeypatch.setattr(dialogue, "can_ask", lambda **_: True)


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One patch is under way, so that a run can be caught between two."""
    monkeypatch.setattr(connect, "CONCURRENCY", 1)
