"""A cluster in which real Grove operators run: real API server, real controllers, and an imitated kubelet for nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import urllib3
import yaml

from testbed import operator_installation as installation
from testbed.controlplane.client import NOT_FOUND, Object
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.server import ControlPlane, free_ports
from testbed.crds import load
from tests.cluster.helm.wrapper import template
from tests.cluster.running import Running, running
from tests.e2e.lab import builds
from tests.e2e.lab.builds import Build
from tests.e2e.lab.cluster import Cluster
from tests.e2e.lab.kubelet import Kubelet

#: The imitated kubelet acts as the administrator.
_EXEMPT: Final = "admin,system:serviceaccount:kube-system:generic-garbage-collector"
#: The operator writes its certificate into these, so they are created once, and not applied again.
_CERTIFIED: Final = {"Secret", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}


class Lab(Cluster):
    """One cluster, in which operators are installed from their charts.

    Three things differ from other clusters, so that everything stays on the loopback interface: the Service that the
    API server calls webhooks at is an alias of ``localhost``, the operator binds to 127.0.0.1, and its ports are free
    ones. Without ``elects`` leader election is switched off.
    """

    def __init__(self, directory: Path, *, authorizer: bool = False, elects: bool = True) -> None:
        super().__init__()
        self.control_plane = ControlPlane(directory / "controlplane", controllers=True)
        self._directory = directory
        self._authorizer = authorizer
        self._elects = elects
        self._ports = free_ports(3)

    def _begin(self, ends: ExitStack) -> None:
        server = ends.enter_context(self.control_plane)
        self.client = server.client()
        self.kubeconfig = server.kubeconfig
        self.kubelet = ends.enter_context(Kubelet(self.client, self._directory / "pods", _program))

    def upgrade(self, build: Build) -> None:
        """As Helm does; but what the chart before had and this one lacks stays."""
        for item in self._rendered(build):
            kind, metadata = self.client.kind_of(item), item["metadata"]
            if kind.namespaced:
                metadata.setdefault("namespace", installation.NAMESPACE)
            path = kind.path(metadata.get("namespace"), metadata["name"])
            if item["kind"] not in _CERTIFIED:
                self.client.apply(item, manager="helm")
            elif self.client.request("GET", path).status == NOT_FOUND:
                self.client.create(item)

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
        chart = Path(*builds.chart(build.name))
        for item in template("helm3", chart, *(f"{name}={value}" for name, value in values.items())):
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

    def apply_crds(self, build: Build) -> None:
        """By those of the build's line."""
        self.make_way(crd["metadata"]["name"] for crd in load(build.crds))
        apply_crds(self.client, build.crds)

    @contextmanager
    def in_mid_run(self, target: Build, *more: str, pods: int = 0) -> Iterator[Running]:
        """A slow run; the block begins once it has written to so many pods (a third), and ends with the run."""
        log = self._directory / f"run{len(more)}.log"
        pods = pods or len(self.photo().pods()) // 3
        with running(log, self.client, self.kubeconfig, *more, *target.target, pods=pods) as run:
            yield run

    def _metrics(self) -> str:
        url = f"http://127.0.0.1:{self._ports[2]}/metrics"
        try:
            return urllib3.request("GET", url, timeout=5, retries=False).data.decode()
        except urllib3.exceptions.HTTPError:
            return ""

    def _log(self) -> str:
        return self.kubelet.log


def _program(pod: Object) -> Path | None:
    repository, _, tag = str(pod["spec"]["containers"][0]["image"]).rpartition(":")
    return builds.BUILDS[tag].binary() if repository == builds.REPOSITORY else None
