"""What a real node needs of this machine: root, Debian, and programs of a few packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

#: A program, or a file that comes without one, and the Debian package that it is part of.
NEEDED: Final = {
    "buildah": "buildah",
    "containerd": "containerd",
    "ctr": "containerd",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "iptables": "iptables",
    "runc": "runc",
    "/bin/busybox": "busybox-static",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
}


def lacking(*, root: bool | None = None, which: Callable[[str], object] = shutil.which) -> str | None:
    """Why there cannot be a real node here, as one sentence; None if there can be one."""
    if not (os.geteuid() == 0 if root is None else root):
        return "A real node needs root: namespaces, mounts and control groups of its own."
    for program, why in (("apt-get", "installs what it needs"), ("unshare", "lives in namespaces of its own")):
        if which(program) is None:
            return f"A real node {why} with {program}, which is not on PATH."
    return None


def missing(which: Callable[[str], object] = shutil.which) -> list[str]:
    """The packages that are not installed."""
    absent = (package for name, package in NEEDED.items() if not (Path(name).is_file() or which(name)))
    return sorted(set(absent))


def install() -> None:
    """Install the packages that are missing; they stay."""
    packages = missing()
    if not packages:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        subprocess.run(["apt-get", "-qq", *command], env=environment, stdout=sys.stderr, check=True)
