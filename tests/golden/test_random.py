"""Fresh random inputs in bulk; the seed is printed."""

from __future__ import annotations

import os

import pytest

from migrator.exact_json import loads
from testbed.oracle import MINORS, ask
from tests.golden.compare import mismatch
from tests.golden.inputs import random_lines
from tests.support.tables import table

pytestmark = pytest.mark.differential

TEMPLATES = 1000
POD_CLIQUE_SETS = 100
SHOWN = 3


def _seed(batch: int) -> int:
    """Return the seed of a batch: tests/conftest.py drew the first, or the environment gave it."""
    return int(os.environ["GROVE_MIGRATOR_SEED"]) + batch


@table(
    "kind count",
    ("Templates, and which of them are errors, under every scheme.", ("input", TEMPLATES)),
    ("The generation hash and all template hashes of PodCliqueSets.", ("pcs", POD_CLIQUE_SETS)),
)
@pytest.mark.parametrize("batch", [0, *(pytest.param(batch, marks=pytest.mark.slow) for batch in range(1, 20))])
def test_random_inputs_hash_as_in_go(batch: int, kind: str, count: int) -> None:
    """Python and Go agree on what nobody wrote down before."""
    seed = _seed(batch)
    lines = random_lines(seed, count, sets=kind == "pcs")
    inputs = [loads(line)[kind] for line in lines]
    mismatches: list[str] = []
    for minor in MINORS:
        replies = ask(minor, lines)
        found = (mismatch(kind, *one, minor, reply) for *one, reply in zip(inputs, lines, replies, strict=True))
        mismatches += filter(None, found)
        assert kind == "pcs" or 0 < sum("error" in reply for reply in replies) < count / 2
    assert not mismatches, _report(seed, mismatches)
    assert len(inputs) == count


def _report(seed: int, mismatches: list[str]) -> str:
    shown = "\n".join(mismatches[:SHOWN])
    return f"seed {seed}: {len(mismatches)} mismatches, the first:\n{shown}"
