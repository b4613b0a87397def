"""Servers of a few lines, which end with the test that started them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from migrator.stores.kube.store import KubeStore
from tests.support.fake_api import POD, FakeApi, Serve, store_on


@pytest.fixture
def api(serve: Serve) -> FakeApi:
    """A server that says yes to everything."""
    return serve(POD)


@pytest.fixture
def store(api: FakeApi) -> KubeStore:
    """A store on that server."""
    return store_on(api.url)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers that answer given steps."""
    with ExitStack() as running:
        yield lambda *steps, **options: running.enter_context(FakeApi(*steps, **options).running())
