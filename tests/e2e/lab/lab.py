"""A cluster in which real Grove operators run: real API server, real controllers, and an imitated kubelet for nodes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import urllib3
import yaml

from testbed import operator_installation as installation
from testbed.controlplane.client import NOT_FOUND, Object, eventually
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.server import ControlPlane, Options, free_ports
from testbed.helm import PROGRAMS
from tests.e2e.commands import run
from tests.e2e.lab import builds, photo
from tests.e2e.lab.builds import Build
from tests.e2e.lab.cluster import RUN_SECONDS, Cluster, Ran
from tests.e2e.lab.kubelet import Kubelet
from tests.e2e.lab.photo import Photo
from tests.support.paths import ROOT

# With this the API server calls a webhook at what its Service is an alias of; else it wants Endpoints, which refuse
# loopback addresses.
_ARGUMENTS: Final = ("--enable-aggregator-routing=false",)
#: The imitated kubelet acts as the administrator.
_EXEMPT: Final = "admin,system:serviceaccount:kube-system:generic-garbage-collector"
#: The operator writes its certificate into these, so they are created once, and not applied again.
_CERTIFIED: Final = {"Secret", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
#: alpha.8 removes its ClusterTopology at the start, and ends if the kind is not known.
_TOPOLOGY: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "clustertopologies.grove.io"},
    "spec": {
        "group": "grove.io",
        "names": {"kind": "ClusterTopology", "plural": "clustertopologies"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@dataclass(frozen=True, slots=True)
class Caught:
    """A run that was caught among its writes."""

    process: subprocess.Popen[bytes]
    log_file: Path

    @property
    def log(self) -> str:
        """What it has printed."""
        return self.log_file.read_text(encoding="utf-8")


class Lab(Cluster):
    """One cluster, in which operators are installed from their charts.

    Three things differ from other clusters, so that everything stays on the loopback interface: the Service that the
    API server calls webhooks at is an alias of ``localhost``, the operator binds to 127.0.0.1, and its ports are free
    ones. Without ``elects`` leader election is switched off.
    """

    def __init__(self, directory: Path, *, authorizer: bool = False, elects: bool = True) -> None:
        super().__init__()
        options = Options(controller_manager=True, apiserver_args=_ARGUMENTS)
        self.control_plane = ControlPlane(directory / "controlplane", options)
        self._directory = directory
        self._authorizer = authorizer
        self._elects = elects
        self._ports = free_ports(3)

    def _begin(self, ends: ExitStack) -> None:
        server = ends.enter_context(self.control_plane)
        self.client = server.client()
        self.kubeconfig = server.kubeconfig
        self.kubelet = ends.enter_context(Kubelet(server, self._directory / "pods", _program))

    def install(self, build: Build) -> None:
        """Install a build as Helm does from its chart: afterwards one replica of it runs."""
        self.build = build
        self.apply_crds(build.crds)
        for item in self._rendered(build):
            kind, metadata = self.client.kind_of(item), item["metadata"]
            if kind.namespaced:
                metadata.setdefault("namespace", installation.NAMESPACE)
            path = kind.path(metadata.get("namespace"), metadata["name"])
            if item["kind"] not in _CERTIFIED:
                self.client.apply(item, manager="helm")
            elif self.client.request("GET", path).status == NOT_FOUND:
                self.client.create(item)
        self.wait_for_operator(build)

    def _rendered(self, build: Build) -> Iterator[Object]:
        """The objects of a build's chart, on the loopback interface."""
        webhooks, health, metrics = self._ports
        values = {
            "image.repository": builds.REPOSITORY,
            "image.tag": build.name,  # the repository's chart names a developer's image
            "config.server.webhooks.port": webhooks,
            "config.server.healthProbes.port": health,
            "config.server.metrics.port": metrics,
            "config.leaderElection.enabled": str(self._elects).lower(),
            "config.authorizer.enabled": str(self._authorizer).lower(),
            "config.authorizer.exemptServiceAccountUserNames": f"{{{_EXEMPT}}}",
        }
        settings = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
        chart = (str(build.binary().parents[1] / "charts" / build.name), *settings)
        helm = str(PROGRAMS["helm3"].binary())
        for item in yaml.safe_load_all(run(helm, "template", "grove", *chart, "--namespace", installation.NAMESPACE)):
            if item["kind"] == "Service":
                ports = [{"name": "webhooks", "port": webhooks}]
                item["spec"] = {"type": "ExternalName", "externalName": "localhost", "ports": ports}
            elif item["kind"] == "ConfigMap":
                configuration = yaml.safe_load(item["data"]["config.yaml"])
                configuration.pop("scheduler", None)  # some builds' charts want CRDs of schedulers that are not here
                for server in configuration["server"].values():
                    server["bindAddress"] = "127.0.0.1"
                item["data"]["config.yaml"] = yaml.safe_dump(configuration)
            yield item

    def switch_off_authorizer(self) -> None:
        """Upgrade to the same build without the authorizer, as ``config.authorizer.enabled=false`` does."""
        self._authorizer = False
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        self.client.delete({**kind, "metadata": {"name": "authorizer-webhook"}})
        self.install(self.build)

    def apply_crds(self, line: str) -> None:
        """Apply a line's CRDs."""
        apply_crds(self.client, line)
        if line == "alpha.8":
            self.client.apply(_TOPOLOGY)

    def ended(self, build: Build) -> float:
        """When the last process of a build ended."""
        return max(span.ended or 0 for span in self.kubelet.spans(build.image))

    def create_set(self, pcs: Object) -> None:
        """Create a PodCliqueSet as it is: here nodes can run anything."""
        self.client.create(pcs)

    def tool(self, *arguments: str) -> Ran:
        """Run the tool to its end, as an administrator does."""
        return self.from_here(*arguments)

    @contextmanager
    def in_mid_run(self, before: Photo, target: Build, *, pods: int = 0) -> Iterator[Caught]:
        """Run slowly; the block begins once the run has written to so many pods (a third), and ends with the run."""
        command = self.command("run", *target.target, "--stop-operator", "--concurrency", "1")
        slowly = {**os.environ, "PYTHONPATH": str(ROOT / "tests/support/slow_network"), "PATCH_DELAY": "0.12"}
        log = self._directory / "mid-run.txt"
        old, pods = before.labels(), pods or len(before.pods()) // 3
        with log.open("wb") as output:
            process = subprocess.Popen(command, cwd=ROOT, env=slowly, stdout=output, stderr=output)
            run = Caught(process, log)

            def written() -> bool:
                """Whether so many pods have another hash than before."""
                now = self.photo().labels()
                return sum(key[0] == photo.POD and now[key] != value for key, value in old.items()) >= pods

            try:
                eventually(lambda: process.poll() is not None or written(), what="the run writes nothing")
                assert process.poll() is None, run.log
                assert set(old.items()) & set(self.photo().labels().items()), "everything is written"
                yield run
                process.wait(RUN_SECONDS)
            finally:
                process.kill()
                process.wait()

    def _metrics(self) -> str:
        url = f"http://127.0.0.1:{self._ports[2]}/metrics"
        try:
            return urllib3.request("GET", url, timeout=5, retries=False).data.decode()
        except urllib3.exceptions.HTTPError:
            return ""

    def _log(self) -> str:
        return self.kubelet.log


def _program(pod: Object) -> Path | None:
    """An operator's program, if a pod is of one."""
    repository, _, tag = str(pod["spec"]["containers"][0]["image"]).rpartition(":")
    return builds.BUILDS[tag].binary() if repository == builds.REPOSITORY else None
