"""One container as a process of this machine, with what a kubelet gives it.

Where mount namespaces are permitted, the process finds its token, CA and namespace and its termination log at the
paths of a real pod, and can write to nothing else on the root file system; elsewhere it is told where they are.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from migrator.cli import termination
from testbed.controlplane.client import Object
from testbed.controlplane.server import ControlPlane
from tests.support.paths import ROOT

_MESSAGE_LIMIT: Final = 4096
_LOG_LIMIT: Final = 2048

#: $1 files of the ServiceAccount, $2 the termination log, $3 an empty directory; then the command.
_AS_IN_A_POD: Final = """
set -e
files=$1 log=$2 dev=$3; shift 3
mount -t tmpfs tmpfs "$dev"
for name in null zero random urandom; do touch "$dev/$name"; mount --bind "/dev/$name" "$dev/$name"; done
touch "$dev/termination-log"; mount --bind "$log" "$dev/termination-log"
mount --rbind "$dev" /dev
mount -t tmpfs tmpfs "$(readlink -f /var/run)"
mkdir -p /var/run/secrets/kubernetes.io/serviceaccount
mount --bind "$files" /var/run/secrets/kubernetes.io/serviceaccount
mount -o remount,bind,ro /
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a container ended; ``disrupted`` is one whose pod was evicted or preempted."""

    code: int
    message: str = ""
    disrupted: bool = False


class Container:
    """The one container of a pod."""

    def __init__(self, pod: Object, token: str, server: ControlPlane, directory: Path) -> None:
        self.pod = pod
        [self.spec] = pod["spec"]["containers"]
        self._token, self._server, self._directory = token, server, directory
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._asked = self._killed = False

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.pod["metadata"]["name"])

    @property
    def log(self) -> str:
        """What it has printed so far, on both channels."""
        path = self._directory / "log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def run(self) -> Ended:
        """Run the command line of this repository with the container's arguments, to its end."""
        self._directory.mkdir(parents=True)
        message = self._directory / "termination-log"
        message.touch()
        command, environment = self._command(message)
        with self._lock, (self._directory / "log").open("wb") as log:
            if self._killed:
                return Ended(137)
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT
            )
        code = self._process.wait()
        text = message.read_text(encoding="utf-8", errors="replace")[:_MESSAGE_LIMIT]
        if not text and code and self.spec["terminationMessagePolicy"] == "FallbackToLogsOnError":
            text = self.log[-_LOG_LIMIT:]
        return Ended(code if code >= 0 else 128 - code, text)

    def stop(self) -> None:
        """Ask it to end, as a kubelet does first, and once."""
        if self._process is not None and not self._asked:
            self._asked = True
            self._process.terminate()

    def kill(self) -> None:
        """End it at once."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()

    def _command(self, message: Path) -> tuple[list[str], dict[str, str]]:
        files, namespace = self._directory / "serviceaccount", self.pod["metadata"]["namespace"]
        address = self._server.in_cluster(files, token=self._token, namespace=namespace)
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": str(ROOT), **address}
        environment |= {entry["name"]: entry["value"] for entry in self.spec.get("env", ())}
        python, arguments = [sys.executable, "-m"], self.spec.get("args", ())
        unshare = private_mounts()
        if not unshare:
            there = {termination.VARIABLE: str(message)}
            return [*python, "tests.cluster.manifests.elsewhere", str(files), *arguments], environment | there
        dev = self._directory / "dev"
        dev.mkdir()
        script = ["sh", "-c", _AS_IN_A_POD, "sh", str(files), str(message), str(dev)]
        return [*unshare, *script, *python, "migrator", *arguments], environment


#: What a container of an image does; that of our own image does `Container.run`.
Image = Callable[[Container], Ended]


@functools.cache
def private_mounts() -> tuple[str, ...]:
    """The command that runs another one in a mount namespace of its own; empty where that is not permitted."""
    found = shutil.which("unshare")
    if found is None:
        return ()
    for user in ((), ("--user", "--map-root-user")):
        command = (found, *user, "--mount", "--propagation", "private")
        tried = subprocess.run(
            [*command, "sh", "-c", "mount -t tmpfs tmpfs /mnt && mount -o remount,bind,ro /"],
            capture_output=True,
            check=False,
        )
        if tried.returncode == 0:
            return command
    return ()
