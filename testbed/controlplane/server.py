"""Run an API server for the tests: etcd and kube-apiserver (and kube-controller-manager) as processes on 127.0.0.1.

The programs are those of ``KUBEBUILDER_ASSETS``, a directory as envtest has one, or else our own build of them.
"""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import shutil
import socket
import subprocess
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Self

from urllib3.exceptions import HTTPError

from testbed.controlplane.client import Client, eventually
from testbed.go_programs import GoProgram, GoProgramError

_SOURCES: Final = Path(__file__).resolve().parent / "server"
_KUBERNETES: Final = re.compile(r"^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)$", re.MULTILINE)
_READY_SECONDS: Final = 120
_LOG_TAIL: Final = 3000
_OK: Final = 200
_AUDIT_POLICY: Final = (
    "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
)


def _version_flags() -> str:
    """Linker flags that give the servers their version, as Kubernetes' own build does."""
    found = _KUBERNETES.search((_SOURCES / "go.mod").read_text(encoding="utf-8"))
    if found is None:
        raise GoProgramError(f"{_SOURCES / 'go.mod'} does not require k8s.io/kubernetes")
    version, major, minor = found.groups()
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {package}.{name}={value}" for package in packages for name, value in values.items())


#: Kubernetes and etcd as one program, by the name that it is called by.
KUBERNETES: Final = GoProgram("kubernetes", _SOURCES, ldflags=f"-s -w {_version_flags()}")


class ControlPlane:
    """A control plane with all its data in one directory, and its administrator.

    ``controllers`` adds kube-controller-manager: Deployments, Jobs, garbage collection, namespaces and ServiceAccounts.
    ``audited``, every request is in ``audit_log``, with its metadata.
    """

    def __init__(self, directory: Path, *, controllers: bool = False, audited: bool = False) -> None:
        self.directory = directory
        self.audit_log = directory / "audit.jsonl"
        self._controllers, self._audited = controllers, audited
        self.kubeconfig = directory / "kubeconfig"
        self.log = directory / "log.txt"
        self.token = secrets.token_hex(16)
        self.ca = directory / "apiserver.crt"  # kube-apiserver makes it, and signs it with itself
        self.url = ""
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        """Start, and wait until it is ready. Raises GoProgramError if it cannot be built."""
        self.directory.mkdir(parents=True, exist_ok=True)
        programs = _programs(self.directory)
        *ports, port = free_ports(3)
        etcd, peer = (f"http://127.0.0.1:{one}" for one in ports)
        self.url = f"https://127.0.0.1:{port}"
        self.kubeconfig.write_text(json.dumps(_kubeconfig(self.url, self.token, self.ca)), encoding="utf-8")
        default = "/api/v1/namespaces/default"
        try:
            self._run(programs / "etcd", *_etcd_flags(self.directory, etcd, peer))
            self._run(programs / "kube-apiserver", f"--etcd-servers={etcd}", *self._apiserver_flags(port))
            eventually(partial(self._has, default), what="the API server is not ready", seconds=_READY_SECONDS)
            if self._controllers:
                # It exits if that takes more than ten seconds (controllermanager.go: WaitForAPIServer).
                eventually(partial(self._has, "/healthz"), what="the API server is not healthy", seconds=_READY_SECONDS)
                self._run(programs / "kube-controller-manager", *self._controller_flags())
                account = partial(self._has, f"{default}/serviceaccounts/default")
                eventually(account, what="kube-controller-manager is not ready", seconds=_READY_SECONDS)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes, the last one first; none of them need tidy up."""
        while self._processes:
            process = self._processes.pop()
            process.kill()
            process.wait()

    def client(self, *, token: str | None = None) -> Client:
        """Return a client of the administrator, or of whomever a token belongs to."""
        return Client(self.url, token=token or self.token, ca=self.ca)

    def _run(self, *command: str | Path) -> None:
        # The kernel ends it with this process, however that ends.
        tied = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
        # To start allocates much and lives briefly: a quarter less CPU. The limit is for benchmarks with 10,000 pods.
        environment = {**os.environ, "GOGC": "400", "GOMEMLIMIT": "6GiB"}
        with self.log.open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [*tied, *command],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _has(self, path: str) -> bool:
        """Whether the API server serves that object; raises RuntimeError if a process has ended."""
        if any(process.poll() is not None for process in self._processes):
            log = self.log.read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"the control plane did not start:\n{log[-_LOG_TAIL:]}")
        try:
            client = self.client()
            found = client.request("GET", path).status == _OK
            client.close()
        except (HTTPError, OSError):  # it does not listen, or its certificate is not written
            return False
        return found

    def _apiserver_flags(self, port: int) -> list[str]:
        tokens, key = self.directory / "tokens.csv", self.ca.with_suffix(".key")
        tokens.write_text(f"{self.token},admin,admin,system:masters\n", encoding="utf-8")
        flags = [
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # Endpoints refuse loopback addresses
            f"--cert-dir={self.directory}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
            "--delete-collection-workers=8",  # namespaces are emptied after each test
        ]
        if not self._controllers:
            # Nobody creates the ServiceAccount "default" of a namespace, so pods that name none must pass without it.
            flags.append("--disable-admission-plugins=ServiceAccount")
        if self._audited:
            policy = self.directory / "audit-policy.yaml"
            policy.write_text(_AUDIT_POLICY, encoding="utf-8")
            flags += [f"--audit-log-path={self.audit_log}", f"--audit-policy-file={policy}"]
        return flags

    def _controller_flags(self) -> tuple[str, ...]:
        return (
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self.ca.with_suffix('.key')}",
            f"--root-ca-file={self.ca}",
            "--controllers=*,-pod-garbage-collector-controller",  # which deletes pods of nodes that do not exist
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        )


def _programs(directory: Path) -> Path:
    """The directory that has the programs by their names."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        return Path(assets)
    links = directory / "programs"
    links.mkdir(exist_ok=True)
    for name in ("etcd", "kube-apiserver", "kube-controller-manager"):
        (links / name).symlink_to(KUBERNETES.binary())
    return links


def _etcd_flags(directory: Path, client: str, peer: str) -> tuple[str, ...]:
    return (
        f"--data-dir={directory / 'etcd'}",
        "--unsafe-no-fsync",  # a killed process loses nothing, and the directory of a killed machine is gone anyway
        "--heartbeat-interval=10",  # there is no peer to wait for: elect at once
        "--election-timeout=100",
        "--log-level=error",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    )


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now, and that Linux gives to nobody who asks for any, which 32768 and up may be."""
    ports = list[int]()
    for port in random.sample(range(20_000, 32_768), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.append(port)
        if len(ports) == count:
            break
    return ports


def _kubeconfig(url: str, token: str, ca: Path) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": {"server": url, "certificate-authority": str(ca)}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "admin"}}],
        "current-context": "tests",
    }
