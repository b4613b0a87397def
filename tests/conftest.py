"""What every test run shares: one seed for everything that is drawn at random, in its first lines, and fixtures."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest

from testbed.controlplane.client import Client
from testbed.controlplane.server import ControlPlane

SEED = "GROVE_MIGRATOR_SEED"


def pytest_configure() -> None:
    """Draw the seed before parallel test processes start, so that they all inherit it."""
    os.environ.setdefault(SEED, str(secrets.randbelow(2**31)))


def pytest_report_header() -> str:
    """Print the seed, with which a run can be repeated."""
    return f"{SEED}={os.environ[SEED]}"


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server without controllers, one for each test process."""
    with ControlPlane(tmp_path_factory.mktemp("controlplane")) as server:
        yield server


@pytest.fixture(scope="session")
def api(control_plane: ControlPlane) -> Iterator[Client]:
    """The administrator's client of the API server without controllers."""
    client = control_plane.client()
    yield client
    client.close()
