"""What a reader of README.md and docs/ pastes into a shell, as it stands there, on a real cluster."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from migrator import __version__
from testbed.controlplane.client import eventually
from tests.cluster.helm.wrapper import grove_chart, platform_chart, published, wrapper
from tests.cluster.site import NAMESPACE, NEW, OLD, SECONDS
from tests.e2e import images
from tests.e2e.jobs import pods_of
from tests.e2e.scene import Scene
from tests.golden.operator_build import Program, built
from tests.support.commands import run
from tests.support.pages import blocks
from tests.support.paths import ROOT
from tests.support.shell import Shell

pytestmark = [pytest.mark.kind, pytest.mark.timeout(600)]

#: The release that the pages upgrade to.
TARGET: Final = "v0.1.0-alpha.12-rc1"
#: What the chart and the manifests take unless they are told.
OURS: Final = f"grove-migrator:{__version__}"


class Reader(Shell):
    """Somebody in a clone of the repository, with an old operator that runs, and charts of both releases."""

    def __init__(self, scene: Scene, directory: Path) -> None:
        old, new = (grove_chart(directory / tag, tag, tag) for tag in (OLD, TARGET))
        named = {"NAMESPACE": NAMESPACE, "RELEASE": "grove", "CHART": str(new), "VERSION": TARGET}
        named |= {"MIGRATOR": "charts/grove-migrator", "REVISION": "1"}  # the first one has the old operator
        super().__init__(directory / "clone", scene.kind.kubeconfig, **named)
        self.scene, self.old_chart = scene, str(old)
        for name in ("charts", "examples", "manifests"):
            shutil.copytree(ROOT / name, self.directory / name)
        shutil.copy(built(Program()), directory / "grove-operator")
        crane = self.directory / "bin" / "crane"  # there is no registry here
        crane.write_text(f"#!/bin/sh\nexec tar -cC {shlex.quote(str(directory))} grove-operator\n", encoding="utf-8")
        crane.chmod(0o755)

    def pastes(self, page: str, section: str, *numbers: int) -> None:
        """Paste the shell blocks of a section, or those of these numbers; each must succeed."""
        found = blocks(page, section)
        for block in (found[number] for number in numbers) if numbers else found:
            self.paste(block)

    def installs(self, chart: str) -> None:
        """Install a chart of the old release, and wait for its operator."""
        self.scene.succeed("install", self.variables["RELEASE"], chart)
        self.scene.runs_operators(1)


@pytest.fixture(scope="module")
def loaded(prepared: Scene) -> Iterator[None]:
    """The images that the pages name, in the cluster."""
    with images.operators(TARGET) as operators:
        run("docker", "tag", images.OURS, OURS)
        prepared.kind.load([OURS, *operators])
        yield
        run("docker", "image", "rm", OURS)


@pytest.fixture
def reader(helm: Scene, loaded: None, tmp_path: Path) -> Iterator[Reader]:  # noqa: ARG001 - images are there
    """A reader beside sets of the old release, without anything of ours."""
    helm.plant()
    made = Reader(helm, tmp_path)
    yield made
    helm.names += ["grove-migrator", made.variables["RELEASE"]]


def test_helm(reader: Reader, tmp_path: Path) -> None:
    """Look, rehearse, migrate by the chart, upgrade, verify; and back by the chart."""
    reader.installs(reader.old_chart)
    new = Path(reader.variables["CHART"])
    with published(new, tmp_path / "repository") as reader.variables["CHART"], reader.scene.frozen():
        with reader.scene.unharmed():
            reader.pastes("upgrade", "Before")
            reader.pastes("upgrade", "Helm", 0)
            reader.pastes("upgrade", "The CRDs", 2)
            reader.pastes("upgrade", "Helm", 1, 2)
            reader.scene.runs_operators(1, TARGET)
            reader.pastes("upgrade", "After")
        reader.pastes("upgrade", "Going back", 2, 3)
        reader.scene.runs_operators(1, OLD)


def test_from_a_laptop(reader: Reader) -> None:
    """The README's three commands; and back after the new operator has run."""
    reader.installs(reader.old_chart)
    with reader.scene.frozen():
        with reader.scene.unharmed():
            reader.pastes("README", "Use it", 1, 2)
            reader.scene.runs_operators(1, TARGET)
        reader.pastes("upgrade", "Going back", 1, 3)
        reader.scene.runs_operators(1, OLD)


def test_a_release_that_is_not_in_the_table(reader: Reader) -> None:
    """The scheme is read from the operator's program; and back before the new operator has started."""
    reader.installs(reader.old_chart)
    with reader.scene.frozen():
        with reader.scene.unharmed():
            reader.pastes("upgrade", "A release that is not in the table")
        reader.pastes("upgrade", "Going back", 0)
        reader.scene.runs_operators(1, OLD)


def test_kubectl(reader: Reader) -> None:
    """The manifest, with the target that its reader sets, and its removal."""
    manifest = reader.directory / "manifests" / "job.yaml"
    manifest.write_text(manifest.read_text(encoding="utf-8").replace(NEW, TARGET), encoding="utf-8")
    reader.scene.operate(OLD)
    with reader.scene.unharmed():
        reader.pastes("upgrade", "kubectl", 0)
        reader.scene.operate(TARGET)
        reader.pastes("upgrade", "kubectl", 1)


def test_a_hook_of_helm(reader: Reader, tmp_path: Path) -> None:
    """One command migrates and upgrades."""
    reader.variables["WRAPPER"] = str(wrapper("grove", tmp_path, TARGET))
    reader.installs(str(wrapper("grove", tmp_path, OLD)))
    with reader.scene.unharmed():
        reader.pastes("upgrade", "As a hook of Helm")
        reader.scene.runs_operators(1, TARGET)


def test_dynamo(reader: Reader, tmp_path: Path) -> None:
    """Beside Dynamo's chart: migrate, upgrade, verify, and back."""
    old, new = (platform_chart(tmp_path / f"platform-{tag}", tag) for tag in (OLD, TARGET))
    reader.variables |= {"RELEASE": "dynamo-platform", "VERSION": "1.0.0"}
    reader.installs(str(old))
    with published(new, tmp_path / "repository") as reader.variables["CHART"], reader.scene.frozen():
        with reader.scene.unharmed():
            reader.pastes("dynamo", "Bundled Grove", 0, 1, 2, 3, 4)
            reader.scene.runs_operators(1, TARGET)
        reader.pastes("upgrade", "Going back", 2, 3)
        reader.scene.runs_operators(1, OLD)


def test_dynamos_hook(reader: Reader, tmp_path: Path) -> None:
    """A chart around Dynamo's, with our hook: one command."""
    reader.variables |= {"RELEASE": "dynamo-platform", "WRAPPER": str(wrapper("dynamo", tmp_path, TARGET))}
    reader.installs(str(wrapper("dynamo", tmp_path, OLD)))
    with reader.scene.unharmed():
        reader.pastes("dynamo", "Bundled Grove", 5)
        reader.scene.runs_operators(1, TARGET)


def test_when_the_job_is_cut_off(reader: Reader) -> None:
    """The Job is deleted with its pod, so that it can be applied again."""
    reader.scene.grant()
    reader.scene.run()
    try:
        reader.pastes("upgrade", "When the Job is cut off")
        eventually(lambda: not pods_of(reader.scene.client), what="a pod of the Job is left", seconds=SECONDS)
    finally:
        reader.scene.withdraw()
