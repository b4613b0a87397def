"""What the kind tests need: programs, an engine, and our image."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.upgrade.kind.cluster import build_image
from tests.upgrade.kind.commands import lacking, run


@pytest.fixture(scope="session")
def image() -> Iterator[str]:
    """The tag of our image, built for this session; skips where the tests cannot run."""
    reason = lacking()
    if reason is not None:
        pytest.skip(reason)
    tag = f"grove-migrator:e2e-{secrets.token_hex(4)}"
    build_image(tag)
    yield tag
    run("docker", "image", "rm", tag)
