"""Credential plugins: the programs that a kubeconfig names under ``exec``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from migrator.errors import NotAuthorised

#: How long a plugin may take, in seconds, before somebody is told that it is waited for.
PATIENCE: Final = 5.0

_STDIN: Final = 0


def run(entry: dict[str, Any], cluster: dict[str, Any] | None, waiting: Callable[[str], object]) -> dict[str, str]:
    """The fields of a kubeconfig's user that stand for a plugin's answer.

    ``cluster`` has the fields of the cluster's entry, for a plugin with ``provideClusterInfo``.

    As with kubectl the plugin has our stderr, because it may ask for a login there; the official client gives it a pipe
    unless stdout is a terminal (client-go: ``plugin/pkg/client/auth/exec/exec.go:refreshCredsLocked``). ``waiting``
    gets its name if it takes longer than :data:`PATIENCE`. Raises :class:`~migrator.errors.NotAuthorised`, which quotes
    nothing that it printed.
    """
    plugin, version = f"the credential plugin {entry['command']}", entry["apiVersion"]
    reads_stdin = os.isatty(_STDIN) and entry.get("interactiveMode") != "Never"
    spec: dict[str, Any] = {"interactive": reads_stdin}
    if cluster is not None:
        extensions = {one["name"]: one.get("extension") for one in cluster.pop("extensions", ())}
        cluster.pop("certificate-authority", None)  # which is there as data
        spec["cluster"] = {**cluster, "config": extensions.get("client.authentication.k8s.io/exec")}
    request = json.dumps({"apiVersion": version, "kind": "ExecCredential", "spec": spec}, default=str)
    if (program := shutil.which(entry["command"])) is None:  # Popen would look on the PATH that is for the plugin
        hint = "".join(filter(str.isprintable, " ".join(f". {entry.get('installHint') or ''}".split())))
        raise NotAuthorised(
            f"{plugin} is not there, or is no program: install it, or put it on PATH{hint.removesuffix('.')}"
        )
    try:
        process = subprocess.Popen(  # noqa: S603 - the kubeconfig is its user's
            [program, *(entry.get("args") or ())],
            stdin=None if reads_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={
                **os.environ,
                **{variable["name"]: variable.get("value") or "" for variable in entry.get("env") or ()},
                "KUBERNETES_EXEC_INFO": request,
            },
        )
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
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        answer = json.loads(printed)
        if answer["apiVersion"] == version:
            return _user(answer["status"])
    raise NotAuthorised(f"{plugin} printed no ExecCredential of {version} that has credentials")


def _user(status: dict[str, Any]) -> dict[str, str]:
    """A token, a certificate with its key, or all of them."""
    fields = {"token": status["token"]} if status.get("token") else {}
    if not fields or status.get("clientCertificateData") or status.get("clientKeyData"):
        pair = {"client-certificate-data": "clientCertificateData", "client-key-data": "clientKeyData"}
        fields |= {field: b64encode(status[key].encode()).decode() for field, key in pair.items()}
    return fields
