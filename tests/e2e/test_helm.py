"""Our chart on a real node: a release of its own, and the hook in a wrapper chart, by real Helm."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from testbed.kind import archives
from tests.cluster.helm.wrapper import OPERATOR, OURS, settings, wrapper
from tests.cluster.site import NEW, OLD
from tests.e2e import images
from tests.e2e.jobs import ends_of
from tests.e2e.scene import Scene
from tests.golden.operator_build import Program, built
from tests.support.commands import run

pytestmark = [pytest.mark.kind, pytest.mark.timeout(600)]

REPLICAS = 2


def ours(prefix: str = "") -> list[str]:
    """Values that name our image, below a prefix."""
    repository, _, tag = images.OURS.rpartition(":")
    return settings([f"{prefix}image.repository={repository}", f"{prefix}image.tag={tag}"])


def upgrade(directory: Path, release: str, *more: str) -> list[str]:
    """The command that installs the wrapper chart of examples/helm/grove with an operator, or upgrades to it."""
    chart = directory / f"grove-{release}"
    found = chart if chart.is_dir() else wrapper("grove", directory, release)
    values = settings([f"grove.replicaCount={REPLICAS}"])
    return ["upgrade", "--install", "grove", str(found), *values, *ours("grove-migrator."), *more]


def hooked(helm: Scene, directory: Path) -> None:
    """Install the wrapper chart with the old operator, and create sets as it leaves them."""
    helm.plant()
    helm.succeed(*upgrade(directory, OLD))
    helm.runs_operators(REPLICAS)


def test_the_target_is_read_from_its_image(helm: Scene, tmp_path: Path) -> None:
    """The chart with the next operator's image as a volume: the kubelet mounts it, and its binary names the target."""
    image = "next-operator:ours"
    archive = archives.of_program(tmp_path / "next.tar", [image], built(Program()), "/grove-operator")
    run("docker", "load", "--input", str(archive))
    helm.kind.load([image])
    helm.plant()
    helm.succeed("install", "grove", str(OPERATOR), *settings([f"image.tag={OLD}"]))
    helm.runs_operators(1)
    with helm.unharmed():
        helm.succeed("install", "grove-migrator", str(OURS), *settings([f"targetBinary.image={image}"]), *ours())
        [pod] = helm.finish()
    assert pod.code == 0
    assert pod.summary["outcome"] == "done"


def test_a_refused_hook_leaves_the_old_operator(helm: Scene, tmp_path: Path) -> None:
    """Helm's hook is refused: one pod ends with 3, Helm fails and prints why, and the old operator is not touched."""
    hooked(helm, tmp_path)
    helm.client.patch(helm.pods()[0], {"metadata": {"labels": {LABEL_POD_TEMPLATE_HASH: "zzzz"}}})
    operators = {item["metadata"]["uid"] for item in helm.operators()}
    with helm.frozen():  # with so little time for Helm, the hook does not wait for an update in flight
        done = helm.helm(*upgrade(tmp_path, NEW, *settings(["grove-migrator.helmTimeout=20m"])))
    [refused] = ends_of(helm.client)
    assert done.returncode != 0
    assert refused.code == 3
    assert "zzzz" in refused.log
    assert helm.tag() == OLD
    assert {item["metadata"]["uid"] for item in helm.operators()} == operators


@pytest.mark.slow  # five minutes of waiting
def test_an_image_that_cannot_be_pulled_ends_the_hook(helm: Scene, tmp_path: Path) -> None:
    """Helm fails after the five minutes of the Job that only starts the image, and nothing is touched before."""
    hooked(helm, tmp_path)
    operators = {item["metadata"]["uid"] for item in helm.operators()}
    with helm.frozen():
        done = helm.helm(*upgrade(tmp_path, NEW, *settings(["grove-migrator.image.tag=missing"])))
    assert done.returncode != 0, done.stderr
    assert ends_of(helm.client) == [], done.stderr
    assert helm.tag() == OLD
    assert {item["metadata"]["uid"] for item in helm.operators()} == operators


def test_a_hook_outlives_helms_patience(helm: Scene, tmp_path: Path) -> None:
    """Helm gives up before its hook: the Job keeps its rights and migrates, and the same command upgrades then."""
    hooked(helm, tmp_path)
    with helm.slow(), helm.unharmed():
        assert helm.helm(*upgrade(tmp_path, NEW, "--timeout=6s")).returncode != 0
        assert ends_of(helm.client) == [], "the Job was faster than Helm"
        [pod] = helm.finish()
    assert pod.code == 0
    assert helm.tag() == OLD
    assert helm.replicas() == 0
    helm.succeed(*upgrade(tmp_path, NEW))
    helm.runs_operators(REPLICAS, NEW)
