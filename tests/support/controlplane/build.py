"""Build the control plane program once, into a cache directory: ``python -m tests.support.controlplane.build``.

A build from nothing takes minutes, so parallel test processes wait for the first one instead of building too.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).resolve().parent / "server"
_KUBERNETES: Final = re.compile(r"^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)$", re.MULTILINE)


class ControlPlaneUnavailableError(Exception):
    """No API server can be had on this machine; the message says why and what to do."""


def cache_directory() -> Path:
    """Where built programs are kept: ``GROVE_MIGRATOR_CACHE``, or ``~/.cache/grove-migrator``."""
    configured = os.environ.get("GROVE_MIGRATOR_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "grove-migrator"


def control_plane_binary() -> Path:
    """Return the program, building it if no build of these sources is cached.

    The cache key covers the sources, go.mod, go.sum, and Go's version and architecture. Raises
    ControlPlaneUnavailableError without Go, or when the build fails.
    """
    go = shutil.which("go")
    if go is None:
        raise ControlPlaneUnavailableError(
            "the control plane needs Go 1.24 or newer on PATH, or KUBEBUILDER_ASSETS naming a directory with etcd "
            "and kube-apiserver; found neither"
        )
    about = subprocess.run([go, "env", "GOVERSION", "GOOS", "GOARCH"], check=True, capture_output=True, text=True)
    directory = cache_directory() / "controlplane"
    binary = directory / f"controlplane-{_key(about.stdout)}"
    if binary.exists():
        return binary
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():
            _build(go, binary)
    return binary


def _key(about: str) -> str:
    digest = hashlib.sha256(about.encode())
    for path in sorted(SOURCES.iterdir()):
        if path.suffix in {".go", ".mod", ".sum"}:
            digest.update(f"{path.name}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _version_flags() -> str:
    """Linker flags that give the servers their version, as Kubernetes' own build does."""
    found = _KUBERNETES.search((SOURCES / "go.mod").read_text(encoding="utf-8"))
    if found is None:
        raise ControlPlaneUnavailableError(f"{SOURCES / 'go.mod'} requires no k8s.io/kubernetes")
    version, major, minor = found.groups()
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {package}.{name}={value}" for package in packages for name, value in values.items())


def _build(go: str, binary: Path) -> None:
    unfinished = binary.with_name(f"{binary.name}.{os.getpid()}")
    built = subprocess.run(
        [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {_version_flags()}", "-o", unfinished, "."],
        cwd=SOURCES,
        env={**os.environ, "GOWORK": "off", "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        raise ControlPlaneUnavailableError(f"go build of the control plane failed:\n{built.stderr.strip()}")
    unfinished.replace(binary)


def main() -> int:
    """Build, and print where the program is and how long it took."""
    started = time.monotonic()
    try:
        binary = control_plane_binary()
    except ControlPlaneUnavailableError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    seconds = time.monotonic() - started
    sys.stdout.write(f"{binary}: {binary.stat().st_size / 1e6:.0f} MB, {seconds:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
