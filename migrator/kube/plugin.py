"""Credential plugins: the programs that a kubeconfig names under ``exec``."""

from __future__ import annotations

import json
import math
import os
import subprocess
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from migrator.errors import NotAuthorised

#: How long a plugin may take, in seconds, before somebody is told that it is waited for.
PATIENCE: Final = 5.0

_STDIN: Final = 0


def run(
    entry: dict[str, Any], cluster: dict[str, Any], folder: Path, waiting: Callable[[str], object]
) -> tuple[dict[str, str], float]:
    """The fields of a kubeconfig's user that stand for a plugin's answer, and for how many seconds they are good.

    As with kubectl the plugin has our stderr, because it may ask for a login there; the official client gives it a pipe
    unless stdout is a terminal (client-go: ``plugin/pkg/client/auth/exec/exec.go:refreshCredsLocked``). ``waiting``
    gets its name if it takes longer than :data:`PATIENCE`. Raises :class:`~migrator.errors.NotAuthorised`, which quotes
    nothing that it printed.
    """
    plugin, version = f"the credential plugin {entry['command']}", entry["apiVersion"]
    reads_stdin = os.isatty(_STDIN) and entry.get("interactiveMode") != "Never"
    spec: dict[str, Any] = {"interactive": reads_stdin}
    if entry.get("provideClusterInfo"):
        extensions = {one.get("name"): one.get("extension") for one in cluster.get("extensions") or ()}
        spec["cluster"] = {**cluster, "config": extensions.get("client.authentication.k8s.io/exec")}
    request = json.dumps({"apiVersion": version, "kind": "ExecCredential", "spec": spec}, default=str)
    try:
        process = subprocess.Popen(  # noqa: S603 - the kubeconfig is its user's
            [entry["command"], *(entry.get("args") or ())],
            stdin=None if reads_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=folder,
            env={
                **os.environ,
                **{variable["name"]: variable["value"] for variable in entry.get("env") or ()},
                "KUBERNETES_EXEC_INFO": request,
            },
        )
    except FileNotFoundError:
        raise NotAuthorised(f"{plugin} is not there: install it, or put it on PATH") from None
    except (OSError, ValueError) as error:
        raise NotAuthorised(f"{plugin} cannot be started: {error}") from None
    with process:
        try:
            printed, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            waiting(entry["command"])
            printed, _ = process.communicate()
    if process.returncode:
        raise NotAuthorised(f"{plugin} ended with exit code {process.returncode}")
    try:
        answer = json.loads(printed)
        fields, lifetime = _user(answer["status"]), _lifetime(answer["status"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise NotAuthorised(f"{plugin} printed no ExecCredential with a status that has credentials") from None
    if answer.get("apiVersion") != version:
        raise NotAuthorised(f"{plugin} does not speak {version}, see apiVersion")
    return fields, lifetime


def _user(status: dict[str, Any]) -> dict[str, str]:
    if token := status.get("token"):
        return {"token": str(token)}
    pair = {"client-certificate-data": "clientCertificateData", "client-key-data": "clientKeyData"}
    return {field: b64encode(status[key].encode()).decode() for field, key in pair.items()}


def _lifetime(status: dict[str, Any]) -> float:
    if not (expiry := status.get("expirationTimestamp")):
        return math.inf
    return (datetime.fromisoformat(expiry) - datetime.now(UTC)).total_seconds()
