"""A run that is caught among its writes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from testbed.controlplane.client import eventually
from tests.support.paths import ROOT
from tests.upgrade import photo
from tests.upgrade.builds import Build
from tests.upgrade.lab import Lab
from tests.upgrade.photo import Photo


@contextmanager
def in_mid_run(lab: Lab, before: Photo, target: Build, *, pods: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """Run slowly; the block begins once the run has written to so many pods (a third of all), and ends with the run.

    Its log is ``mid-run.txt`` in the control plane's directory.
    """
    command = lab.command("run", *target.target, "--stop-operator", "--concurrency", "1")
    slowly = {**os.environ, "PYTHONPATH": str(ROOT / "tests/support/slow_network"), "PATCH_DELAY": "0.12"}
    pods = pods or len(before.pods()) // 3
    log = lab.control_plane.directory / "mid-run.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=slowly, stdout=output, stderr=output)
        try:
            eventually(
                lambda: process.poll() is not None or _written(lab.photo(), before) >= pods,
                what="the run writes nothing",
            )
            assert process.poll() is None, log.read_text(encoding="utf-8")
            assert set(labels(before).items()) & set(labels(lab.photo()).items()), "everything is written"
            yield process
            process.wait(300)
        finally:
            process.kill()
            process.wait()


def labels(found: Photo) -> dict[photo.Key, str | None]:
    """The hash that each object carries as a label; a set's is in its status."""
    return {
        key: item["status"].get("currentGenerationHash")
        if item["kind"] == photo.SET
        else item["metadata"]["labels"].get(photo.HASH)
        for key, item in found.objects.items()
    }


def _written(now: Photo, before: Photo) -> int:
    """How many pods have another hash than before."""
    found = labels(now)
    return sum(1 for key, value in labels(before).items() if key[0] == photo.POD and found[key] != value)
