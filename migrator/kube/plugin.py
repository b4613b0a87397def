"""Credential plugins: the programs that a kubeconfig names under ``exec``."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any, Final

from kubernetes.config import ConfigException
from kubernetes.config.exec_provider import ExecProvider

#: How long a plugin may take, in seconds, before somebody is told that it is waited for.
PATIENCE: Final = 5.0

_STDIN: Final = 0


class CredentialPlugin(ExecProvider):
    """Starts a plugin as kubectl does: it has our stderr, because it may ask for a login there.

    The client gives it a pipe instead unless stdout is a terminal, so that the prompt of ``plan > FILE`` was lost.
    client-go: ``plugin/pkg/client/auth/exec/exec.go:refreshCredsLocked``.
    """

    def __init__(self, entry: Any, *place: Any, waiting: Callable[[str], object]) -> None:  # noqa: ANN401 - the client's
        super().__init__(entry, *place)  # type: ignore[no-untyped-call]
        self._reads_stdin = os.isatty(_STDIN) and entry.safe_get("interactiveMode") != "Never"
        self._waiting = waiting

    def run(self, previous_response: object = None) -> dict[str, Any]:  # noqa: ARG002 - of an API that is no more
        """The status that it prints; ``waiting`` gets its name if it takes longer than :data:`PATIENCE`."""
        command = self.args[0]
        with subprocess.Popen(  # noqa: S603 - the kubeconfig is its user's
            self.args,
            stdin=None if self._reads_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=self.cwd,
            env={**self.env, "KUBERNETES_EXEC_INFO": json.dumps(self._request())},
            text=True,
        ) as process:
            try:
                printed, _ = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                self._waiting(command)
                printed, _ = process.communicate()
        if process.returncode:
            raise ConfigException(f"the credential plugin {command} ended with exit code {process.returncode}")
        try:
            answer = json.loads(printed)
            status: dict[str, Any] = answer["status"]
        except (ValueError, KeyError, TypeError):
            raise ConfigException(f"the credential plugin {command} printed no ExecCredential with a status") from None
        if answer.get("apiVersion") != self.api_version:
            raise ConfigException(f"the credential plugin {command} does not speak {self.api_version}, see apiVersion")
        return status

    def _request(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"interactive": self._reads_stdin}
        if self.cluster:
            cluster = self.cluster.value
            entries = {entry["name"]: entry["extension"] for entry in cluster.get("extensions") or ()}
            spec["cluster"] = {**cluster, "config": entries.get("client.authentication.k8s.io/exec")}
        return {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
