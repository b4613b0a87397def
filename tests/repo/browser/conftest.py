"""One Chromium for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.repo.browser import chromium


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Page]:
    """A page of a headless Chromium; in CI, where skips are failures, there must be one."""
    program = chromium.find()
    if program is None:
        pytest.skip("needs Chromium on PATH")
    with chromium.started(program, tmp_path_factory.mktemp("chromium") / "profile") as opened:
        yield opened
