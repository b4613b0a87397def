"""What stands around the tests on kind and runs anywhere: what a machine lacks, what it is left with, and the sets."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from migrator.hashing import podcliqueset, schemes
from testbed.controlplane.client import Object
from testbed.kind import BUSYBOX, debian, traces
from tests.e2e import pods
from tests.support.paths import ROOT
from tests.upgrade import samples
from tests.upgrade.matrix import ON_KIND, Pair


def test_what_a_machine_lacks_is_one_sentence() -> None:
    """Root and each program are asked for in turn; with all of them there is nothing to say."""
    assert debian.lacking(root=False) == "An engine of its own needs root: namespaces, mounts and control groups."
    without = debian.lacking(root=True, which=lambda name: None if name == "unshare" else name)
    assert without == "An engine of its own needs unshare, which is not on PATH."
    assert debian.lacking(root=True, which=lambda name: name) is None


def test_a_process_that_was_left_is_noticed_until_it_ends() -> None:
    """Processes are known by their environment, wherever they are."""
    name = f"grove-kind-test-{os.getpid()}"
    before = traces.taken()
    with subprocess.Popen(["sleep", "60"], env={**os.environ, traces.VARIABLE: name}) as process:
        environment = Path(f"/proc/{process.pid}/environ")
        while not environment.read_bytes():  # the kernel sets it a moment after a new program has begun
            time.sleep(0.01)
        assert f"process {process.pid}" in traces.left(name, before)
        process.kill()
    assert not [trace for trace in traces.left(name, before) if trace.startswith(("process", "cgroup"))]


def test_what_was_not_there_before_is_named_by_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mounts and links that look like an engine's are compared with those of before."""
    monkeypatch.setattr(traces, "_MOUNTED", ("/proc",))
    monkeypatch.setattr(traces, "_LINKED", ("lo",))
    before = traces.taken()
    assert not {"mount /proc", "link lo"} & set(traces.left("grove-kind-nobody", before))
    nothing = {kind: set[str]() for kind in before}
    assert {"mount /proc", "link lo"} <= set(traces.left("grove-kind-nobody", nothing))


def test_a_machine_that_cannot_says_so_in_a_sentence(tmp_path: Path) -> None:
    """The probe of .ci/run prints nothing but the reason, and ends with 1."""
    command = [sys.executable, "-m", "tests.e2e", "--probe"]
    done = subprocess.run(command, cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"[A-Z].+\.\n", done.stdout)


@pytest.mark.parametrize("pcs", samples.all_sets(on_delete=True), ids=lambda pcs: pcs["metadata"]["name"])
def test_a_small_set_is_the_same_set_for_the_operator(pcs: Object) -> None:
    """Only image, command, resources and probe of containers are exchanged, no GPU is left, and the sample stays."""
    before, small = _without_exchanged(pcs), pods.small(pcs)
    assert _without_exchanged(small) == before == _without_exchanged(pcs)
    for container in _containers(small):
        assert (container["image"], container["command"]) == (BUSYBOX, list(pods.COMMAND))
        assert set(container.get("resources", {}).get("limits", {})) <= {"memory", "cpu"}


@pytest.mark.parametrize("pair", [pair for pair in ON_KIND if pair.recreates], ids=lambda pair: pair.name)
def test_each_small_set_hashes_otherwise_after_the_upgrade(pair: Pair) -> None:
    """The upgrade without the tool has something to recreate in every set."""
    for pcs in samples.all_sets(on_delete=pair.builds[0].on_delete):
        old, new = (
            podcliqueset.hash_pod_clique_set(pods.small(pcs), schemes.by_name(build.scheme)) for build in pair.builds
        )
        assert not set(old.pod_template_hashes.items()) & set(new.pod_template_hashes.items())


def _containers(pcs: Object) -> list[Object]:
    cliques = pcs["spec"]["template"]["cliques"]
    return [container for clique in cliques for container in clique["spec"]["podSpec"]["containers"]]


def _without_exchanged(pcs: Object) -> Object:
    found = copy.deepcopy(pcs)
    for container in _containers(found):
        for name in ("image", "command", "resources", "readinessProbe"):
            container.pop(name, None)
    return found
