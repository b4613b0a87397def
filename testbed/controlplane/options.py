"""How a control plane runs, wherever its programs come from."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

READY_SECONDS: Final = 120
STOP_SECONDS: Final = 30
_LOG_TAIL: Final = 3000


@dataclass(frozen=True, slots=True)
class Options:
    """What a test wants of its control plane.

    ``controller_manager`` adds kube-controller-manager: Deployments, Jobs, garbage collection, namespaces and
    ServiceAccounts. ``apiserver_args`` go to kube-apiserver as they are. ``audit_log`` gets every request with its
    metadata.
    """

    controller_manager: bool = False
    audit_log: Path | None = None
    apiserver_args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ready:
    """Where a control plane is that can be used."""

    url: str
    token: str
    ca: Path


def kubeconfig(cluster: Mapping[str, str], token: str) -> str:
    """A kubeconfig that leads to a cluster by its settings there (``server`` and others), as who has the token."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": dict(cluster)}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "admin"}}],
        "current-context": "tests",
    }
    return yaml.safe_dump(content)


def tls(ca: Path) -> ssl.SSLContext:
    """What trusts an authority as kubectl does: certificates may lack what Python 3.13 demands, and ours do."""
    context = ssl.create_default_context(cafile=ca)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def tail(log: Path) -> str:
    """The end of a log, for an error's message."""
    return log.read_text(encoding="utf-8", errors="replace")[-_LOG_TAIL:] if log.exists() else "no log"
