"""A run that is killed among its writes, judged by the operators that come after it."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from testbed.controlplane.client import eventually
from tests.support.paths import ROOT
from tests.upgrade import photo
from tests.upgrade.builds import Build
from tests.upgrade.lab import Lab
from tests.upgrade.matrix import Pair, compare, prepare
from tests.upgrade.photo import Photo

pytestmark = pytest.mark.upgrade

PAIRS = (Pair("v0.1.0-alpha.3", "v0.1.0-alpha.3-k8s-1.34"), Pair("v0.1.0-alpha.9", "v0.1.0-alpha.11"))


@pytest.mark.parametrize("reverted", [True, False], ids=["revert", "rerun"])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_after_a_kill_nothing_rolls(pair: Pair, tmp_path: Path, *, reverted: bool) -> None:
    """Killed in mid-run: the old operator after --revert recreates no pod, nor does the new one after a rerun."""
    pair.need()
    source, target = pair.builds
    with Lab(tmp_path / "lab") as lab:
        before = prepare(lab, source)
        with lab.diary() as diary:
            _kill_in_mid_run(lab, before, target)
            lab.migrate(target, "--from", source.scheme, *(["--revert"] if reverted else []))
            if reverted:
                assert _hashes(lab.photo()) == _hashes(before)
            lab.install(source if reverted else target)
            after = lab.settle()
        assert diary.deleted == []
        assert after.pods() == before.pods()
        compare(before, after, source if reverted else target)


def _kill_in_mid_run(lab: Lab, before: Photo, target: Build) -> None:
    """Run slowly, and kill the run without warning once it has written to a third of the pods."""
    command = lab.command("run", *target.target, "--stop-operator", "--qps", "8")
    log = lab.control_plane.directory / "killed-run.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
        try:
            eventually(
                lambda: process.poll() is not None or _written(lab.photo(), before) >= len(before.pods()) // 3,
                what="the run writes nothing",
            )
        finally:
            process.kill()
            process.wait()
    assert process.returncode == -signal.SIGKILL, log.read_text(encoding="utf-8")
    assert 0 < _written(lab.photo(), before) < len(before.pods())


def _written(now: Photo, before: Photo) -> int:
    """How many pods have another hash than before."""
    labels = _hashes(now)
    return sum(1 for key, value in _hashes(before).items() if key[0] == photo.POD and labels[key] != value)


def _hashes(found: Photo) -> dict[photo.Key, str | None]:
    """The hash that each object carries as a label; a set's is in its status."""
    return {
        key: item["status"].get("currentGenerationHash")
        if item["kind"] == photo.SET
        else item["metadata"]["labels"].get(photo.HASH)
        for key, item in found.objects.items()
    }
