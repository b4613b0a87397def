"""Run an API server for the tests, and stop, kill and restart it."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from testbed.controlplane.assets import Assets
from testbed.controlplane.client import Client
from testbed.controlplane.options import Options
from testbed.controlplane.program import Program


class ControlPlane:
    """etcd and kube-apiserver (and kube-controller-manager) on 127.0.0.1, with all their data in one directory.

    The programs are those of ``KUBEBUILDER_ASSETS``, or else our own. After a restart the port, the certificates,
    the tokens and the data are those of before.
    """

    def __init__(self, directory: Path, options: Options | None = None) -> None:
        self.directory = directory
        self.options = options or Options()
        self.kubeconfig = directory / "kubeconfig"
        self.log = directory / "log.txt"
        self.url = ""
        self.token = ""
        self.ca = Path()
        self.etcd = ""
        self.crds: object = None  # what testbed.controlplane.crds applied last
        self._process: Program | Assets | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> ControlPlane:
        """Start, and wait until it is ready. Raises GoProgramError if it cannot be built."""
        if self._process is not None:
            raise RuntimeError(f"the control plane in {self.directory} runs already")
        self.directory.mkdir(parents=True, exist_ok=True)
        port = urlsplit(self.url).port or 0
        assets = os.environ.get("KUBEBUILDER_ASSETS")
        if assets:
            self._process = Assets(Path(assets), self.directory, self.log, self.options, port)
        else:
            self._process = Program(self.directory, self.log, self.options, port)
        ready = self._process.ready
        self.url, self.token, self.ca, self.etcd = ready.url, ready.token, ready.ca, ready.etcd
        return self

    def another(self, directory: Path) -> ControlPlane:
        """A second API server on the etcd of this one, with the same certificates, keys and tokens; not started."""
        shutil.copytree(self.directory / "pki", directory / "pki")
        return ControlPlane(directory, replace(self.options, etcd=self.etcd, controller_manager=False, audit_log=None))

    def stop(self) -> None:
        """Stop in order; one that does not run is not an error."""
        self._end(kill=False)

    def kill(self) -> None:
        """Kill all processes at once, by SIGKILL."""
        self._end(kill=True)

    def restart(self) -> ControlPlane:
        """Start again on the same directory and port; stop first if it runs."""
        self.stop()
        return self.start()

    def _end(self, *, kill: bool) -> None:
        if self._process is not None:
            self._process.stop(kill=kill)
            self._process = None

    def client(self, *, token: str | None = None) -> Client:
        """Return a client of the administrator, or of whomever a token belongs to."""
        return Client(self.url, token=token or self.token, ca=self.ca)

    def in_cluster(self, directory: Path, *, token: str, namespace: str) -> dict[str, str]:
        """Write what a pod finds in /var/run/secrets/kubernetes.io/serviceaccount, and return its environment."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "token").write_text(token, encoding="utf-8")
        (directory / "namespace").write_text(namespace, encoding="utf-8")
        (directory / "ca.crt").write_bytes(self.ca.read_bytes())
        parts = urlsplit(self.url)
        return {"KUBERNETES_SERVICE_HOST": str(parts.hostname), "KUBERNETES_SERVICE_PORT": str(parts.port)}
