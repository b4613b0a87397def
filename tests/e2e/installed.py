"""The stand-in operator in a cluster, as Helm installs it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from testbed import operator_installation as installation
from testbed.controlplane.client import Client, Object, eventually
from tests.cluster.helm.wrapper import OPERATOR
from tests.e2e.kind import Kind

NAMESPACE: Final = installation.NAMESPACE
OLD, NEW = "v0.1.0-alpha.9", "v0.1.0-alpha.11"
SECONDS: Final = 180


@dataclass
class Installed:
    """What Helm has installed in a cluster, the operator above all."""

    kind: Kind
    names: list[str] = field(default_factory=list)  # of the releases that Helm has installed here

    @property
    def client(self) -> Client:
        """The administrator's."""
        return self.kind.client

    def helm(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command of Helm in the operator's namespace, however it ends."""
        if words[0] in {"install", "upgrade"}:
            self.names.append(next(word for word in words[1:] if not word.startswith("-")))
        return self.kind.helm(*words, "--namespace", NAMESPACE)

    def succeed(self, *words: str) -> None:
        """One command of Helm that must succeed."""
        done = self.helm(*words)
        assert done.returncode == 0, done.stdout + done.stderr

    def uninstall(self) -> None:
        """Uninstall all that Helm has installed, and wait until no pod is left in the operator's namespace."""
        for name in dict.fromkeys(self.names):
            self.helm("uninstall", name, "--no-hooks")
        self.names.clear()
        pods = ("v1", "Pod", NAMESPACE)
        eventually(lambda: not self.client.list(*pods), what="pods of the releases are left", seconds=SECONDS)

    def deployment(self) -> Object:
        """The operator's Deployment."""
        return self.client.get("apps/v1", "Deployment", installation.NAME, NAMESPACE)

    def replicas(self) -> int:
        """How many replicas the operator's Deployment asks for."""
        return int(self.deployment()["spec"]["replicas"])

    def tag(self) -> str:
        """The tag of the operator's image."""
        return str(self.deployment()["spec"]["template"]["spec"]["containers"][0]["image"]).rpartition(":")[2]

    def operators(self) -> list[Object]:
        """The operator's pods."""
        selector = ",".join(f"{key}={value}" for key, value in installation.LABELS.items())
        return self.client.list("v1", "Pod", NAMESPACE, selector=selector)

    def runs_operators(self, replicas: int, release: str = OLD) -> None:
        """Wait until so many pods of the operator of a release run, and no others."""

        def look() -> bool:
            found = self.operators()
            images = {pod["spec"]["containers"][0]["image"] for pod in found}
            running = [pod for pod in found if pod["status"]["phase"] == "Running"]
            return len(found) == len(running) == replicas and images <= {installation.image(release)}

        eventually(look, what=f"not {replicas} pods of the operator run", seconds=SECONDS, every=0.3)

    def operate(self, release: str) -> None:
        """Install the stand-in operator of a release by its chart, or upgrade to it, and wait until it alone runs."""
        self.succeed("upgrade", "--install", "grove", str(OPERATOR), *arguments([f"image.tag={release}"]))
        if not self.replicas():
            self.client.patch(self.deployment(), {"spec": {"replicas": 1}})
        self.runs_operators(1, release)

    def stop_operator(self) -> None:
        """Scale the operator to zero, if there is one, and wait until its pods are gone."""
        for deployment in self.client.list("apps/v1", "Deployment", NAMESPACE):
            self.client.patch(deployment, {"spec": {"replicas": 0}})
        eventually(lambda: not self.operators(), what="pods of the operator are left", seconds=SECONDS)


def arguments(values: Sequence[str]) -> list[str]:
    """Values of a chart, as arguments of Helm."""
    return [word for value in values for word in ("--set", value)]
