"""kind in its pinned version, and what it needs on a machine that has neither Docker nor a registry.

``engine`` runs Docker in namespaces of its own, ``node_image`` makes the image that nodes run, ``debian`` has the
packages for both, ``archives`` writes images that nobody pulls, and ``traces`` removes what an engine leaves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from testbed.go_programs import GoProgram, cache_directory

_GO: Final = Path(__file__).resolve().parent / "go"
#: Pinned by go.mod: a later kind may refuse control groups of version 1.
KIND: Final = GoProgram("kind", _GO / "kind", "sigs.k8s.io/kind")
#: For a node: Debian's containerd 1.6 lacks commands that kind gives, and cannot mount an image into a container.
CONTAINERD: Final = tuple(
    GoProgram(name, _GO / "containerd", f"github.com/containerd/containerd/v2/cmd/{name}")
    for name in ("containerd", "containerd-shim-runc-v2", "ctr")
)
#: What nodes run where images can be pulled: the default of kind 0.30.0 (pkg/apis/config/defaults/image.go).
PUBLISHED: Final = "kindest/node:v1.34.0@sha256:7416a61b42b1662ca6ca89f02028ac133a309a2a30ba309614e8ec94d976dc5a"
#: What nodes run where they cannot.
OWN: Final = "kindest/node:own"
#: What a pod of a workload runs.
BUSYBOX: Final = "busybox:1.36"


def home() -> Path:
    """Where images and packages are kept between runs; they are never published."""
    found = cache_directory() / "kind"
    found.mkdir(parents=True, exist_ok=True)
    return found
