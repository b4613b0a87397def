"""A cluster in which real Grove operators run: real API server, real controllers, and an imitated kubelet for nodes."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import urllib3

from testbed.controlplane.client import Object
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.options import Options, Ready
from testbed.controlplane.server import ControlPlane
from tests.support.pods.container import Program, image_of
from tests.support.pods.kubelet import Kubelet
from tests.upgrade import builds, installation
from tests.upgrade.builds import Build
from tests.upgrade.cluster import Cluster, Ran

# With this the API server calls a webhook at what its Service is an alias of; else it wants Endpoints, which refuse
# loopback addresses.
_ARGUMENTS: Final = ("--enable-aggregator-routing=false",)


class Lab(Cluster):
    """One cluster. Builds that elect a leader by their chart do so; with ``leader_election`` the others are told to."""

    def __init__(self, directory: Path, *, authorizer: bool = False, leader_election: bool = False) -> None:
        super().__init__()
        options = Options(controller_manager=True, apiserver_args=_ARGUMENTS)
        self.control_plane = ControlPlane(directory / "controlplane", options)
        self._directory = directory
        self._authorizer = authorizer
        self._leader_election = leader_election
        self._ports = _free_ports(3)

    def _begin(self, ends: ExitStack) -> None:
        server = ends.enter_context(self.control_plane)
        self.ready = Ready(server.url, server.token, server.ca)
        self.kubeconfig = server.kubeconfig
        self.kubelet = ends.enter_context(Kubelet(server, self._directory / "pods", _program))

    def install(self, build: Build, *, lease_rights: bool | None = None) -> None:
        """Install a build as its chart does: afterwards one replica of it runs."""
        self.build = build
        webhooks, health, metrics = self._ports
        settings = installation.Settings(
            webhooks=webhooks,
            health=health,
            metrics=metrics,
            leader_election=self._leader_election or build.leads,
            lease_rights=build.leads if lease_rights is None else lease_rights,
            authorizer=self._authorizer,
        )
        self.apply_crds(build.crds)
        if not self.client.list("v1", "Secret", installation.NAMESPACE):
            for item in (installation.certificate(), *installation.webhooks(settings)):
                self.client.create(item)
        for item in installation.objects(build, settings):
            self.client.apply(item, manager="helm")
        self.wait_for_operator(build)

    def switch_off_authorizer(self) -> None:
        """Upgrade to the same build without the authorizer, as ``config.authorizer.enabled=false`` does."""
        self._authorizer = False
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        self.client.delete({**kind, "metadata": {"name": "authorizer-webhook"}})
        self.install(self.build)

    def apply_crds(self, line: str) -> None:
        """Apply a line's CRDs, unless they are in force already."""
        apply_crds(self.control_plane, line)
        if line == "alpha.8":
            self.client.apply(installation.TOPOLOGY)

    def ended(self, build: Build) -> float:
        """When the last process of a build ended."""
        return max(span.ended or 0 for span in self.kubelet.spans(build.image))

    def create_set(self, pcs: Object) -> None:
        """Create a PodCliqueSet as it is: here nodes can run anything."""
        self.client.create(pcs)

    def tool(self, *arguments: str, kubeconfig: Path | None = None) -> Ran:
        """Run the tool to its end, as a user does: the administrator, or whose kubeconfig is given."""
        return self.from_here(*arguments, kubeconfig=kubeconfig)

    def _metrics(self) -> str:
        url = f"http://127.0.0.1:{self._ports[2]}/metrics"
        try:
            return urllib3.request("GET", url, timeout=5, retries=False).data.decode()
        except urllib3.exceptions.HTTPError:
            return ""

    def _log(self) -> str:
        return self.kubelet.log(installation.DEPLOYMENT)


def _program(pod: Object) -> Program | None:
    repository, _, tag = image_of(pod).rpartition(":")
    if repository != builds.REPOSITORY:
        return None
    build = builds.BUILDS[tag]
    binary = build.binary()
    if binary is None:
        raise FileNotFoundError(f"{builds.VARIABLE} has no {build.name}/grove-operator")
    return Program((str(binary),), {"GOMAXPROCS": str(os.cpu_count() or 1)})


def _free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(found.getsockname()[1]) for found in sockets]
    for found in sockets:
        found.close()
    return ports
