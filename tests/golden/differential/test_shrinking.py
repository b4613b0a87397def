"""A few hundred inputs of hypothesis, which shrinks what fails to the smallest template that shows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from migrator.exact_json import loads
from testbed.oracle import MINORS
from tests.golden.client import Oracle, line, running
from tests.golden.differential.compare import mismatch
from tests.golden.differential.strategies import templates

pytestmark = pytest.mark.differential

EXAMPLES = 400


@pytest.fixture(scope="module")
def oracles() -> Iterator[dict[str, Oracle]]:
    """One process a minor, for all examples."""
    with ExitStack() as processes:
        yield {minor: processes.enter_context(running(minor)) for minor in MINORS}


def test_templates_of_hypothesis_hash_as_in_go(oracles: dict[str, Oracle]) -> None:
    """Python and Go agree on whatever hypothesis makes of the newest layout, under all schemes."""
    examples = []

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(text=templates())
    def agree(text: str) -> None:
        examples.append(text)
        question = line("hypothesis", "input", text.encode())
        for minor, oracle in oracles.items():
            found = mismatch("input", loads(text), question, minor, oracle.ask(question))
            assert found is None, found

    agree()
    assert len(examples) >= EXAMPLES
