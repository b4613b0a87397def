"""Real helm and kustomize, each built by a go.mod of ours, which names the program as its tool."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from testbed.go_programs import GoProgram

SOURCES: Final = Path(__file__).resolve().parent

PROGRAMS: Final = {
    name: GoProgram(name, SOURCES / name, package)
    for name, package in (
        ("helm3", "helm.sh/helm/v3/cmd/helm"),
        ("helm4", "helm.sh/helm/v4/cmd/helm"),
        ("kustomize", "sigs.k8s.io/kustomize/kustomize/v5"),
    )
}
