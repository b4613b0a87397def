"""The cluster that faults are injected into, on the API server that a test process shares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.controlplane.server import ControlPlane
from tests.faults.live import LiveCluster


@pytest.fixture
def live(control_plane: ControlPlane, tmp_path: Path) -> Iterator[LiveCluster]:
    """The cluster before its migration; nothing of it stays for the tests that follow."""
    found = LiveCluster(control_plane, tmp_path)
    yield found.reset()
    found.close()
