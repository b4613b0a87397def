"""Fixtures of the tests of what people apply."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.controlplane.options import Options
from testbed.controlplane.server import ControlPlane
from tests.cluster.manifests.site import Pod, Site
from tests.support.command_line import Invoke, invoke

__all__ = ["invoke"]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An API server with controllers and an audit log, with our manifests applied; one for each test process."""
    directory = tmp_path_factory.mktemp("site")
    server = ControlPlane(directory, Options(controller_manager=True, audit_log=directory / "audit.jsonl"))
    server.start()
    admin = server.client()
    found = Site(server, admin, directory)
    found.prepare()
    yield found
    admin.close()
    server.stop()


@pytest.fixture
def pod(site: Site, monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> Pod:
    """The command line as the Job's container."""
    return Pod(site, monkeypatch, invoke)


@pytest.fixture
def audit_log(site: Site) -> Path:
    """Where every request of the site's API server is noted."""
    return site.directory / "audit.jsonl"
