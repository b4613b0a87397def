"""Run an API server for the tests."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.controlplane.assets import Assets
from testbed.controlplane.client import Client
from testbed.controlplane.options import Options
from testbed.controlplane.program import Program


class ControlPlane:
    """etcd and kube-apiserver (and kube-controller-manager) on 127.0.0.1, with all their data in one directory.

    The programs are those of ``KUBEBUILDER_ASSETS``, or else our own.
    """

    def __init__(self, directory: Path, options: Options | None = None) -> None:
        self.directory = directory
        self.options = options or Options()
        self.kubeconfig = directory / "kubeconfig"
        self.log = directory / "log.txt"
        self.url = ""
        self.token = ""
        self.ca = Path()
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
        assets = os.environ.get("KUBEBUILDER_ASSETS")
        if assets:
            self._process = Assets(Path(assets), self.directory, self.log, self.options)
        else:
            self._process = Program(self.directory, self.log, self.options)
        ready = self._process.ready
        self.url, self.token, self.ca = ready.url, ready.token, ready.ca
        return self

    def stop(self) -> None:
        """Stop in order; one that does not run is not an error."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def client(self, *, token: str | None = None) -> Client:
        """Return a client of the administrator, or of whomever a token belongs to."""
        return Client(self.url, token=token or self.token, ca=self.ca)
