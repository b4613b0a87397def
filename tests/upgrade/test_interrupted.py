"""A run that is killed among its writes, judged by the operators that come after it."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.controlplane.client import eventually
from tests.upgrade import photo
from tests.upgrade.builds import BUILDS
from tests.upgrade.lab import ROOT, Lab
from tests.upgrade.matrix import prepare
from tests.upgrade.photo import Photo

pytestmark = [pytest.mark.upgrade, pytest.mark.usefixtures("operators")]

SOURCE, TARGET = BUILDS["v0.1.0-alpha.3"], BUILDS["v0.1.0-alpha.3-k8s-1.34"]


@pytest.mark.parametrize("reverted", [True, False], ids=["revert", "rerun"])
def test_after_a_kill_nothing_rolls(tmp_path: Path, *, reverted: bool) -> None:
    """Killed in mid-run: the old operator after --revert recreates no pod, nor does the new one after a rerun."""
    for build in (SOURCE, TARGET):
        if build.binary() is None:
            pytest.skip(f"not run: no binary of {build.name}")
    with Lab(tmp_path / "lab") as lab:
        before = prepare(lab, SOURCE)
        with lab.diary() as diary:
            _kill_in_mid_run(lab, before)
            again = ("run", "--from", SOURCE.scheme, *TARGET.target, "--stop-operator")
            done = lab.tool(*again, *(["--revert"] if reverted else []))
            assert done.code == 0, done.err
            if reverted:
                assert _hashes(lab.photo()) == _hashes(before)
            lab.install(SOURCE if reverted else TARGET)
            after = lab.settle()
        assert diary.deleted == []
        assert after.pods() == before.pods()
        assert after.updates() == before.updates()
        assert after.updated_replicas() == before.updated_replicas()


def _kill_in_mid_run(lab: Lab, before: Photo) -> None:
    """Run slowly, and kill the run without warning once it has written to a third of the pods."""
    command = lab.command("run", *TARGET.target, "--stop-operator", "--qps", "8")
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
