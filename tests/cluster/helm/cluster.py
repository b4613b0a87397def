"""A cluster in which real Helm installs an operator and our chart; its pods are somebody else's business."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from testbed.controlplane.client import Object, eventually, job_end
from tests.cluster.helm.release import Helm
from tests.cluster.manifests.site import Site

OPERATOR: Final = Path(__file__).resolve().parent / "chart"
RIGHTS: Final = "rbac.authorization.k8s.io/v1"


@dataclass
class Cluster:
    """Helm's commands go to the operator's namespace; ``prefix`` is where Grove's values are in the chart."""

    site: Site
    helm: Helm
    directory: Path
    prefix: str = ""
    program: str = "helm4"
    releases: list[str] = field(default_factory=list)

    def do(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command of helm in the operator's namespace."""
        if words[0] in {"install", "upgrade"}:
            self.releases.append(next(word for word in words[1:] if not word.startswith("-")))
        return self.helm.run(self.program, *words, "--namespace", self.site.namespace)

    def succeed(self, *words: str) -> None:
        """One command of helm that must succeed."""
        done = self.do(*words)
        assert done.returncode == 0, done.stderr

    def grove(self, *more: str) -> list[str]:
        """Settings of Grove's chart: two replicas, and others."""
        return [word for value in ("replicaCount=2", *more) for word in ("--set", f"{self.prefix}{value}")]

    def tag(self) -> str:
        """The tag of the operator that is installed."""
        deployment = self.site.admin.get("apps/v1", "Deployment", "grove-operator", self.site.namespace)
        return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"]).rpartition(":")[2]

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
        eventually(self._empty, what="pods of the releases are still there")

    def _empty(self) -> bool:
        return not self.site.admin.list("v1", "Pod", self.site.namespace)
