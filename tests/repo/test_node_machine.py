"""What stands around the node tests and runs anywhere: what a machine lacks, and whether a cluster left anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.node import machine, traces
from tests.support.paths import ROOT


def test_what_a_machine_lacks_is_one_sentence() -> None:
    """Root, apt-get and unshare are asked for in turn; with all of them there is nothing to say."""
    assert machine.lacking(root=False) == "A real node needs root: namespaces, mounts and control groups of its own."
    asked = ("apt-get", "unshare")
    assert [
        machine.lacking(root=True, which={name: name for name in asked if name != absent}.get) for absent in asked
    ] == [
        "A real node installs what it needs with apt-get, which is not on PATH.",
        "A real node lives in namespaces of its own with unshare, which is not on PATH.",
    ]
    assert machine.lacking(root=True, which=lambda name: name) is None


def test_only_missing_packages_are_installed() -> None:
    """Each program that is not there stands for its package, once."""
    assert set(machine.missing(lambda _: None)) >= {"buildah", "containerd", "debootstrap", "iptables", "runc"}
    assert "containerd" not in machine.missing(lambda name: name)


def test_a_process_that_was_left_is_noticed_until_it_ends() -> None:
    """Processes are known by their environment, wherever they are."""
    name = f"grove-node-test-{os.getpid()}"
    before = traces.taken()
    with subprocess.Popen(["sleep", "60"], env={**os.environ, traces.VARIABLE: name}) as process:
        environment = Path(f"/proc/{process.pid}/environ")
        while not environment.read_bytes():  # the kernel sets it a moment after a new program has begun
            time.sleep(0.01)
        assert f"process {process.pid}" in traces.left(name, before)
        process.kill()
    assert not [trace for trace in traces.left(name, before) if trace.startswith(("process", "cgroup"))]


def test_what_was_not_there_before_is_named_by_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mounts and links that look like a cluster's are compared with those of before."""
    monkeypatch.setattr(traces, "_MOUNTED", ("/proc",))
    monkeypatch.setattr(traces, "_LINKED", ("lo",))
    before = traces.taken()
    assert not {"mount /proc", "link lo"} & set(traces.left("grove-node-nobody", before))
    nothing = {kind: set[str]() for kind in before}
    assert {"mount /proc", "link lo"} <= set(traces.left("grove-node-nobody", nothing))


def test_a_machine_that_cannot_says_so_in_a_sentence(tmp_path: Path) -> None:
    """The probe of .ci/run prints nothing but the reason, and ends with 1."""
    command = [sys.executable, "-m", "tests.node", "--probe"]
    done = subprocess.run(command, cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"A real node .+\.\n", done.stdout)
