"""Fixtures of the tests that need a real API server; tests/conftest.py takes them in."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from testbed.controlplane.client import Client
from testbed.controlplane.server import ControlPlane


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server without controllers, one for each test process."""
    server = ControlPlane(tmp_path_factory.mktemp("controlplane")).start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def api(control_plane: ControlPlane) -> Iterator[Client]:
    """The administrator's client of the API server without controllers."""
    client = control_plane.client()
    yield client
    client.close()


@pytest.fixture
def namespace(api: Client) -> Iterator[str]:
    """A fresh namespace, removed afterwards with all that is in it."""
    name = f"test-{secrets.token_hex(4)}"
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    api.delete_namespace(name)
