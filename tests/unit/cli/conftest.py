"""The command line, and the example as a cluster that it finds."""

from __future__ import annotations

import pytest

from tests.support.command_line import Invoke, invoke, objects
from tests.support.memory_store import MemoryCluster

__all__ = ["invoke"]


@pytest.fixture
def cluster(invoke: Invoke) -> MemoryCluster:
    """The example as a cluster in memory, which the command line finds."""
    return invoke.on(MemoryCluster(*objects()))
