"""The control plane as our own program runs it: one process, or two with kube-controller-manager."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
from pathlib import Path

from testbed.controlplane.build import CONTROL_PLANE
from testbed.controlplane.options import READY_SECONDS, STOP_SECONDS, Options, Ready, tail


class Program:
    """A running program; it ends with this process, whatever happens to it, because it watches its standard input."""

    def __init__(self, directory: Path, log: Path, options: Options) -> None:
        arguments = [str(CONTROL_PLANE.binary()), *_flags(directory, options)]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, start_new_session=True
            )
        try:
            self.ready = self._wait_until_ready(log)
        except BaseException:
            self.stop()
            raise

    def _wait_until_ready(self, log: Path) -> Ready:
        if self._process.stdout is None:
            raise TypeError("the process must be started with pipes")
        readable, _, _ = select.select([self._process.stdout], [], [], READY_SECONDS)
        line = self._process.stdout.readline() if readable else b""
        if not line:
            raise RuntimeError(f"the control plane did not start:\n{tail(log)}")
        ready = json.loads(line)
        return Ready(ready["url"], ready["token"], Path(ready["ca"]))

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def _flags(directory: Path, options: Options) -> list[str]:
    flags = ["--stop-on-stdin-eof", f"--dir={directory}"]
    if options.controller_manager:
        flags.append("--controller-manager")
    if options.audit_log:
        flags.append(f"--audit-log={options.audit_log}")
    return [*flags, *(f"--apiserver-arg={argument}" for argument in options.apiserver_args)]
