"""Run tests in a closed cluster with a real node, and look whether it left anything: ``make node-test``.

python -m tests.node [ARGUMENTS OF PYTEST]
python -m tests.node --probe                  only find out, by having one, whether there can be such a node here
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from testbed.controlplane.build import CONTROL_PLANE
from testbed.go_programs import GoProgramError
from tests.node import images, machine, traces
from tests.node.real import CONTAINERD, NODE

#: The kernel ends all of it when this process ends, however that happens.
_NAMESPACES: Final = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)
_PROGRAMS: Final = {"apt-get", "unshare", *machine.NEEDED}
_NO_POD: Final = "No pod ran to its end here; the lines on standard error are the reason."


def prepare(image: Callable[[], Path]) -> Path:
    """Have the packages, the programs, the base and an image made on it; returns what ``image`` returns."""
    machine.install()
    for what in (CONTROL_PLANE.binary, NODE.binary, CONTAINERD.binary, images.base, image):
        began = time.monotonic()
        path = what()
        sys.stderr.write(f"{path}: {path.stat().st_size / 1e6:.0f} MB, {time.monotonic() - began:.0f} s\n")
    return path


def run(module: str, *arguments: str) -> int:
    """Run a Python module in namespaces of its own; returns its exit code, or 1 if something was left here."""
    before = traces.taken()
    name = traces.new()
    command = [sys.executable, "-m", "tests.node.inside", sys.executable, "-m", module, *arguments]
    try:
        traces.make(name)
        process = subprocess.Popen([*_NAMESPACES, *command], env={**os.environ, traces.VARIABLE: name})
        try:
            code = process.wait()
        finally:
            process.kill()
            process.wait()
    finally:
        traces.remove(name)
    found = traces.left(name, before)
    for trace in found:
        sys.stderr.write(f"tests.node: left behind: {trace}\n")
    return code or bool(found)


def probe() -> str | None:
    """Why there cannot be a real node here, found out by having one with a pod; None if there can be one."""
    reason = machine.lacking()
    if reason is not None:
        return reason
    try:
        prepare(images.rehearse)
        return _NO_POD if run("tests.node.probe") else None
    except subprocess.CalledProcessError as error:  # its arguments may have a password
        programs = " ".join(word for word in error.cmd if word in _PROGRAMS)
        return f"{programs} ended with {error.returncode}; the lines on standard error are the reason."
    except (GoProgramError, OSError) as error:
        lines = str(error).splitlines() or [repr(error)]
        return " ".join(dict.fromkeys((lines[0], lines[-1])))


def main() -> int:
    """Prepare and run."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # as an exception, so that we tidy up
    if sys.argv[1:] == ["--probe"]:
        reason = probe()
        sys.stdout.write(f"{reason}\n" if reason else "")
        return 1 if reason else 0
    reason = machine.lacking()
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
        return 1
    try:
        os.environ[images.VARIABLE] = str(prepare(images.ours))
    except GoProgramError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return run("pytest", "-p", "no:cacheprovider", *(sys.argv[1:] or ["tests/node"]))


if __name__ == "__main__":
    sys.exit(main())
