"""The control plane as a Go program of ours: etcd, kube-apiserver and kube-controller-manager in one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from testbed.go_programs import GoProgram, GoProgramError

SOURCES: Final = Path(__file__).resolve().parent / "server"
_KUBERNETES: Final = re.compile(r"^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)$", re.MULTILINE)


def _version_flags() -> str:
    """Linker flags that give the servers their version, as Kubernetes' own build does."""
    found = _KUBERNETES.search((SOURCES / "go.mod").read_text(encoding="utf-8"))
    if found is None:
        raise GoProgramError(f"{SOURCES / 'go.mod'} does not require k8s.io/kubernetes")
    version, major, minor = found.groups()
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {package}.{name}={value}" for package in packages for name, value in values.items())


CONTROL_PLANE: Final = GoProgram("controlplane", SOURCES, ldflags=f"-s -w {_version_flags()}")
