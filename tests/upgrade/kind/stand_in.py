"""A stand-in for kind, helm and kubectl before an API server of our own, for machines without a container engine."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import yaml

from testbed.controlplane.options import kubeconfig
from testbed.controlplane.server import ControlPlane
from testbed.crds import lines
from tests.cluster.manifests.site import NAMESPACE

_LINE: Final = "v0.1.0-"


def write_kubeconfig(server: ControlPlane, arguments: Sequence[str]) -> None:
    """Write what ``kind create cluster`` with these arguments does, with a token for the user's certificate."""
    authority = base64.b64encode(server.ca.read_bytes()).decode()
    cluster = {"server": server.url, "certificate-authority-data": authority}
    path = Path(arguments[arguments.index("--kubeconfig") + 1])
    path.write_text(kubeconfig(cluster, server.token), encoding="utf-8")


class StandIn:
    """Does what the commands of KindCluster do, as far as an API server shows it; ``log`` has a pod's log by name."""

    def __init__(self, server: ControlPlane, log: Callable[[str], str]) -> None:
        self.commands: list[tuple[str, ...]] = []
        self._server, self._log = server, log
        self._admin = server.client()

    def __call__(self, *argv: str) -> str:
        """Run one command."""
        self.commands.append(argv)
        match argv:
            case ("kind", "create", "cluster", *rest):
                write_kubeconfig(self._server, rest)
            case ("kubectl", "--kubeconfig", _, "--namespace", _, *rest):
                return self._kubectl(*rest)
            case ("helm", "show", "crds", _, "--version", release):
                return yaml.safe_dump_all(lines.load(release.removeprefix(_LINE)))
        return ""

    def close(self) -> None:
        """Close what it has opened."""
        self._admin.close()

    def _kubectl(self, *argv: str) -> str:
        match argv:
            case ("create", "token", *_):
                return f"{self._server.token}\n"
            case ("delete", "job", name, "--ignore-not-found"):
                metadata = {"name": name, "namespace": NAMESPACE}
                self._admin.delete({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata})
            case ("apply", "--filename", path):
                for item in yaml.safe_load_all(Path(path).read_text(encoding="utf-8")):
                    self._admin.apply(item)
            case ("logs", pod):
                return self._log(pod)
        return ""
