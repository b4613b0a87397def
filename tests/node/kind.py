"""The commands of KindCluster on a node of our own: the cluster is a `Machine`, operators come from a directory."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from testbed.helm import PROGRAMS
from tests.node import images
from tests.node.cluster import Machine
from tests.node.real import NODE
from tests.upgrade.builds import REPOSITORY, Build
from tests.upgrade.kind.commands import run
from tests.upgrade.kind.stand_in import write_kubeconfig

INITC = "grove-initc"


class OwnNode:
    """Runs the commands of one KindCluster; ``builds`` are the operators whose images the node has."""

    def __init__(self, builds: Sequence[Build], scratch: Path) -> None:
        self._builds, self._scratch = builds, scratch
        self._ends = ExitStack()

    def __call__(self, *argv: str) -> str:
        """Run one command."""
        match argv:
            case ("kind", "create", "cluster", *rest):
                machine = self._ends.enter_context(Machine([images.ours(), *self._archives()]))
                write_kubeconfig(machine.server, rest)
            case ("kind", "delete", *_):
                self._ends.close()
            case ("kind", "load", *_):
                pass  # it has all images from the beginning
            case ("kubectl", *rest):
                return run(str(NODE.binary()), "kubectl", *rest)
            case ("helm", *rest):
                return run(str(PROGRAMS["helm3"].binary()), *rest)
            case _:
                raise ValueError(f"not a command of KindCluster: {argv}")
        return ""

    def _archives(self) -> list[Path]:
        self._scratch.mkdir(parents=True, exist_ok=True)
        found = []
        for build in self._builds:
            binary = build.binary()
            named = {REPOSITORY: build.name, INITC: _version(binary)}
            for name, tag in named.items():
                program = f"/{name}"
                archive = self._scratch / f"{name}-{build.name}.tar"
                image = f"docker.io/library/{name}:{tag}"
                found.append(images.of_program(archive, [image], binary.parent / name, program, [program]))
        return found


def _version(binary: Path) -> str:
    """The version of an operator, which it takes for the tag of its init container's image."""
    printed = subprocess.run([str(binary), "--version"], capture_output=True, text=True, check=True).stdout
    words = printed.replace("{", " ").split()
    return next(word for word in words if word.startswith("v"))
