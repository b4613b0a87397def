"""The chart's hook in the release of an operator: real helm runs it before every upgrade, and does what it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from testbed.controlplane.client import MERGE_PATCH, Object, eventually
from tests.cluster.helm.release import Release, Way, hooks
from tests.cluster.manifests.audit import Audit, used
from tests.cluster.manifests.site import NAMESPACE, NEW, OLD, WORKLOADS, documents, grants

pytestmark = pytest.mark.controlplane

HELM_3: Final = Way("helm3")
HELM_4: Final = Way("helm4")
GRANTS: Final = grants(documents("base/rbac.yaml"))


@pytest.fixture
def hooked(release: Release) -> Release:
    """A release with our chart's hook."""
    release.hooks = hooks()
    return release


@pytest.fixture
def frozen(release: Release) -> Iterator[Any]:
    """A way to let nobody write the generation hash of one set, in the middle of a run's writes."""
    admin = release.site.admin
    policies = _freezing("frozen")

    def freeze() -> None:
        for item in policies:
            admin.create(item)
        eventually(lambda: _write_generation_hash(release) == 403, what="the policy is not in force")

    def unfreeze() -> None:
        for item in policies:
            admin.delete(item)
        eventually(lambda: _write_generation_hash(release) == 200, what="the policy is still in force")

    yield freeze, unfreeze
    for item in policies:
        admin.delete(item)


def kept(release: Release) -> set[str]:
    """The kinds of which there is an object of ours, the Job aside."""
    expected = [item for item in documents("job.yaml") if item["kind"] != "Job"]
    found = set()
    for item in expected:
        name, namespace = item["metadata"]["name"], item["metadata"].get("namespace")
        items = release.site.admin.list(item["apiVersion"], item["kind"], namespace)
        found |= {item["kind"] for other in items if other["metadata"]["name"] == name}
    return found


def undisturbed(release: Release) -> Object:
    """What is the same after an upgrade that did not begin: the operator's Deployment and its pods."""
    deployment = release.deployment()
    return {
        "generation": deployment["metadata"]["generation"],
        "managers": release.managers(),
        "pods": sorted(pod["metadata"]["uid"] for pod in release.site.operators()),
    }


def job(release: Release) -> Object:
    """The Job's status, with the type of its last condition as ``over``."""
    status: Object = release.site.admin.get("batch/v1", "Job", "grove-migrator", NAMESPACE)["status"]
    over = [c["type"] for c in status.get("conditions", ()) if c["type"] in {"Complete", "Failed"}]
    return {**status, "over": over[-1] if over else None}


def attempts(release: Release) -> list[tuple[int, Object]]:
    """Exit code and summary of each pod of the Job that has ended, the first one first; a killed one has no summary."""
    pods = release.site.admin.list("v1", "Pod", NAMESPACE, selector="job-name=grove-migrator")
    states = [container["state"] for pod in pods for container in pod["status"].get("containerStatuses", ())]
    ended = [state["terminated"] for state in states if "terminated" in state]
    ended.sort(key=lambda state: state["finishedAt"])
    return [(state["exitCode"], _summary(state["message"])) for state in ended]


def _summary(message: str) -> Object:
    found: Object = json.loads(message) if message.startswith("{") and message.count("\n") == 1 else {}
    return found


@pytest.mark.parametrize("helm", [HELM_3, HELM_4], ids=["helm3", "helm4"])
def test_the_hook_migrates_and_the_upgrade_starts_the_new_operator(hooked: Release, audit: Audit, helm: Way) -> None:
    """One command: old operator stopped, every hash translated, new operator with as many replicas as before.

    Nothing runs at the installation, and an upgrade to the same release leaves its operator in peace. Afterwards only
    the Job is left of the hook. The audit log knows of no request of its account that the chart does not grant.
    """
    hooked.install(helm, OLD)
    assert hooked.kubelet.containers == []
    hooked.site.plant()
    before = hooked.site.objects()
    hooked.upgrade_to(helm, NEW)
    assert hooked.site.objects() == hooked.site.expected(before, OLD, NEW)
    [(code, summary)] = attempts(hooked)
    assert (code, summary["outcome"], job(hooked)["over"]) == (0, "done", "Complete")
    assert hooked.deployment()["spec"]["replicas"] == 2
    hooked.wait_for_pods()
    assert "grove-migrator" not in hooked.managers()
    assert kept(hooked) == set(), "rights and policies have outlived the upgrade"
    running = undisturbed(hooked)
    hooked.upgrade_to(helm, NEW)
    assert [code for code, _ in attempts(hooked)] == [0]
    assert undisturbed(hooked)["pods"] == running["pods"]
    assert used(audit.requests(), GRANTS) < set(GRANTS)


@pytest.mark.parametrize("helm", [pytest.param(HELM_3, marks=pytest.mark.slow), HELM_4], ids=["helm3", "helm4"])
def test_a_refused_run_stops_helm_and_never_disturbs_the_operator(hooked: Release, helm: Way) -> None:
    """An update is in flight: exit 3, one attempt, Helm fails, the old operator's pods and Deployment are untouched.

    A pod of the older template is left. Helm prints why, because the hook asks it to print a failed hook's log.
    Once the operator has finished the update, the same command upgrades.
    """
    hooked.install(helm, OLD)
    hooked.site.plant()
    running = undisturbed(hooked)
    ended = hooked.site.objects()["PodCliqueSet", "web"]["status"]["updateProgress"]["updateEndedAt"]
    label = _set_pods_hash(hooked, "0lder")
    _set_update_end(hooked, None)
    before = hooked.site.objects()
    refused = hooked.upgrade(helm, NEW)
    assert refused.returncode != 0
    assert "pre-upgrade" in refused.stderr
    assert "GM-102" in refused.stdout + refused.stderr
    [(code, summary)] = attempts(hooked)
    assert (code, job(hooked)["over"]) == (3, "Failed")
    assert "GM-102" in summary["message"]
    assert (hooked.site.objects(), undisturbed(hooked)) == (before, running)
    assert [name for name in hooked.site.names("ConfigMap") if name.startswith("grove-migrator")] == []
    _set_update_end(hooked, ended)
    _set_pods_hash(hooked, label)
    hooked.upgrade_to(helm, NEW)
    assert [code for code, _ in attempts(hooked)] == [0]


def test_a_run_that_is_killed_is_finished_by_the_jobs_next_pod(hooked: Release) -> None:
    """SIGKILL in the middle of its writes: Helm goes on waiting, another pod finishes, the upgrade goes through."""
    hooked.hooks = hooks("--qps=20", "--request-timeout=5s")
    hooked.install(HELM_4, OLD)
    hooked.site.plant()
    before = hooked.site.objects()
    after = hooked.site.expected(before, OLD, NEW)
    with ThreadPoolExecutor(1) as pool:
        upgrade = pool.submit(hooked.upgrade, HELM_4, NEW)
        eventually(lambda: hooked.site.objects() != before, what="nothing was written", seconds=180)
        hooked.kubelet.containers[0].kill()
        eventually(lambda: [code for code, _ in attempts(hooked)] == [137], what="the pod was not killed", seconds=180)
        hooked.site.expire()
        halfway = hooked.site.objects()
        assert halfway not in (before, after)
        assert hooked.deployment()["spec"]["replicas"] == 0
        upgraded = upgrade.result()
    assert upgraded.returncode == 0, upgraded.stderr
    assert hooked.site.objects() == after
    killed, *others, last = (code for code, _ in attempts(hooked))
    assert (killed, last) == (137, 0)
    assert set(others) <= {1, 4, 6}, "on a slow machine an attempt may lose the Lease, and is repeated too"
    assert (job(hooked)["over"], job(hooked)["failed"], job(hooked)["succeeded"]) == ("Complete", 1 + len(others), 1)
    assert hooked.deployment()["spec"]["replicas"] == 2


def test_a_failure_after_the_first_write_puts_everything_back(hooked: Release, frozen: Any) -> None:
    """Exit 5, no attempt after it: every hash is the old one, the old operator runs, and no field of it is ours.

    When the cause is gone, the same command upgrades.
    """
    freeze, unfreeze = frozen
    hooked.install(HELM_4, OLD)
    hooked.site.plant()
    before = hooked.site.objects()
    freeze()
    failed = hooked.upgrade(HELM_4, NEW)
    assert failed.returncode != 0
    *others, (code, summary) = attempts(hooked)
    assert (code, job(hooked)["over"]) == (5, "Failed"), summary
    assert {other for other, _ in others} <= {1, 4, 6}, "on a slow machine an attempt may lose the Lease"
    assert hooked.site.objects() == before
    hooked.wait_for_pods()
    deployment = hooked.deployment()["spec"]
    assert deployment["replicas"] == 2
    assert deployment["template"]["spec"]["containers"][0]["image"].endswith(OLD)
    assert "grove-migrator" not in hooked.managers()
    unfreeze()
    hooked.upgrade_to(HELM_4, NEW)
    assert hooked.site.objects() == hooked.site.expected(before, OLD, NEW)
    assert hooked.deployment()["spec"]["replicas"] == 2


@pytest.mark.parametrize("helm", [HELM_3, HELM_4], ids=["helm3", "helm4"])
def test_a_job_that_outlives_helms_patience_keeps_its_rights_and_policies(hooked: Release, helm: Way) -> None:
    """Helm gives up first: every object that the Job needs is still there, and the Job migrates everything.

    The next upgrade finds nothing to do, installs the new operator and takes rights and policies away.
    """
    hooked.hooks = hooks("--qps=8")
    hooked.install(helm, OLD)
    hooked.site.plant()
    before = hooked.site.objects()
    gave_up = hooked.upgrade(helm, NEW, "--timeout=6s")
    assert gave_up.returncode != 0
    assert job(hooked)["over"] is None, "the Job was faster than Helm"
    everything = {item["kind"] for item in documents("job.yaml") if item["kind"] != "Job"}
    assert kept(hooked) == everything
    eventually(lambda: job(hooked)["over"], what="the Job is not over", seconds=180)
    assert (job(hooked)["over"], [code for code, _ in attempts(hooked)]) == ("Complete", [0])
    assert hooked.site.objects() == hooked.site.expected(before, OLD, NEW)
    assert kept(hooked) == everything
    hooked.upgrade_to(helm, NEW)
    assert (hooked.deployment()["spec"]["replicas"], kept(hooked)) == (2, set())


@pytest.mark.parametrize("helm", [pytest.param(HELM_3, marks=pytest.mark.slow), HELM_4], ids=["helm3", "helm4"])
def test_a_second_upgrade_replaces_the_job_in_the_middle_of_its_writes(hooked: Release, helm: Way) -> None:
    """While the first upgrade waits, Helm refuses the second; later it makes Job, account and rights anew.

    The first pod's token is void then: it can neither write nor give its Lease back, and ends with 6. The second pod
    waits until the Lease has expired, finishes what was begun, and the upgrade goes through.
    """
    hooked.hooks = hooks("--qps=2")
    hooked.install(helm, OLD)
    hooked.site.plant()
    before = hooked.site.objects()
    with ThreadPoolExecutor(1) as pool:
        gives_up = pool.submit(hooked.upgrade, helm, NEW, "--timeout=8s")
        eventually(lambda: hooked.kubelet.containers, what="the Job has no pod")
        assert "another operation" in hooked.upgrade(helm, NEW).stderr
        assert gives_up.result().returncode != 0
    eventually(lambda: hooked.site.objects() != before, what="nothing was written", seconds=180)
    assert job(hooked)["over"] is None, "the Job was faster than Helm"
    hooked.hooks = hooks()
    hooked.upgrade_to(helm, NEW)
    [first, _] = hooked.kubelet.containers
    assert [code for code, _ in attempts(hooked)] == [0]
    assert "HTTP 401 Unauthorized" in first.log
    assert json.loads(first.log.splitlines()[-1])["exit_code"] == 6
    assert hooked.site.objects() == hooked.site.expected(before, OLD, NEW)
    assert hooked.deployment()["spec"]["replicas"] == 2


def _set_update_end(release: Release, value: str | None) -> None:
    [pcs] = [
        item
        for item in release.site.admin.list("grove.io/v1alpha1", "PodCliqueSet", WORKLOADS)
        if item["metadata"]["name"] == "web"
    ]
    body = {"status": {"updateProgress": {"updateEndedAt": value}}}
    assert release.site.admin.patch(pcs, body, subresource="status").status == 200


def _set_pods_hash(release: Release, value: str) -> str:
    """Set the hash that one pod of the set `web` carries; returns the one that it carried."""
    pod = next(item for (kind, name), item in sorted(release.site.objects().items()) if kind == "Pod" and "web" in name)
    before = str(pod["metadata"]["labels"]["grove.io/pod-template-hash"])
    assert release.site.admin.patch(pod, {"metadata": {"labels": {"grove.io/pod-template-hash": value}}}).status == 200
    return before


def _write_generation_hash(release: Release) -> int:
    path = release.site.admin.kind("grove.io/v1alpha1", "PodCliqueSet").path(WORKLOADS, "disagg", "status")
    body = {"status": {"currentGenerationHash": "4b5c6d"}}
    answer = release.site.admin.request("PATCH", path, body, query={"dryRun": "All"}, content_type=MERGE_PATCH)
    return answer.status


def _freezing(name: str) -> list[Object]:
    """A policy by which nobody changes the generation hash of one set, and its binding."""
    rule = {
        "apiGroups": ["grove.io"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["podcliquesets/status"],
        "resourceNames": ["disagg"],
    }
    unchanged = "object.status.currentGenerationHash == oldObject.status.currentGenerationHash"
    specs = {
        "ValidatingAdmissionPolicy": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": unchanged, "reason": "Forbidden"}],
        },
        "ValidatingAdmissionPolicyBinding": {"policyName": name, "validationActions": ["Deny"]},
    }
    about = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    return [{**about, "kind": kind, "spec": spec} for kind, spec in specs.items()]
