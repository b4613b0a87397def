"""Real helm, and a release of the chart beside this file in a cluster that a test looks at."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from testbed.controlplane.client import Object, eventually
from testbed.helm import PROGRAMS
from tests.cluster.helm.test_chart import template
from tests.cluster.helm.wrapper import OURS
from tests.cluster.manifests.site import NAMESPACE, NEW, Site
from tests.support.pods.kubelet import Kubelet

CHART: Final = Path(__file__).resolve().parent / "chart"
NAME: Final = "grove"


def hooks(*arguments: str) -> str:
    """What our chart makes of its mode hook; the run takes these arguments beside its own."""
    values = ["mode=hook", "helmTimeout=105m", f"operator.image.tag={NEW}"]
    values += [f"extraArguments[{number}]={argument}" for number, argument in enumerate(arguments)]
    return yaml.safe_dump_all(template("helm4", OURS, *values))


@dataclass(frozen=True, slots=True)
class Way:
    """How one helm installs or upgrades."""

    program: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Helm:
    """helm with a cluster, and files of its own."""

    kubeconfig: Path
    home: Path

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end, however it ends."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "KUBECONFIG": str(self.kubeconfig),
            "HELM_NAMESPACE": NAMESPACE,
        }
        command = [str(PROGRAMS[program].binary()), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@dataclass
class Release:
    """One release of the chart, with ``hooks`` among its templates if there are any."""

    site: Site
    kubelet: Kubelet
    helm: Helm
    hooks: str = ""
    replicas: int = 2
    _uninstall: list[str] = field(default_factory=list)

    def install(self, way: Way, tag: str) -> None:
        """Install an operator with this tag, and wait until its pods run."""
        self._uninstall = [way.program]
        done = self.helm.run(way.program, "install", NAME, self._chart(), *way.flags, *self._values(tag))
        assert done.returncode == 0, done.stderr
        self.wait_for_pods()

    def upgrade(self, way: Way, tag: str, *flags: str) -> subprocess.CompletedProcess[str]:
        """Upgrade to an operator with this tag, and return how that ended."""
        self._uninstall = [way.program]
        return self.helm.run(way.program, "upgrade", NAME, self._chart(), *way.flags, *flags, *self._values(tag))

    def upgrade_to(self, way: Way, tag: str) -> None:
        """Upgrade to an operator with this tag, which must succeed."""
        done = self.upgrade(way, tag)
        assert done.returncode == 0, done.stderr

    def uninstall(self) -> None:
        """Uninstall what was installed, if anything was."""
        for program in self._uninstall:
            done = self.helm.run(program, "uninstall", NAME, "--no-hooks")
            assert done.returncode == 0, done.stderr

    def wait_for_pods(self) -> None:
        """Wait until the operator has as many pods as the release asks for."""
        eventually(lambda: len(self.site.operators()) == self.replicas, what="the operator's pods are not there")

    def deployment(self) -> Object:
        """The operator's Deployment."""
        return self.site.admin.get("apps/v1", "Deployment", "grove-operator", NAMESPACE)

    def replicas_owners(self) -> list[tuple[str, str]]:
        """Who owns ``spec.replicas`` of the Deployment: field managers and their operations."""
        return [
            (entry["manager"], entry["operation"])
            for entry in self.deployment()["metadata"]["managedFields"]
            if "f:replicas" in entry["fieldsV1"].get("f:spec", {})
        ]

    def managers(self) -> set[str]:
        """All field managers of the Deployment."""
        return {entry["manager"] for entry in self.deployment()["metadata"]["managedFields"]}

    def _values(self, tag: str) -> list[str]:
        return ["--set", f"replicaCount={self.replicas},image.tag={tag}"]

    def _chart(self) -> str:
        if not self.hooks:
            return str(CHART)
        copy = self.helm.home / "chart"
        if not copy.exists():
            shutil.copytree(CHART, copy)
        (copy / "templates" / "hooks.yaml").write_text(self.hooks, encoding="utf-8")
        return str(copy)
