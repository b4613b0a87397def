"""What every simulated run shares."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.world import stepped_fences


@pytest.fixture(autouse=True)
def stepped() -> Iterator[None]:
    """Every run takes fences whose renewal is part of the schedule."""
    with stepped_fences():
        yield
