"""The Job of manifests/job.yaml on a real node that is drained; tests/e2e/test_helm.py has its plain ends."""

from __future__ import annotations

import pytest

from testbed.controlplane.client import eventually
from tests.cluster.site import NAMESPACE, OLD, SECONDS
from tests.e2e.jobs import JOB
from tests.e2e.scene import Scene

pytestmark = [pytest.mark.kind, pytest.mark.timeout(600)]


def test_a_drained_node_fails_no_job(scene: Scene) -> None:
    """Kubectl drain in mid-write: every set that was begun is finished, and no failure is counted."""
    scene.stop_operator()
    scene.clear()
    scene.plant()
    scene.operate(OLD)
    with scene.slow(), scene.unharmed():
        scene.run()
        eventually(lambda: scene.written() > 0, what="nothing is written", seconds=SECONDS)
        assert scene.written() < len(scene.pods()), "the run has written everything already"
        chosen = f"--pod-selector=batch.kubernetes.io/job-name={JOB}"
        scene.kind.kubectl("drain", scene.kind.node, chosen, "--ignore-daemonsets", "--timeout=2m")
        scene.kind.kubectl("uncordon", scene.kind.node)
        scene.hurry()
        scene.finish()
    assert scene.written() == len(scene.pods())
    assert not scene.client.get("batch/v1", "Job", JOB, NAMESPACE)["status"].get("failed")
