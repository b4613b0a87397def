"""Run tests in a closed cluster with a real node, and look whether it left anything: ``make node-test``.

python -m tests.node [ARGUMENTS OF PYTEST]
python -m tests.node --probe                  whether there can be a real node here, found out by having one
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from typing import Final

from tests.node import images, machine, traces
from tests.node.programs import CONTAINERD, NODE
from tests.support.controlplane.build import CONTROL_PLANE
from tests.support.go_programs import GoProgramError

#: The kernel ends all of it when this process ends, however that happens.
_NAMESPACES: Final = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)


def prepare(*, ours: bool = True) -> None:
    """Have the packages, the programs and the images."""
    machine.install()
    for what in (CONTROL_PLANE.binary, NODE.binary, CONTAINERD.binary, images.base, *([images.ours] if ours else [])):
        began = time.monotonic()
        path = what()
        sys.stderr.write(f"{path}: {path.stat().st_size / 1e6:.0f} MB, {time.monotonic() - began:.0f} s\n")


def run(module: str, *arguments: str) -> int:
    """Run a Python module in namespaces of its own; returns its exit code, or 1 if something was left behind."""
    cgroup = f"grove-node-{secrets.token_hex(4)}"
    before = traces.taken()
    traces.make_cgroups(cgroup)
    command = [sys.executable, "-m", "tests.node.inside", sys.executable, "-m", module, *arguments]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # as an exception, so that we tidy up
    process = subprocess.Popen([*_NAMESPACES, *command], env={**os.environ, traces.VARIABLE: cgroup})
    try:
        code = process.wait()
    finally:
        process.kill()
        process.wait()
        traces.remove_cgroups(cgroup)
    found = traces.left(cgroup, before)
    for trace in found:
        sys.stderr.write(f"tests.node: left behind: {trace}\n")
    return code or bool(found)


def probe() -> int:
    """Print why there cannot be a real node here, if so: 1 then, else 0. It takes packages, programs and the base."""
    reason = machine.lacking()
    if reason is None:
        try:
            prepare(ours=False)
            return run("tests.node.probe")
        except (GoProgramError, OSError, subprocess.SubprocessError) as error:
            reason = " ".join(str(error).split())
    sys.stdout.write(f"{reason}\n")
    return 1


def main() -> int:
    """Prepare and run."""
    if sys.argv[1:] == ["--probe"]:
        return probe()
    reason = machine.lacking()
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
        return 1
    try:
        prepare()
    except GoProgramError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    os.environ[images.VARIABLE] = str(images.ours())
    return run("pytest", "-p", "no:cacheprovider", *(sys.argv[1:] or ["tests/node"]))


if __name__ == "__main__":
    sys.exit(main())
