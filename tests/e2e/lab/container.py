"""Run an operator's container as a process in a root directory of its own: token, configuration, environment."""

from __future__ import annotations

import base64
import functools
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from testbed.controlplane.client import AnswerError, Client, Object

_REFRESH_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 0.05


@functools.cache
def isolation() -> tuple[str, ...] | None:
    """The command before another root directory and a program there; None where this machine does not permit it."""
    mapped = () if os.geteuid() == 0 else ("unshare", "--user", "--map-root-user")
    command = (*mapped, "setpriv", "--pdeathsig", "KILL", "chroot")
    try:
        probe = subprocess.run([*command, "/", "true"], capture_output=True, check=False, timeout=30)
    except OSError:
        return None
    return command if probe.returncode == 0 else None


class Container(threading.Thread):
    """The one container of a pod, restarted whenever it ends, until it is stopped.

    ``tell`` is called at every change of ``restarts``, ``ready`` (a process runs) and ``ended`` (the last one ran).
    ``exit_code`` is the last process's.
    """

    def __init__(
        self, client: Client, pod: Object, program: Path, directory: Path, tell: Callable[[Container], None]
    ) -> None:
        super().__init__(daemon=True)
        [self._container] = pod["spec"]["containers"]
        self.pod = pod
        self.restarts = self.exit_code = 0
        self.ready = self.ended = False
        self._client, self._program = client, program
        self._root, self._log = directory / "root", directory / "log.txt"
        self._tell = tell
        self._grace = float("inf")
        self._asked = threading.Event()

    @property
    def log(self) -> str:
        """What it has printed so far, on both channels."""
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    def stop(self, grace: float) -> None:
        """Ask it to end, by SIGTERM, and by SIGKILL when the grace period (in seconds) is over."""
        self._grace = min(self._grace, grace)
        self._asked.set()

    def run(self) -> None:
        """Run processes, one after the other, once what the volumes refer to is there."""
        self._root.mkdir(parents=True)
        shutil.copy(self._program, self._root)  # it is static
        while not self._asked.wait(_REFRESH_SECONDS):
            if self._refresh():
                self._run_once()
                self.restarts += 1
                self._tell(self)
        self.ended = True
        self._tell(self)

    def _run_once(self) -> None:
        command = [*(isolation() or ()), str(self._root), f"/{self._program.name}", *self._container["args"]]
        with self._log.open("ab") as output:
            # The process is killed with the thread that started it (prctl(2), PR_SET_PDEATHSIG), which is this one.
            process = subprocess.Popen(
                command, env=self._environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        refreshed = time.monotonic()
        self.ready = True
        self._tell(self)
        while process.poll() is None and not self._asked.wait(_POLL_SECONDS):
            if time.monotonic() > refreshed + _REFRESH_SECONDS:
                refreshed = time.monotonic()
                self._refresh()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(self._grace)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.ready, self.exit_code = False, process.returncode

    def _environment(self) -> dict[str, str]:
        server = urlsplit(self._client.url)
        found = {"PATH": os.environ["PATH"]}
        found |= {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
        for variable in self._container["env"]:
            source = variable.get("valueFrom")
            found[variable["name"]] = self._field(source) if source else variable["value"]
        return found

    # --- what kubelet puts into volumes ---------------------------------------------------------------------------

    def _refresh(self) -> bool:
        """Write what has changed, each file in one step; false where a source cannot be read (yet)."""
        targets = {mount["name"]: mount["mountPath"] for mount in self._container["volumeMounts"]}
        try:
            for volume in self.pod["spec"]["volumes"]:
                home = self._root / targets[volume["name"]].lstrip("/")
                home.mkdir(parents=True, exist_ok=True)
                for name, content in self._files(volume):
                    path = home / name
                    if not path.exists() or path.read_bytes() != content:
                        fresh = path.with_name(f".{path.name}.new")
                        fresh.write_bytes(content)
                        fresh.replace(path)
        except AnswerError:
            return False
        return True

    def _files(self, volume: Object) -> Iterator[tuple[str, bytes]]:
        for source in volume["projected"]["sources"] if "projected" in volume else [volume]:
            match source:
                case {"serviceAccountToken": token}:
                    yield token["path"], self._token.encode()
                case {"downwardAPI": fields}:
                    for item in fields["items"]:
                        yield item["path"], self._field(item).encode()
                case {"configMap": {"name": name}}:
                    for file, text in self._data("ConfigMap", name).items():
                        yield file, text.encode()
                case {"secret": {"secretName": name}}:
                    for file, text in self._data("Secret", name).items():
                        yield file, base64.b64decode(text)
                case _:
                    raise ValueError(f"this kubelet does not know such a volume: {source}")

    def _data(self, kind: str, name: str) -> dict[str, str]:
        found: dict[str, str] = self._client.get("v1", kind, name, self.pod["metadata"]["namespace"]).get("data", {})
        return found

    @functools.cached_property
    def _token(self) -> str:
        account = self.pod["spec"]["serviceAccountName"]
        return self._client.service_account_token(self.pod["metadata"]["namespace"], account, pod=self.pod)

    def _field(self, source: Object) -> str:
        value: Any = self.pod
        for step in source["fieldRef"]["fieldPath"].split("."):
            value = value[step]
        return str(value)
