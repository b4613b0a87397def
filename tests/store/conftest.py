"""Servers of a few lines, which end with the test that started them, and a place without a kubeconfig."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from migrator.kube.store import KubeCluster
from tests.support.fake_api import POD, FakeApi, Serve, store_on


@pytest.fixture
def api(serve: Serve) -> FakeApi:
    """A server that says yes to everything."""
    return serve(POD)


@pytest.fixture
def secure(serve: Serve) -> FakeApi:
    """The same over TLS: credentials are sent to no other."""
    return serve(POD, tls=True)


@pytest.fixture
def store(api: FakeApi) -> KubeCluster:
    return store_on(api.url)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers that answer given steps."""
    with ExitStack() as running:
        yield lambda *steps, **options: running.enter_context(FakeApi(*steps, **options).running())


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No kubeconfig but the test's, and no pod around us."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("no_proxy", "*")
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy")
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", *proxies):
        monkeypatch.delenv(variable, raising=False)
