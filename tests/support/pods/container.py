"""Run the container of a pod as a subprocess that sees what a container would: token, volumes, environment."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from migrator.cli import termination
from testbed.controlplane.client import AnswerError, Client, Object
from testbed.controlplane.server import ControlPlane
from tests.support.pods.volumes import PROBE, Volumes, private_mounts

_REFRESH_SECONDS: Final = 0.5
_RESTART_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 0.05
_MESSAGE_BYTES: Final = 4096
_FALLBACK_CHARACTERS: Final = 2048  # of the log
_INHERITED: Final = ("PATH", "HOME", "LANG", "TMPDIR")


@dataclass(frozen=True, slots=True)
class Program:
    """What stands for an image: a command, to which the container's arguments are added, and its environment."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Span:
    """When a process of a container ran, on the monotonic clock; ``ended`` is None while it does."""

    started: float
    ended: float | None = None
    code: int | None = None


@dataclass(frozen=True, slots=True)
class State:
    """What a kubelet would report of a container: running if ``code`` is None."""

    restarts: int
    code: int | None = None
    message: str = ""
    final: bool = False


def image_of(pod: Object) -> str:
    """The image of a pod's first container."""
    return str(pod["spec"]["containers"][0]["image"])


@functools.cache
def isolation() -> tuple[str, ...] | None:
    """The command that gives a process mounts of its own; None where this machine does not permit it."""
    mapped = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    command = ("unshare", *mapped, "--mount", "--propagation", "private")
    try:
        probe = subprocess.run([*command, "sh", "-c", PROBE], capture_output=True, check=False, timeout=30)
    except OSError:
        return None
    return command if probe.returncode == 0 else None


class Container:
    """The one container of a pod, from its start to its end, restarts included."""

    def __init__(
        self,
        control_plane: ControlPlane,
        client: Client,
        pod: Object,
        program: Program,
        *,
        directory: Path,
        report: Callable[[Object, State], None],
    ) -> None:
        [self._container] = pod["spec"]["containers"]
        self.pod = pod
        self.spans: list[Span] = []
        self._control_plane = control_plane
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._directory = directory
        self._report = report
        self._volumes = Volumes(control_plane, client, pod, directory / "volumes")
        self._message = directory / "termination-log"
        self._grace: float | None = None
        self._asked = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.pod["metadata"]["name"])

    @property
    def log(self) -> str:
        """What it has printed so far, on both channels."""
        path = self._directory / "log.txt"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def start(self) -> None:
        """Start; from now on every change of state is reported."""
        self._directory.mkdir(parents=True)
        self._thread.start()

    def stop(self, grace: float) -> None:
        """Ask it to end, by SIGTERM, and by SIGKILL when the grace period (in seconds) is over."""
        self._grace = grace if self._grace is None else min(self._grace, grace)
        self._asked.set()

    def kill(self) -> None:
        """End the process that runs by SIGKILL, as the kernel does where memory is short."""
        if self._process is not None:
            self._process.kill()

    def join(self, seconds: float) -> None:
        """Wait until it has ended and that was reported."""
        self._thread.join(seconds)

    def _live(self) -> None:
        restarts = 0
        while True:
            code = self._run_once(restarts)
            policy = self.pod["spec"].get("restartPolicy", "Always")
            ends = self._asked.is_set() or policy == "Never" or (policy == "OnFailure" and code == 0)
            if ends:
                self._report(self.pod, State(restarts, code, self._termination_message(code), final=True))
                return
            restarts += 1
            self._report(self.pod, State(restarts, code, self._termination_message(code)))
            self._asked.wait(_RESTART_SECONDS)

    def _run_once(self, restarts: int) -> int:
        """Run one process to its end, and return its exit code: 128 and the signal's number if one ended it."""
        if not self._prepare():
            return 128 + signal.SIGTERM
        with (self._directory / "log.txt").open("ab") as output:
            # The process is killed with the thread that started it (prctl(2), PR_SET_PDEATHSIG), which is this one.
            process = self._process = subprocess.Popen(
                self._command(), env=self._environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self.spans.append(Span(time.monotonic()))
        self._report(self.pod, State(restarts))
        self._wait(process)
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        self.spans[-1] = Span(self.spans[-1].started, time.monotonic(), code)
        return code

    def _prepare(self) -> bool:
        """Fill the volumes and wait for what they refer to, as kubelet does; false if asked to end meanwhile."""
        self._message.write_bytes(b"")
        while not self._asked.is_set():
            try:
                self._volumes.write()
            except AnswerError:
                self._asked.wait(_REFRESH_SECONDS)
            else:
                return True
        return False

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        refreshed = time.monotonic()
        while process.poll() is None and not self._asked.wait(_POLL_SECONDS):
            if time.monotonic() > refreshed + _REFRESH_SECONDS:
                refreshed = time.monotonic()
                try:
                    self._volumes.write()
                except AnswerError:
                    continue  # kubelet, too, leaves the files as they are until it can read their source again
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + (self._grace or 0)
            while process.poll() is None:
                if time.monotonic() > deadline:
                    process.kill()
                time.sleep(_POLL_SECONDS)
        process.wait()

    def _command(self) -> list[str]:
        isolated, arguments = isolation(), self._container.get("args") or ()
        mounts = self._volumes.mounts(self._container)
        if isolated is None:
            return [*self._program.command, *arguments]
        mounts[self._container.get("terminationMessagePath") or "/dev/termination-log"] = self._message
        read_only = (self._container.get("securityContext") or {}).get("readOnlyRootFilesystem", False)
        script = private_mounts(self._directory, mounts, read_only=read_only)
        return [*isolated, "sh", "-c", script, "sh", *self._program.command, *arguments]

    def _environment(self) -> dict[str, str]:
        server = urlsplit(self._control_plane.url)
        return {
            **{name: os.environ[name] for name in _INHERITED if name in os.environ},
            **self._program.environment,
            **({} if isolation() else {termination.VARIABLE: str(self._message)}),
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT": str(server.port),
            **self._volumes.environment(self._container),
        }

    def _termination_message(self, code: int) -> str:
        text = self._message.read_bytes()[:_MESSAGE_BYTES].decode(errors="replace")
        if not text and code and self._container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            return self.log[-_FALLBACK_CHARACTERS:]
        return text
