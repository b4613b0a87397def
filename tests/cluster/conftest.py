"""API servers, one without controllers and one with what people apply, and who calls commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.controlplane.client import Client
from testbed.controlplane.server import ControlPlane
from tests.cluster.site import ACCOUNT, NAMESPACE, ServedSite, kubeconfig_of
from tests.support.command_line import Invoke, invoke

__all__ = ["invoke"]


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


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedSite]:
    """An API server with controllers and an audit log, with our manifests applied; one for each test process."""
    with ControlPlane(tmp_path_factory.mktemp("site"), controllers=True, audited=True) as server:
        found = ServedSite(server)
        found.prepare()
        yield found
        found.client.close()


@pytest.fixture
def account(site: ServedSite, tmp_path: Path, invoke: Invoke) -> Invoke:
    """Calls commands as the Job's ServiceAccount."""
    token = site.client.service_account_token(NAMESPACE, ACCOUNT)
    return invoke.given("--kubeconfig", kubeconfig_of(site.server, token, tmp_path / "account"))
