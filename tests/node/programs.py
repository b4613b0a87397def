"""The Go program of a node: kubelet and kube-scheduler, from the module of the control plane."""

from __future__ import annotations

from typing import Final

from tests.support.controlplane.build import CONTROL_PLANE
from tests.support.go_programs import GoProgram

NODE: Final = GoProgram("node", CONTROL_PLANE.directory, "./node", ldflags=CONTROL_PLANE.ldflags)
