"""What the upgrade tests need beside a control plane: binaries of real operators, and private mounts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.controlplane.build import ControlPlaneUnavailableError, control_plane_binary
from tests.upgrade import builds
from tests.upgrade.container import isolation


@pytest.fixture(scope="session")
def isolated() -> None:
    """Skips where this machine gives no process mounts of its own."""
    if isolation() is None:
        pytest.skip("this machine permits no private mounts (unshare --mount), so no container can be imitated")


@pytest.fixture(scope="session")
def operators(isolated: None) -> Path:  # noqa: ARG001 - it only skips
    """The directory of operator binaries; skips where none is named, or no API server can be had."""
    found = builds.directory()
    if found is None:
        pytest.skip(f"{builds.VARIABLE} names no directory with <build>/grove-operator")
    if not os.environ.get("KUBEBUILDER_ASSETS"):
        try:
            control_plane_binary()
        except ControlPlaneUnavailableError as error:
            pytest.skip(str(error))
    return found
