"""Run the tests on kind, with this machine's Docker or with an engine in namespaces of its own: ``make e2e``.

python -m tests.e2e [ARGUMENTS OF PYTEST]
python -m tests.e2e --probe                  only find out, by making a cluster, whether kind runs here
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from testbed.controlplane.server import KUBERNETES
from testbed.go_programs import GoProgramError
from testbed.helm import PROGRAMS
from testbed.kind import BUSYBOX, KIND, OWN, PUBLISHED, archives, debian, engine, home, node_image, our_image
from tests.e2e import images, kind
from tests.e2e.lab import builds
from tests.support.commands import docker_answers

_PYTEST: Final = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "kind")
_RELEASES: Final = "tests/e2e/test_releases.py"
_NO_CLUSTER: Final = "kind makes no cluster here; the lines on standard error are the reason."
_PROBE: Final = """\
import pathlib, tempfile
from tests.e2e import images, kind
from testbed.kind import BUSYBOX
with images.prepared(), tempfile.TemporaryDirectory() as scratch, kind.Kind(pathlib.Path(scratch)) as cluster:
    cluster.load([BUSYBOX])
"""


def run(*command: str) -> int:
    """Run a command beside an engine; returns its exit code. Raises RuntimeError where there is none."""
    own = not docker_answers()
    reason = debian.lacking() if own else None
    if reason is not None:
        raise RuntimeError(f"No Docker engine answers. {reason}")
    for program in (KIND, PROGRAMS["helm3"], PROGRAMS["helm4"]):
        program.binary()
    if not own:
        sys.stderr.write(f"kind with this machine's Docker: {PUBLISHED}\n")
        return subprocess.run(command, check=False).returncode
    sys.stderr.write(f"No Docker engine answers: kind with an engine in namespaces of its own, {OWN}, no registry\n")
    began = time.monotonic()
    found = [node_image.node_image(), our_image.our_image(), archives.busybox(home() / "busybox.tar", [BUSYBOX])]
    sys.stderr.write(f"programs and images are there after {time.monotonic() - began:.0f} s\n")
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "kubectl").symlink_to(KUBERNETES.binary())
        os.environ |= {
            "PATH": f"{scratch}:{os.environ['PATH']}",
            kind.NODE_IMAGE: OWN,
            images.ARCHIVES: ":".join(map(str, found)),
        }
        return engine.run(command)


def _tests() -> list[str]:
    """What is run where no argument names it: all, and of real releases those that can be had here."""
    if any(word.startswith("tests/e2e") for word in sys.argv[1:]):
        return []
    if docker_answers() or builds.directory() is not None:
        return ["tests/e2e"]
    sys.stderr.write(f"real releases are not upgraded: {builds.VARIABLE} names no binaries and charts\n")
    return ["tests/e2e", f"--ignore={_RELEASES}"]


def main() -> int:
    """Run the tests, or find out why they cannot run."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # as an exception, so that we tidy up
    probe = sys.argv[1:] == ["--probe"]
    try:
        if not probe:
            return run(*_PYTEST, *sys.argv[1:], *_tests())
        reason = _NO_CLUSTER if run(sys.executable, "-c", _PROBE) else ""
    except subprocess.CalledProcessError as error:  # its arguments may have a password
        reason = f"{error.cmd[0]} ended with {error.returncode}; the lines on standard error are the reason."
    except (GoProgramError, OSError, RuntimeError) as error:
        reason = " ".join(str(error).split("\n"))
    sys.stdout.write(f"{reason}\n" if reason else "")
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
