"""Fresh random inputs in bulk: what they are is the oracle's choice, and the seed is printed."""

from __future__ import annotations

import os

import pytest

from migrator.exact_json import loads
from testbed.oracle import MINORS, NEWEST
from tests.oracle.client import ask, random_lines
from tests.oracle.differential.compare import set_mismatch, template_mismatch
from tests.support.counts import record

pytestmark = pytest.mark.differential

BATCHES = 8
TEMPLATES = 20_000 // BATCHES
POD_CLIQUE_SETS = 2_000 // BATCHES
SHOWN = 3


def _seed(batch: int) -> int:
    """Return the seed of a batch: tests/conftest.py drew the first, or the environment gave it."""
    return int(os.environ["GROVE_MIGRATOR_SEED"]) + batch


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_templates_hash_as_in_go(batch: int) -> None:
    """Python and Go agree on random templates under all eight schemes, and on which are errors."""
    seed = _seed(batch)
    lines = random_lines(NEWEST, seed, TEMPLATES)
    inputs = [loads(line)["input"] for line in lines]
    mismatches = []
    for minor in MINORS:
        replies = ask(minor, lines)
        found = map(template_mismatch, inputs, lines, [minor] * len(lines), replies)
        mismatches += [mismatch for mismatch in found if mismatch]
        assert 0 < sum("error" in reply for reply in replies) < TEMPLATES / 2
    assert not mismatches, _report(seed, mismatches)
    assert len(inputs) == TEMPLATES
    record("differential_templates", len(inputs))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_pod_clique_sets_hash_as_in_go(batch: int) -> None:
    """Python and Go agree on the generation hash and all template hashes of random PodCliqueSets."""
    seed = _seed(batch)
    lines = random_lines(NEWEST, seed, POD_CLIQUE_SETS, sets=True)
    inputs = [loads(line)["pcs"] for line in lines]
    mismatches = []
    for minor in MINORS:
        found = map(set_mismatch, inputs, lines, [minor] * len(lines), ask(minor, lines))
        mismatches += [mismatch for mismatch in found if mismatch]
    assert not mismatches, _report(seed, mismatches)
    assert len(inputs) == POD_CLIQUE_SETS
    record("differential_podcliquesets", len(inputs))


def _report(seed: int, mismatches: list[str]) -> str:
    shown = "\n".join(mismatches[:SHOWN])
    return f"seed {seed}: {len(mismatches)} mismatches, the first:\n{shown}"
