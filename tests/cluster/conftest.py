"""Fixtures of the tests of what people apply."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.manifests.audit import audit
from tests.cluster.manifests.site import Pod, Site, started
from tests.support.command_line import Invoke, invoke

__all__ = ["audit", "invoke"]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An API server with controllers and an audit log, with our manifests applied; one for each test process."""
    with started(tmp_path_factory.mktemp("site")) as found:
        found.prepare()
        found.grant()
        yield found


@pytest.fixture
def pod(site: Site, monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> Pod:
    """The command line as the Job's container."""
    return Pod(site, monkeypatch, invoke)
