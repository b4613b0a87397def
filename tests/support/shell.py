"""A shell at a cluster, as a reader of the pages has it: real kubectl and helm on PATH, and the pages' variables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from testbed.controlplane.server import KUBERNETES
from testbed.helm import PROGRAMS

_SECONDS: Final = 300
#: Helm 4.2.1 to 4.2.3 print on stdout what they have pulled from a registry (Helm issue 32215).
_CHATTY: Final = """#!/bin/sh
case "$1" in pull | show | template) printf 'Pulled: registry.example/grove-charts:1\\nDigest: sha256:0\\n' ;; esac
exec {helm} "$@"
"""
#: How Helm may be on PATH: each line of versions, the newer one printing more than it is asked for.
HELMS: Final = ("helm3", "helm4 that prints what it pulls")


class Shell:
    """Somebody in an empty directory, whose kubectl and helm talk to one cluster; ``variables`` are exported."""

    def __init__(self, directory: Path, kubeconfig: Path, *, helm: str = "helm3", **variables: str) -> None:
        self.directory = directory
        programs = directory / "bin"
        programs.mkdir(parents=True)
        (programs / "kubectl").symlink_to(KUBERNETES.binary())
        (programs / "grove-migrator").symlink_to(Path(sys.executable).with_name("grove-migrator"))
        name, _, prints_more = helm.partition(" ")
        binary = PROGRAMS[name].binary()
        if prints_more:
            (programs / "helm").write_text(_CHATTY.format(helm=binary), encoding="utf-8")
            (programs / "helm").chmod(0o755)
        else:
            (programs / "helm").symlink_to(binary)
        self.variables = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(directory),
            "TMPDIR": str(directory),
            "KUBECONFIG": str(kubeconfig),
            **variables,
        }

    def paste(self, block: str) -> str:
        """Paste commands, each of which must succeed; returns what they print on both streams."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail"],
            input=block,
            env=self.variables,
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}"
        return done.stdout
