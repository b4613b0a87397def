"""The Job of manifests/job.yaml in a real container: what becomes of its pod, and of the cluster."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from testbed.controlplane.client import eventually
from tests.cluster.manifests.site import NAMESPACE, made
from tests.node.cluster import SLOW, Ended, Scene

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

SECONDS = 120
MEMORY_STEP = 8  # MiB


def finish(scene: Scene) -> list[Ended]:
    """Wait for the Job's success; its pods, the oldest first."""
    assert scene.result()[0] == "Complete", [(found.name, scene.log(found.name)) for found in scene.ends()]
    return scene.ends()


def test_a_run_migrates_and_its_pod_says_so(scene: Scene) -> None:
    """A plain run: one pod ends with 0, its termination message is the summary, and each set gets an Event."""
    with scene.unharmed():
        scene.run()
        [pod] = finish(scene)
    assert (pod.code, pod.reason) == (0, "Completed")
    log = [json.loads(line) for line in scene.log(pod.name).splitlines() if line.startswith("{")]
    events = [line["event"] for line in log if "dry_run" not in line]
    assert "patched" not in events[: events.index("operator_stopped")]
    assert events.count("patched") == pod.summary["patches"] > 0
    assert events[-1] == "summary"
    assert len(scene.events()) == len(scene.sets())


def test_another_run_has_nothing_to_do(scene: Scene) -> None:
    """Another Job afterwards: it ends with 0 and writes no hash."""
    scene.run()
    finish(scene)
    with scene.frozen():
        scene.run(name="again")
        assert scene.result("again")[0] == "Complete"
    [pod] = scene.ends("again")
    assert (pod.code, pod.summary["patches"]) == (0, 0)


def test_the_container_has_no_rights_and_little_memory(scene: Scene) -> None:
    """128 MiB, a read-only root, a foreign user, no capabilities, seccomp: the run succeeds."""
    with scene.unharmed():
        scene.run(memory="128Mi", more=SLOW)
        process = Path("/proc") / str(scene.machine.node.main_process(container_id(scene)))
        status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
        mounts = [line.split() for line in (process / "mounts").read_text().splitlines()]
        [pod] = finish(scene)
    assert pod.code == 0
    assert status["Uid"].split() == ["65532"] * 4
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert [mount[3].split(",")[0] for mount in mounts if mount[1] == "/"] == ["ro"]


def test_an_unknown_release_fails_the_job_at_once(scene: Scene) -> None:
    """An unknown release: 2, which podFailurePolicy takes for final, one pod, nothing written, the operator runs."""
    with scene.frozen():
        scene.run(to="v9.9.9")
        assert scene.result() == ("Failed", "PodFailurePolicy")
    [pod] = scene.ends()
    assert (pod.code, pod.reason) == (2, "Error")
    assert "v9.9.9" in pod.message
    assert scene.site.replicas() == 1


def test_a_refusal_fails_the_job_at_once(scene: Scene) -> None:
    """A pod whose hash no operator computed: 3, one pod, nothing written, the operator runs."""
    pod = scene.pods_of_sets()[0]
    scene.client.patch(pod, {"metadata": {"labels": {"grove.io/pod-template-hash": "zzzz"}}})
    with scene.frozen():
        scene.run()
        assert scene.result() == ("Failed", "PodFailurePolicy")
    [refused] = scene.ends()
    assert (refused.code, refused.reason) == (3, "Error")
    assert refused.summary["code"] == "refused"
    assert scene.site.replicas() == 1


def test_a_killed_container_is_followed_by_one_that_finishes(scene: Scene) -> None:
    """SIGKILL in mid-write: the pod fails with 137, and the Job's next pod finishes."""
    with scene.in_mid_write():
        os.kill(scene.machine.node.main_process(container_id(scene)), signal.SIGKILL)
        eventually(scene.ends, what="the killed pod has not ended", seconds=SECONDS)
        scene.site.shorten()
        first, *_, last = finish(scene)
    assert (first.code, last.code) == (137, 0)


def test_a_deleted_pod_is_followed_by_one_that_finishes(scene: Scene) -> None:
    """The pod is deleted in mid-write: the run is asked to end, and the Job's next pod finishes."""
    with scene.in_mid_write() as pod:
        scene.client.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}")
        *_, last = finish(scene)
    assert last.code == 0
    assert last.name != pod["metadata"]["name"]


def test_an_evicted_pod_is_not_counted_and_another_finishes(scene: Scene) -> None:
    """Eviction in mid-write, as kubectl drain asks for it: no failure is counted, and the next pod finishes."""
    with scene.in_mid_write() as pod:
        name = pod["metadata"]["name"]
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}}
        scene.client.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction", eviction)
        *_, last = finish(scene)
    assert last.code == 0
    assert last.name != name
    assert not scene.site.job()["status"].get("failed")


def test_too_little_memory_is_a_failure_that_is_tried_again(scene: Scene) -> None:
    """A memory limit a little too low: OOMKilled, counted, another pod follows, and a Job with more memory finishes.

    The limit is found by bisection between one that is too low and one that is enough.
    """
    low, enough = 40, 64
    while enough - low > MEMORY_STEP:
        tried = (low + enough) // 2
        scene.begin()
        scene.run(memory=f"{tried}Mi")
        eventually(scene.ends, what=f"no pod with {tried} MiB has ended", seconds=SECONDS)
        low, enough = (low, tried) if scene.ends()[0].code == 0 else (tried, enough)
    scene.begin()
    scene.remark = f"{low} MiB; {enough} are enough"
    with scene.unharmed():
        scene.run(memory=f"{low}Mi")
        eventually(lambda: len(scene.pods()) > 1, what="no second pod", seconds=SECONDS)
        first = scene.ends()[0]
        assert scene.site.job()["status"]["failed"] >= 1
        scene.delete_jobs()
        scene.run()
        *_, last = finish(scene)
    assert (first.code, first.reason) == (137, "OOMKilled")
    assert last.code == 0


def test_the_run_outlives_kubelet(scene: Scene) -> None:
    """Kubelet is killed in mid-write and started again: the container goes on, and its end is reported."""
    with scene.in_mid_write():
        scene.machine.node.kill_kubelet()
        eventually(lambda: scene.written() == len(scene.pods_of_sets()), what="the run stopped", seconds=SECONDS)
        scene.machine.node.start_kubelet()
        [pod] = finish(scene)
    assert pod.code == 0


def test_a_node_that_crashes_is_followed_by_a_pod_that_finishes(scene: Scene) -> None:
    """Everything on the node ends at once in mid-write: when it is back, the pod has failed and the next finishes."""
    with scene.in_mid_write():
        scene.machine.node.crash()
        written = scene.written()
        scene.site.expire()
        scene.machine.node.start()
        first, *_, last = finish(scene)
    assert 0 < written < len(scene.pods_of_sets())
    assert (first.code, first.reason, last.code) == (255, "Unknown", 0)


def test_a_restart_of_the_api_server_is_waited_out(scene: Scene) -> None:
    """The API server ends in mid-write and comes back: the run ends with 0, in its pod or in the next one."""
    with scene.in_mid_write():
        scene.machine.server.restart()
        eventually(scene.ends, what="the run goes on for ever", seconds=SECONDS)
        if scene.ends()[0].code:
            scene.site.expire()
        *_, last = finish(scene)
    assert last.code == 0


def test_two_jobs_do_no_more_than_one(scene: Scene) -> None:
    """A second Job beside the first: it waits or gives way, one of them migrates, and no value is wrong."""
    with scene.in_mid_write():
        scene.run(name="second")
        *_, first = finish(scene)
        assert scene.result("second")[0] == "Complete"
    assert first.code == 0
    assert scene.ends("second")[-1].code == 0


def test_the_job_passes_pod_security_restricted(scene: Scene) -> None:
    """Pod Security "restricted" is enforced: the Job's pod is admitted and succeeds, and a plain pod is not."""
    namespace = made("v1", "Namespace", NAMESPACE, None)
    label = "pod-security.kubernetes.io/enforce"
    plain = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "x", "image": "busybox:1.36"}]}}

    def refused() -> bool:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        return scene.client.request("POST", path, plain, query={"dryRun": "All"}).status == 403

    scene.client.patch(namespace, {"metadata": {"labels": {label: "restricted"}}})
    try:
        eventually(refused, what="a plain pod is admitted", seconds=SECONDS)
        with scene.unharmed():
            scene.run()
            [pod] = finish(scene)
    finally:
        scene.client.patch(namespace, {"metadata": {"labels": {label: None}}})
    assert pod.code == 0


def container_id(scene: Scene) -> str:
    """The id of the container that runs for the Job."""
    [container] = scene.running()["status"]["containerStatuses"]
    return str(container["containerID"])
