"""A cluster in which real Helm installs an operator and our chart; its pods are somebody else's business."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from testbed.controlplane.client import Object, eventually, job_end
from tests.cluster.helm.wrapper import OPERATOR, run
from tests.cluster.manifests.site import Site

RIGHTS: Final = "rbac.authorization.k8s.io/v1"


@dataclass
class Cluster:
    """Helm's commands go to the operator's namespace, and its files to a directory.

    ``program`` is which helm, and ``chart`` what `install` and `upgrade` take, with ``flags``; ``prefix`` is where
    Grove's values are in a chart.
    """

    site: Site
    directory: Path
    prefix: str = ""
    program: str = "helm4"
    flags: tuple[str, ...] = ()
    chart: Path = OPERATOR
    releases: list[str] = field(default_factory=list)

    def do(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command of helm in the operator's namespace, however it ends."""
        if words[0] in {"install", "upgrade"}:
            self.releases.append(next(word for word in words[1:] if not word.startswith("-")))
        home, kubeconfig = str(self.directory), str(self.site.server.kubeconfig)
        environment = {"PATH": os.environ["PATH"], "HOME": home, "KUBECONFIG": kubeconfig}
        return run(self.program, *words, "--namespace", self.site.namespace, env=environment)

    def succeed(self, *words: str) -> None:
        """One command of helm that must succeed."""
        done = self.do(*words)
        assert done.returncode == 0, done.stderr

    def grove(self, *more: str) -> list[str]:
        """Settings of Grove's chart: two replicas, and others."""
        return [word for value in ("replicaCount=2", *more) for word in ("--set", f"{self.prefix}{value}")]

    def begin(self, release: str, chart: Path, *settings: str) -> dict[tuple[str, str], Object]:
        """Install an operator, and return the sets as it leaves them."""
        self.succeed("install", release, str(chart), *self.flags, *self.grove(*settings))
        self.running(2)
        self.site.plant()
        return self.site.objects()

    def install(self, tag: str) -> dict[tuple[str, str], Object]:
        """Install an operator with this tag from the chart, and return the sets as it leaves them."""
        return self.begin("grove", self.chart, f"image.tag={tag}")

    def upgrade(self, tag: str, *more: str) -> subprocess.CompletedProcess[str]:
        """Upgrade to an operator with this tag, and return how that ended."""
        return self.do("upgrade", "grove", str(self.chart), *self.flags, *self.grove(f"image.tag={tag}"), *more)

    def upgrade_to(self, tag: str, *more: str) -> None:
        """Upgrade to an operator with this tag, which must succeed."""
        done = self.upgrade(tag, *more)
        assert done.returncode == 0, done.stderr

    def image(self) -> str:
        """The image of the operator that is installed."""
        return str(self.site.deployment()["spec"]["template"]["spec"]["containers"][0]["image"])

    def tag(self) -> str:
        """The tag of the operator that is installed."""
        return self.image().rpartition(":")[2]

    def managers(self) -> set[str]:
        """All field managers of the operator's Deployment."""
        return {entry["manager"] for entry in self.site.deployment()["metadata"]["managedFields"]}

    def jobs(self) -> dict[str, str]:
        """How each of our Jobs ended."""
        jobs = self.site.admin.list("batch/v1", "Job", self.site.namespace)
        return {job["metadata"]["name"]: (job_end(job) or ("",))[0] for job in jobs}

    def running(self, replicas: int) -> None:
        """Wait until so many pods of the operator run."""
        eventually(lambda: len(self.site.operators()) == replicas, what=f"the operator has not {replicas} pods")

    def ours(self, api_version: str, kind: str) -> list[Object]:
        """What of a kind is ours."""
        namespaced = kind in {"Role", "RoleBinding", "ServiceAccount", "Job"}
        found = self.site.admin.list(api_version, kind, self.site.namespace if namespaced else None)
        return [item for item in found if item["metadata"]["name"].startswith("grove-migrator")]

    def clear(self) -> None:
        """Uninstall everything, and remove what hooks left."""
        for name in dict.fromkeys(self.releases):
            self.do("uninstall", name, "--no-hooks")
        admission = "admissionregistration.k8s.io/v1"
        for api_version, kind in (
            (admission, "ValidatingAdmissionPolicyBinding"),
            (admission, "ValidatingAdmissionPolicy"),
            *((RIGHTS, kind) for kind in ("ClusterRoleBinding", "ClusterRole", "RoleBinding", "Role")),
            ("v1", "ServiceAccount"),
            ("batch/v1", "Job"),
        ):
            for item in self.ours(api_version, kind):
                self.site.admin.delete(item)
        pods = ("v1", "Pod", self.site.namespace)
        eventually(lambda: not self.site.admin.list(*pods), what="pods of the releases are still there")
