"""The packed chart in a cluster, by real Helm 3 and 4: a release of its own, and the wrappers of examples/helm."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.helm.release import Helm
from tests.cluster.helm.wrapper import packed, wrapper
from tests.cluster.manifests.container import Container
from tests.cluster.manifests.kubelet import Kubelet
from tests.cluster.manifests.site import NEW, OLD, Site
from tests.support.controlplane.client import Object, eventually

pytestmark = pytest.mark.controlplane

DYNAMO: Final = "dynamo-system"
OPERATOR: Final = Path(__file__).resolve().parent / "chart"
#: `helm install` and `helm upgrade` then return when the Job has ended.
WAIT: Final = ("--wait", "--wait-for-jobs", "--timeout=5m")
_RIGHTS: Final = "rbac.authorization.k8s.io/v1"


@dataclass
class Cluster:
    """A cluster where Helm installs an operator into dynamo-system; ``prefix`` is where Grove's values are."""

    site: Site
    helm: Helm
    kubelet: Kubelet
    directory: Path
    prefix: str = ""
    program: str = "helm4"
    releases: list[str] = field(default_factory=list)

    def do(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command of helm in the operator's namespace."""
        if words[0] in {"install", "upgrade"}:
            release = next(word for word in words[1:] if not word.startswith("-"))
            self.releases = [*self.releases, release] if release not in self.releases else self.releases
        return self.helm.run(self.program, *words, "--namespace", DYNAMO)

    def succeed(self, *words: str) -> None:
        """One command of helm that must succeed."""
        done = self.do(*words)
        assert done.returncode == 0, done.stderr

    def grove(self, *more: str) -> list[str]:
        """Settings of Grove's chart: two replicas, and others."""
        return [word for value in ("replicaCount=2", *more) for word in ("--set", f"{self.prefix}{value}")]

    def tag(self) -> str:
        """The tag of the operator that is installed."""
        deployment = self.site.admin.get("apps/v1", "Deployment", "grove-operator", DYNAMO)
        return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"]).rpartition(":")[2]

    def jobs(self) -> dict[str, str]:
        """How each of our Jobs ended."""
        found = {}
        for job in self.site.admin.list("batch/v1", "Job", DYNAMO):
            over = [c["type"] for c in job["status"].get("conditions", ()) if c["type"] in {"Complete", "Failed"}]
            found[job["metadata"]["name"]] = over[-1] if over else ""
        return found

    def running(self, replicas: int) -> None:
        """Wait until so many pods of the operator run."""
        eventually(lambda: len(self.site.operators()) == replicas, what=f"the operator has not {replicas} pods")


@pytest.fixture
def cluster(site: Site, tmp_path: Path) -> Iterator[Cluster]:
    """The cluster, without any release; afterwards nothing of one is left."""
    there = replace(site, namespace=DYNAMO, planted=[])
    there.admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": DYNAMO}})
    there.clear()
    home = tmp_path / "home"
    home.mkdir()
    with Kubelet(site.server, DYNAMO, tmp_path / "pods", {"grove-migrator": Container.run}) as kubelet:
        found = Cluster(there, Helm(site.server.kubeconfig, home), kubelet, tmp_path)
        yield found
        for name in found.releases:
            found.do("uninstall", name, "--no-hooks")
        for kind in ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"):
            _remove(there, "admissionregistration.k8s.io/v1", kind)
        for kind in ("ClusterRoleBinding", "ClusterRole", "RoleBinding", "Role"):
            _remove(there, _RIGHTS, kind)
        _remove(there, "v1", "ServiceAccount")
        _remove(there, "batch/v1", "Job")
        eventually(lambda: not site.admin.list("v1", "Pod", DYNAMO), what="pods of the releases are still there")


def _remove(site: Site, api_version: str, kind: str) -> None:
    for item in _ours(site, api_version, kind):
        site.admin.delete(item)


def _ours(site: Site, api_version: str, kind: str) -> list[Object]:
    namespace = DYNAMO if kind in {"Role", "RoleBinding", "ServiceAccount", "Job"} else None
    found = site.admin.list(api_version, kind, namespace)
    return [item for item in found if item["metadata"]["name"].startswith("grove-migrator")]


@pytest.mark.parametrize("helm", ["helm3", "helm4"])
def test_a_release_of_its_own_before_the_upgrade(cluster: Cluster, helm: str) -> None:
    """Four commands: migrate, upgrade the operator, verify, uninstall. Each is over when Helm returns."""
    cluster.program = helm
    ours = str(packed(cluster.directory / "packed", fit=True))
    cluster.succeed("install", "grove", str(OPERATOR), *cluster.grove(f"image.tag={OLD}"))
    cluster.running(2)
    cluster.site.plant()
    before = cluster.site.objects()
    cluster.succeed("upgrade", "--install", "grove-migrator", ours, "--set", f"target={NEW}", *WAIT)
    assert cluster.jobs() == {"grove-migrator-1": "Complete"}
    after = cluster.site.expected(before, OLD, NEW)
    assert cluster.site.objects() == after != before
    assert (cluster.site.replicas(), cluster.site.names("ConfigMap")[:1]) == (0, ["grove-migrator-run"])
    cluster.succeed("upgrade", "grove", str(OPERATOR), *cluster.grove(f"image.tag={NEW}"))
    cluster.running(2)
    verify = ("--set", f"target={NEW}", "--set", "mode=verify", "--set", "verify.settle=60s")
    cluster.succeed("upgrade", "--install", "grove-migrator", ours, *verify, *WAIT)
    assert cluster.jobs() == {"grove-migrator-verify-2": "Complete"}
    assert (cluster.site.names("ConfigMap"), cluster.site.objects()) == ([], after)
    cluster.succeed("uninstall", "grove-migrator")
    assert _ours(cluster.site, _RIGHTS, "ClusterRole") == []


def test_a_refused_run_fails_and_the_same_command_runs_it_again(cluster: Cluster) -> None:
    """A target that is not a release fails the Job and Helm, disturbs nothing, and does not stand in the way."""
    ours = str(packed(cluster.directory / "packed", fit=True))
    cluster.succeed("install", "grove", str(OPERATOR), *cluster.grove(f"image.tag={OLD}"))
    cluster.running(2)
    cluster.site.plant()
    before = cluster.site.objects()
    again = ("upgrade", "--install", "grove-migrator", ours, *WAIT, "--set")
    assert cluster.do(*again, "target=v0.1.0-alpha.99").returncode != 0
    assert cluster.jobs() == {"grove-migrator-1": "Failed"}
    assert (cluster.site.objects(), cluster.site.replicas()) == (before, 2)
    cluster.succeed(*again, f"target={NEW}")
    assert cluster.jobs() == {"grove-migrator-2": "Complete"}
    assert cluster.site.objects() == cluster.site.expected(before, OLD, NEW)


@pytest.mark.parametrize(
    ("kind", "prefix", "helm"),
    [
        ("grove", "grove.", "helm3"),
        pytest.param("grove", "grove.", "helm4", marks=pytest.mark.slow),
        pytest.param("dynamo", "dynamo-platform.grove.", "helm3", marks=pytest.mark.slow),
        ("dynamo", "dynamo-platform.grove.", "helm4"),
    ],
)
def test_a_wrapper_migrates_before_its_upgrade_and_before_its_rollback(
    cluster: Cluster, kind: str, prefix: str, helm: str
) -> None:
    """One command there, one back: the hook of each revision migrates to the operator that it installs.

    The stand-in of dynamo-platform has Grove as its subchart; both live in dynamo-system. A tag that is set past the
    import fails before anything is disturbed, and the check after the upgrade closes the record.
    """
    cluster.program, cluster.prefix = helm, prefix
    charts = {tag: str(wrapper(kind, cluster.directory, tag)) for tag in (OLD, NEW)}
    cluster.succeed("install", "platform", charts[OLD], *cluster.grove())
    assert cluster.jobs() == {}
    cluster.running(2)
    cluster.site.plant()
    before = cluster.site.objects()
    assert cluster.do("upgrade", "platform", charts[OLD], *cluster.grove(f"image.tag={NEW}")).returncode != 0
    assert (cluster.jobs(), cluster.tag(), cluster.site.objects()) == ({}, OLD, before)
    check = ("--set", "grove-migrator.verify.enabled=true", "--set", "grove-migrator.verify.settle=60s")
    cluster.succeed("upgrade", "platform", charts[NEW], *cluster.grove(), *check, "--timeout=35m")
    after = cluster.site.expected(before, OLD, NEW)
    assert cluster.jobs() == {"grove-migrator": "Complete", "grove-migrator-verify": "Complete"}
    assert (cluster.tag(), cluster.site.objects(), cluster.site.names("ConfigMap")) == (NEW, after, [])
    cluster.running(2)
    cluster.succeed("rollback", "platform", "1", "--timeout=35m")
    assert (cluster.tag(), cluster.site.objects()) == (OLD, before)
    cluster.running(2)
