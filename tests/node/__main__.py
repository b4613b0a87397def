"""Run tests in a closed cluster with a real node, and look whether it left anything: ``make node-test``.

python -m tests.node [ARGUMENTS OF PYTEST]
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from typing import Final

from testbed.controlplane.build import CONTROL_PLANE
from testbed.go_programs import GoProgramError
from tests.node import images, machine, traces
from tests.node.programs import CONTAINERD, NODE

#: The kernel ends all of it when this process ends, however that happens.
_NAMESPACES: Final = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)


def prepare() -> None:
    """Have the packages, the programs and the images, and name ours to what runs in namespaces."""
    machine.install()
    for what in (CONTROL_PLANE.binary, NODE.binary, CONTAINERD.binary, images.base, images.ours):
        began = time.monotonic()
        path = what()
        sys.stdout.write(f"{path}: {path.stat().st_size / 1e6:.0f} MB, {time.monotonic() - began:.0f} s\n")
    os.environ[images.VARIABLE] = str(path)


def run(*arguments: str) -> int:
    """Run pytest in namespaces of its own; returns its exit code, or 1 if something was left on this machine."""
    cgroup = f"grove-node-{secrets.token_hex(4)}"
    before = traces.taken()
    traces.make_cgroups(cgroup)
    command = [sys.executable, "-m", "tests.node.inside", sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # as an exception, so that we tidy up
    process = subprocess.Popen([*_NAMESPACES, *command, *arguments], env={**os.environ, traces.VARIABLE: cgroup})
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


def main() -> int:
    """Prepare and run."""
    reason = machine.lacking()
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
        return 1
    try:
        prepare()
    except GoProgramError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return run(*(sys.argv[1:] or ["tests/node"]))


if __name__ == "__main__":
    sys.exit(main())
