"""Debian's packages for an engine and for images: unpacked into directories of ours, and never installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from testbed.kind import home

_SUITE: Final = "bookworm"
#: The engine, what fills a root directory, and a shell for stand-ins of images.
_PACKAGES: Final = ("docker.io", "containerd", "runc", "iptables", "iproute2", "debootstrap", "busybox-static")
# What a command mounts or starts ends with it, also when it is killed.
_ALONE: Final = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
#: As in published slim images: nothing that only people read, and nothing of apt's.
_LEFT_OUT: Final = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt", "var/lib/apt/lists", "dev")


def lacking() -> str | None:
    """Why there cannot be an engine of ours on this machine, as one sentence; None if there can be one."""
    if os.geteuid() != 0:
        return "An engine of its own needs root: namespaces, mounts and control groups."
    for program in ("apt-get", "dpkg", "unshare", "setpriv"):
        if shutil.which(program) is None:
            return f"An engine of its own needs {program}, which is not on PATH."
    return None


def engine() -> Path:
    """The root directory of the unpacked engine, downloaded if it is not kept from before."""
    kept = home() / f"engine-{_SUITE}"
    if kept.is_dir():
        return kept
    with tempfile.TemporaryDirectory(dir=home()) as scratch:
        archives, root = Path(scratch) / "archives", Path(scratch) / "root"
        (archives / "partial").mkdir(parents=True)
        root.mkdir()
        _apt("update")
        _apt("install", "--download-only", "--reinstall", "--yes", "--no-install-recommends",
             f"--option=Dir::Cache::archives={archives}", "--option=Debug::NoLocking=1",
             "--option=APT::Sandbox::User=root", *_PACKAGES)  # fmt: skip
        for package in archives.glob("*.deb"):
            subprocess.run(["dpkg", "--extract", package, root], check=True)
        root.rename(kept)
    return kept


def root(made: Path, packages: Sequence[str]) -> None:
    """Make a root directory of a small Debian with these packages: a minute or more."""
    program = engine()
    command = ["sh", program / "usr/sbin/debootstrap", "--variant=minbase", f"--include={','.join(packages)}"]
    environment = {**os.environ, "DEBOOTSTRAP_DIR": str(program / "usr/share/debootstrap")}
    subprocess.run([*_ALONE, *command, _SUITE, made], env=environment, stdout=sys.stderr, check=True)
    for directory in _LEFT_OUT:
        shutil.rmtree(made / directory, ignore_errors=True)
        (made / directory).mkdir(exist_ok=True)


def _apt(*arguments: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "-qq", *arguments], env=environment, stdout=sys.stderr, check=True)
