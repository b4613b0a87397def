"""The Job of manifests/job.yaml on a real node: what becomes of its pod, and of the cluster."""

from __future__ import annotations

import json

import pytest

from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from tests.e2e.jobs import JOB, ends_of, result_of
from tests.e2e.scene import Scene

pytestmark = [pytest.mark.kind, pytest.mark.timeout(600)]


def test_a_run_migrates_and_a_second_one_has_nothing_to_do(scene: Scene) -> None:
    """A plain run: its pod ends with the summary, the operator was stopped first, and another Job writes nothing.

    The cluster has no DNS that works on a machine without a registry, so none is needed.
    """
    with scene.unharmed():
        scene.run()
        [pod] = scene.finish()
    assert pod.code == 0
    assert pod.reason == "Completed"
    events = [line["event"] for line in map(json.loads, pod.events) if "dry_run" not in line]
    assert "patched" not in events[: events.index("operator_stopped")]
    assert events.count("patched") == pod.summary["patches"] > 0
    assert scene.replicas() == 0
    with scene.frozen():
        scene.run(name="again")
        [pod] = scene.finish("again")
    assert pod.code == 0
    assert pod.summary["patches"] == 0


def test_a_refusal_fails_the_job_at_once(scene: Scene) -> None:
    """A pod whose hash no operator computed: 3, one pod, nothing written, the operator runs."""
    scene.client.patch(scene.pods()[0], {"metadata": {"labels": {LABEL_POD_TEMPLATE_HASH: "zzzz"}}})
    with scene.frozen():
        scene.run(wait="1s")
        assert result_of(scene.client) == ("Failed", "PodFailurePolicy")
    [pod] = ends_of(scene.client)
    assert pod.code == 3
    assert pod.summary["code"] == "refused"
    assert scene.replicas() == 1


def test_a_drained_node_fails_no_job(scene: Scene) -> None:
    """Kubectl drain in mid-write: every set that was begun is finished, and no failure is counted."""
    with scene.in_mid_write():
        chosen = f"--pod-selector=batch.kubernetes.io/job-name={JOB}"
        scene.kind.kubectl("drain", scene.kind.node, chosen, "--ignore-daemonsets", "--timeout=2m")
        scene.kind.kubectl("uncordon", scene.kind.node)
        scene.hurry()
        scene.finish()
    assert scene.written() == len(scene.pods())
    assert not scene.job()["status"].get("failed")
