"""What the benchmark of the run compares is comparable. Nothing timed is asserted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.run import Bench, running
from benchmarks.shapes import scale_test

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """An API server to measure on, with a few pods."""
    with running() as found:
        found.load(scale_test(20))
        yield found


def test_the_reference_sends_the_very_patches_of_a_run(bench: Bench) -> None:
    """After the recorded patches a run finds nothing to do; after those that take them back it sends as many."""
    there, back = bench.record()
    patches = there.read_text(encoding="utf-8").splitlines()
    assert len(patches) == 20 + 2 * 10 + 1
    bench.replay(there, 4)
    assert "nothing_to_do" in [event["event"] for event in bench.migrate().events]
    bench.replay(back, 4)
    run = bench.migrate()
    assert run.patches == len(patches)
    assert 0 < run.absence < run.spent.seconds
    assert run.rate > 0
    assert run.spent.peak_kib > 0


def test_a_patch_that_fails_spoils_the_measurement(bench: Bench) -> None:
    """The reference tells how many patches failed, and then nothing is measured."""
    bad = bench.directory / "bad.jsonl"
    bad.write_text(
        '{"path": "/api/v1/namespaces/default/pods/none", "accept": "application/json", '
        '"contentType": "application/json-patch+json", "body": "[]"}\n',
        encoding="utf-8",
    )
    with pytest.raises(RuntimeError, match="1 of 1 patches failed"):
        bench.replay(bad, 1)
