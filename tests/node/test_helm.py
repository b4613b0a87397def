"""Our chart on a real node: a release of its own, and the hook of the wrapper chart, by real Helm."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from testbed.controlplane.client import eventually
from tests.cluster.helm.cluster import RIGHTS, Cluster
from tests.cluster.helm.wrapper import OPERATOR, packed, wrapper
from tests.cluster.manifests.site import NEW, OLD
from tests.node import images
from tests.node.cluster import Scene
from tests.node.test_job import SECONDS, container_id
from tests.oracle.operator_build import Program, built

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

REPLICAS = 2
SLOW = ("--set", "grove-migrator.extraArguments={--concurrency=1}")  # so that a run can be caught among its writes


@pytest.fixture
def helm(prepared: Scene, tmp_path: Path) -> Iterator[Cluster]:
    """The cluster without anything of ours; afterwards the rights and policies of manifests/job.yaml are back."""
    found = Cluster(prepared.site, tmp_path)
    prepared.clear()
    found.clear()
    yield found
    prepared.delete_jobs()
    found.clear()
    prepared.site.grant()


@pytest.fixture
def hooked(helm: Cluster, recorded: Scene) -> Cluster:
    """The wrapper chart of examples/helm/grove, with the old operator and sets as it leaves them."""
    begin(helm, recorded, wrapper("grove", helm.directory, OLD), *replicas())
    return helm


def begin(helm: Cluster, scene: Scene, chart: Path, *settings: str) -> None:
    """Install an operator, and create sets as it leaves them."""
    helm.succeed("install", "grove", str(chart), *settings)
    scene.runs_operators(REPLICAS)
    scene.plant()


def replicas() -> tuple[str, str]:
    """So many replicas of the operator."""
    return "--set", f"grove.replicaCount={REPLICAS}"


def upgrade(helm: Cluster, *more: str) -> list[str]:
    """The command that upgrades the wrapper's release to the next operator."""
    chart = helm.directory / f"grove-{NEW}"
    found = chart if chart.is_dir() else wrapper("grove", helm.directory, NEW)
    return ["upgrade", "grove", str(found), *replicas(), *more]


def test_the_charts_job_migrates(helm: Cluster, recorded: Scene) -> None:
    """The chart as a release of its own: Helm returns when its Job's pod has ended with 0."""
    begin(helm, recorded, OPERATOR, *helm.grove(f"image.tag={OLD}"))
    with recorded.unharmed():
        chart = str(packed(helm.directory / "packed"))
        helm.succeed("install", "grove-migrator", chart, "--set", f"target={NEW}")
        assert recorded.result()[0] == "Complete"
    [pod] = recorded.ends()
    assert (pod.code, pod.summary["outcome"], recorded.site.replicas()) == (0, "done", 0)


def test_the_target_is_read_from_its_image(helm: Cluster, recorded: Scene, tmp_path: Path) -> None:
    """The chart with the next operator's image as a volume: the kubelet mounts it, and its binary names the target."""
    image = "example.test/next-operator:ours"
    binary = built(Program())  # of the Kubernetes minor of NEW
    archive = images.of_program(tmp_path / "next.tar", [image], binary, "/manager", ["/manager"])
    recorded.machine.node.load(archive)
    begin(helm, recorded, OPERATOR, *helm.grove(f"image.tag={OLD}"))
    with recorded.unharmed():
        chart = str(packed(helm.directory / "packed"))
        helm.succeed("install", "grove-migrator", chart, "--set", f"targetBinary.image={image}")
        assert recorded.result()[0] == "Complete"
    [pod] = recorded.ends()
    assert (pod.code, pod.summary["outcome"]) == (0, "done")


def test_the_hook_migrates_and_the_new_operator_runs(hooked: Cluster, recorded: Scene) -> None:
    """Helm's hook: one command stops the old operator, migrates, and starts as many replicas of the new one."""
    with recorded.unharmed():
        hooked.succeed(*upgrade(hooked))
    [pod] = recorded.ends()
    assert (pod.code, pod.summary["outcome"], hooked.tag()) == (0, "done", NEW)
    recorded.runs_operators(REPLICAS)
    assert hooked.ours(RIGHTS, "ClusterRole") == []


def test_a_refused_hook_leaves_the_old_operator(hooked: Cluster, recorded: Scene) -> None:
    """Helm's hook is refused: one pod ends with 3, Helm fails and prints why, and the old operator is not touched."""
    pod = recorded.pods_of_sets()[0]
    recorded.client.patch(pod, {"metadata": {"labels": {"grove.io/pod-template-hash": "zzzz"}}})
    operators = {item["metadata"]["uid"] for item in recorded.site.operators()}
    with recorded.frozen():
        done = hooked.do(*upgrade(hooked))
    assert done.returncode != 0
    assert "GM-101" in done.stdout + done.stderr
    [refused] = recorded.ends()
    assert (refused.code, recorded.result()) == (3, ("Failed", "PodFailurePolicy"))
    assert (hooked.tag(), {item["metadata"]["uid"] for item in recorded.site.operators()}) == (OLD, operators)


def test_a_killed_hook_is_finished_by_the_next_pod(hooked: Cluster, recorded: Scene) -> None:
    """Helm's hook is killed in mid-write: Helm waits on, the Job's next pod finishes, and the upgrade goes on."""
    with recorded.unharmed(), ThreadPoolExecutor(1) as pool:
        upgraded = pool.submit(hooked.do, *upgrade(hooked, *SLOW))
        recorded.writing()
        os.kill(recorded.machine.node.main_process(container_id(recorded)), signal.SIGKILL)
        eventually(recorded.ends, what="the killed pod has not ended", seconds=SECONDS)
        recorded.site.expire()
        done = upgraded.result()
    assert done.returncode == 0, done.stderr
    first, *_, last = recorded.ends()
    assert (first.code, last.code, hooked.tag()) == (137, 0, NEW)
    recorded.runs_operators(REPLICAS)


def test_a_hook_outlives_helms_patience(hooked: Cluster, recorded: Scene) -> None:
    """Helm gives up before its hook: the Job keeps its rights and migrates, and the same command upgrades then."""
    with recorded.unharmed():
        gave_up = hooked.do(*upgrade(hooked, *SLOW, "--timeout=6s"))
        assert gave_up.returncode != 0
        assert hooked.jobs()["grove-migrator"] == "", "the Job was faster than Helm"
        assert recorded.result()[0] == "Complete"
    assert [pod.code for pod in recorded.ends()] == [0]
    assert (hooked.tag(), recorded.site.replicas()) == (OLD, 0)
    hooked.succeed(*upgrade(hooked))
    assert hooked.tag() == NEW
    recorded.runs_operators(REPLICAS)
    eventually(lambda: hooked.ours(RIGHTS, "ClusterRole") == [], what="rights are left", seconds=SECONDS)
