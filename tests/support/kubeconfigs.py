"""Kubeconfigs of tests, and a request with them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from migrator.kinds import PODS
from migrator.kube import store as kube_store
from tests.support.fake_api import AUTHORITY

LOCAL = "https://127.0.0.1:1"


def kubeconfig(
    path: Path, server: str = LOCAL, *, current: str = "main", name: str = "me", user: Any = None, **cluster: Any
) -> str:
    """Write a kubeconfig with the contexts ``main`` and ``other``; ``cluster`` are more fields of their clusters.

    They trust the servers of the tests.
    """
    path.parent.mkdir(exist_ok=True)
    clusters = {"main": {"server": server}, "other": {"server": f"{server}/other"}}
    document = {
        "contexts": [{"name": main, "context": {"cluster": main, "user": "me"}} for main in clusters],
        "clusters": [
            {"name": main, "cluster": {**at, "certificate-authority": str(AUTHORITY), **cluster}}
            for main, at in clusters.items()
        ],
        "users": [{"name": name, "user": user or {"token": "sesame"}}],
        "current-context": current,
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(path)


def plugin(path: Path, program: str) -> dict[str, Any]:
    path.write_text(program, encoding="utf-8")
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": sys.executable, "args": [str(path)], "interactiveMode": "Never"}}


def ask(**flags: Any) -> None:
    kube_store.connect(**flags).get(PODS, "a", "p")
