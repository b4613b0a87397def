"""What the upgrade tests need beside a control plane: binaries of real operators, and private mounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pods.container import isolation
from tests.upgrade import builds


@pytest.fixture(scope="session")
def isolated() -> None:
    """Skips where this machine gives no process mounts of its own."""
    if isolation() is None:
        pytest.skip("this machine permits no private mounts (unshare --mount), so no container can be imitated")


@pytest.fixture(scope="session")
def operators(isolated: None) -> Path:  # noqa: ARG001 - it only skips
    """The directory of operator binaries; skips where none is named."""
    found = builds.directory()
    if found is None:
        pytest.skip(f"{builds.VARIABLE} names no directory with <build>/grove-operator")
    return found
