"""A shell in which a test runs the commands of a page as they stand, with real helm and kubectl."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from testbed.helm import PROGRAMS
from tests.cluster.helm.cluster import Cluster
from tests.cluster.helm.wrapper import packed
from tests.cluster.manifests.site import MANIFESTS
from tests.support.paths import ROOT

#: The target of the pages' examples.
NEW: Final = "v0.1.0-alpha.12-rc1"


def shell(block: str, directory: Path, **environment: str) -> None:
    """Run one block in a directory, with kubectl and the system's own programs on PATH; it must succeed."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl on PATH")
    programs = directory / "bin"
    programs.mkdir(exist_ok=True)
    if not (programs / "kubectl").exists():
        (programs / "kubectl").symlink_to(kubectl)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=directory,
        env={"PATH": f"{programs}{os.pathsep}/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"


class Reader:
    """Somebody who copies blocks of a page into a shell, where the page's variables are set."""

    def __init__(self, cluster: Cluster, helm: str, **variables: str) -> None:
        self.cluster = cluster
        self._home = cluster.directory / "reader"
        programs = self._home / "bin"
        shutil.copytree(MANIFESTS, self._home / "manifests")
        job = self._home / "manifests" / "job.yaml"
        job.write_text(job.read_text(encoding="utf-8").replace("v0.1.0-alpha.11", NEW), encoding="utf-8")
        programs.mkdir()
        (programs / "helm").symlink_to(PROGRAMS[helm].binary())
        ours = programs / "grove-migrator"
        ours.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m migrator "$@"\n', encoding="utf-8")
        ours.chmod(0o755)
        self._environment = {
            "HOME": str(cluster.directory),
            "KUBECONFIG": str(cluster.site.server.kubeconfig),
            "NAMESPACE": cluster.site.namespace,
            "MIGRATOR": str(packed(cluster.directory / "packed")),
            **variables,
        }
        cluster.releases += ["grove-migrator", variables["RELEASE"]]

    def type(self, block: str) -> None:
        """Run one block; it must succeed."""
        shell(block, self._home, **self._environment)
