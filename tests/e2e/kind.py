"""A cluster that kind makes: one real node, its API server, and the images that are loaded into it."""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import yaml

from testbed import operator_installation as installation
from testbed.controlplane.client import Client
from testbed.helm import PROGRAMS
from testbed.kind import KIND, PUBLISHED
from tests.support.commands import CommandError, attempt, run

#: Names the image of nodes; the published one without it.
NODE_IMAGE: Final = "GROVE_E2E_NODE_IMAGE"
#: A directory that gets the logs of a cluster in which a test failed; a workflow keeps it.
EVIDENCE: Final = "GROVE_E2E_EVIDENCE"
#: From Kubernetes 1.35 on, an image can be a volume without being asked for.
_CONFIGURATION: Final = "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nfeatureGates:\n  ImageVolume: true\n"
#: Cluster DNS and volumes: nothing here may need them, and a node image of ours has none that work.
_NOT_NEEDED: Final = (("kube-system", "coredns"), ("local-path-storage", "local-path-provisioner"))
_CREATE_SECONDS: Final = 600
_ADMINISTRATOR: Final = "grove-migrator-e2e"


class Kind:
    """A cluster of one node in ``directory``; a context manager, which deletes it whatever happens.

    When its block ends with an error, ``kind export logs`` is kept first.
    """

    def __init__(self, directory: Path) -> None:
        self.name = f"grove-migrator-{secrets.token_hex(4)}"
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig"
        self.node = f"{self.name}-control-plane"
        self.client: Client
        self.failed = False  # a test has failed in here
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        image = os.environ.get(NODE_IMAGE, PUBLISHED)
        with ExitStack() as ends:
            ends.callback(self._delete)
            ends.push(self._keep_logs)
            configuration = self.directory / "kind.yaml"
            configuration.write_text(_CONFIGURATION, encoding="utf-8")
            self._kind("create", "cluster", "--image", image, "--config", str(configuration), "--wait", "5m")
            self.client = self._administrator()
            ends.callback(self.client.close)
            for namespace, name in _NOT_NEEDED:
                self.kubectl("--namespace", namespace, "scale", "deployment", name, "--replicas=0")
            self._ends = ends.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ends.__exit__(kind, error, at)

    def load(self, images: Sequence[str]) -> None:
        """Load images of the engine into the node, for the one platform that they are there for."""
        with tempfile.TemporaryDirectory(dir=self.directory) as scratch:
            archive = str(Path(scratch) / "images.tar")
            run("docker", "save", *_platform(), "--output", archive, *images)
            run(str(KIND.binary()), "load", "image-archive", archive, "--name", self.name)

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl as the administrator; nothing of its cache stays."""
        cache = f"--cache-dir={self.directory / 'cache'}"
        return run("kubectl", cache, "--kubeconfig", str(self.kubeconfig), *arguments)

    def helm(self, *arguments: str, seconds: float = 600) -> subprocess.CompletedProcess[str]:
        """Run helm in the operator's namespace, as the administrator, to its end, however that is."""
        named = ("--kubeconfig", str(self.kubeconfig), "--namespace", installation.NAMESPACE)
        home = str(self.directory / "helm")
        return attempt(str(PROGRAMS["helm3"].binary()), *arguments, *named, seconds=seconds, HOME=home)

    def _kind(self, *arguments: str) -> None:
        named = ("--name", self.name, "--kubeconfig", str(self.kubeconfig))
        run(str(KIND.binary()), *arguments, *named, seconds=_CREATE_SECONDS)

    def _delete(self) -> None:
        """Delete the cluster; an engine on a busy machine may need to be told again."""
        for _ in range(2):
            with contextlib.suppress(CommandError):
                self._kind("delete", "cluster")
                return
        self._kind("delete", "cluster")

    def _administrator(self) -> Client:
        """A client whose token has every right: kind's kubeconfig has a certificate, and the client takes tokens."""
        account = f"kube-system:{_ADMINISTRATOR}"
        binding = ("--clusterrole=cluster-admin", f"--serviceaccount={account}")
        self.kubectl("--namespace=kube-system", "create", "serviceaccount", _ADMINISTRATOR)
        self.kubectl("create", "clusterrolebinding", _ADMINISTRATOR, *binding)
        token = self.kubectl("--namespace=kube-system", "create", "token", _ADMINISTRATOR, "--duration=8h").strip()
        [server] = yaml.safe_load(self.kubeconfig.read_text(encoding="utf-8"))["clusters"]
        ca = self.directory / "ca.crt"
        ca.write_bytes(base64.b64decode(server["cluster"]["certificate-authority-data"]))
        return Client(server["cluster"]["server"], token=token, ca=ca)

    def _keep_logs(self, kind: type[BaseException] | None, *_: object) -> None:
        kept = os.environ.get(EVIDENCE)
        if kept and (kind is not None or self.failed):
            try:
                run(str(KIND.binary()), "export", "logs", str(Path(kept) / self.name), "--name", self.name)
            except CommandError as error:  # the failure itself is what must be shown
                sys.stderr.write(f"{error}\n")


def _platform() -> list[str]:
    """An engine that keeps images of many platforms saves them all, of which most were never pulled."""
    if "--platform" not in run("docker", "save", "--help"):
        return []
    return ["--platform", run("docker", "version", "--format", "{{.Server.Os}}/{{.Server.Arch}}").strip()]
