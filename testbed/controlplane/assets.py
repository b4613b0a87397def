"""The control plane as ready-made binaries run it: a directory with etcd and kube-apiserver, as envtest has one."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

from testbed.controlplane.options import READY_SECONDS, STOP_SECONDS, Options, Ready, kubeconfig, tail, tls

_NAMES: Final = "IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes.default.svc"
_AUDIT_POLICY: Final = (
    "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
)
_HTTP_OK: Final = 200


class Assets:
    """Running binaries of a directory such as ``KUBEBUILDER_ASSETS``."""

    def __init__(self, assets: Path, directory: Path, log: Path, options: Options) -> None:
        self._assets, self._log = assets, log
        self._processes: list[subprocess.Popen[bytes]] = []
        for name in ("etcd", "kube-apiserver", *(["kube-controller-manager"] if options.controller_manager else [])):
            if not (assets / name).is_file():
                raise RuntimeError(f"KUBEBUILDER_ASSETS={assets} has no {name}")
        pki = _make_pki(directory / "pki")
        token = (pki / "tokens.csv").read_text(encoding="utf-8").partition(",")[0]
        port = _free_port()
        etcd = f"http://127.0.0.1:{_free_port()}"
        self.ready = Ready(f"https://127.0.0.1:{port}", token, pki / "ca.crt")
        config = directory / "kubeconfig"
        cluster = {"server": self.ready.url, "certificate-authority": str(self.ready.ca)}
        config.write_text(kubeconfig(cluster, token), encoding="utf-8")
        try:
            self._start_etcd(directory, etcd)
            self._run("kube-apiserver", f"--etcd-servers={etcd}", *_apiserver_flags(directory, pki, options, port))
            self._wait_until_ready()
            if options.controller_manager:
                self._run("kube-controller-manager", *_controller_flags(pki, config))
        except BaseException:
            self.stop()
            raise

    def _start_etcd(self, directory: Path, client: str) -> None:
        peer = f"http://127.0.0.1:{_free_port()}"
        self._run(
            "etcd",
            f"--data-dir={directory / 'etcd'}",
            "--unsafe-no-fsync",
            "--log-level=error",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        )

    def _run(self, name: str, *arguments: str) -> None:
        with self._log.open("ab") as output:
            command = [str(self._assets / name), *arguments]
            self._processes.append(
                subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
                )
            )

    def _wait_until_ready(self) -> None:
        context = tls(self.ready.ca)
        request = urllib.request.Request(  # noqa: S310 - our own https address
            f"{self.ready.url}/readyz", headers={"Authorization": f"Bearer {self.ready.token}"}
        )
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and all(process.poll() is None for process in self._processes):
            with contextlib.suppress(OSError), urllib.request.urlopen(request, context=context, timeout=5) as answer:  # noqa: S310
                if answer.status == _HTTP_OK:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"the control plane did not start:\n{tail(self._log)}")

    def stop(self) -> None:
        """End all processes, the last one first."""
        while self._processes:
            process = self._processes.pop()
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _make_pki(pki: Path) -> Path:
    """One key for serving and for ServiceAccount tokens, and a certificate that is its own authority."""
    openssl = shutil.which("openssl")
    if openssl is None:
        raise RuntimeError("KUBEBUILDER_ASSETS is set, but making its certificate needs openssl on PATH")
    pki.mkdir(parents=True, exist_ok=True)
    key, certificate = pki / "server.key", pki / "ca.crt"
    options = f"-x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=kube-apiserver -addext subjectAltName={_NAMES}"
    subprocess.run(
        [openssl, "req", *options.split(), "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    (pki / "tokens.csv").write_text(f"{secrets.token_hex(16)},admin,admin,system:masters\n", encoding="utf-8")
    return pki


def _apiserver_flags(directory: Path, pki: Path, options: Options, port: int) -> list[str]:
    flags = [
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={pki / 'ca.crt'}",
        f"--tls-private-key-file={pki / 'server.key'}",
        f"--token-auth-file={pki / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki / 'server.key'}",
        f"--service-account-signing-key-file={pki / 'server.key'}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--enable-aggregator-routing=true",
        "--allow-privileged=true",
        "--delete-collection-workers=8",
    ]
    if not options.controller_manager:
        flags.append("--disable-admission-plugins=ServiceAccount")
    if options.audit_log:
        policy = directory / "audit-policy.yaml"
        policy.write_text(_AUDIT_POLICY, encoding="utf-8")
        flags += [f"--audit-log-path={options.audit_log}", f"--audit-policy-file={policy}"]
    return [*flags, *options.apiserver_args]


def _controller_flags(pki: Path, config: Path) -> list[str]:
    return [
        f"--kubeconfig={config}",
        "--leader-elect=false",
        "--secure-port=0",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={pki / 'server.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        "--controllers=*,-pod-garbage-collector-controller",
    ]
