"""The Go programs of a node: kubelet and kube-scheduler, from the module of the control plane, and containerd.

Debian's containerd 1.6 mounts no image into a container, which Kubernetes calls an image volume; 2.1 and later do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from testbed.controlplane.build import CONTROL_PLANE
from testbed.go_programs import GoProgram

NODE: Final = GoProgram("node", CONTROL_PLANE.directory, "./node", ldflags=CONTROL_PLANE.ldflags)
CONTAINERD: Final = GoProgram(
    "containerd", Path(__file__).resolve().parent / "containerd", "github.com/containerd/containerd/v2/cmd/containerd"
)
