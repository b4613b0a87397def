"""Fixtures of the tests of what people apply."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.manifests.audit import audit
from tests.cluster.manifests.site import ACCOUNT, NAMESPACE, Site, kubeconfig_of, started
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
def account(site: Site, tmp_path: Path, invoke: Invoke) -> Invoke:
    """Calls commands as the Job's ServiceAccount."""
    token = site.admin.service_account_token(NAMESPACE, ACCOUNT)
    return invoke.given("--kubeconfig", kubeconfig_of(site.server, token, tmp_path / "account"))
