"""The chart's hook in the release of an operator: real helm runs it before every upgrade, and does what it says."""

from __future__ import annotations

import json
from typing import Final

import pytest

from testbed.controlplane.client import Object, eventually
from tests.cluster.helm.cluster import Cluster
from tests.cluster.helm.wrapper import hooked_chart
from tests.cluster.manifests.audit import Audit, used
from tests.cluster.manifests.site import GROVE, NAMESPACE, NEW, OLD, WORKLOADS, documents, grants, made, rights
from tests.support.pods.kubelet import Kubelet

pytestmark = pytest.mark.controlplane

GRANTS: Final = grants(documents("job.yaml"))

helms = pytest.mark.parametrize("helm", ["helm3", "helm4"])
mostly_helm4 = pytest.mark.parametrize("helm", [pytest.param("helm3", marks=pytest.mark.slow), "helm4"])


@pytest.fixture
def namespace() -> str:
    """That of the manifests."""
    return NAMESPACE


@pytest.fixture
def hooked(cluster: Cluster) -> Cluster:
    """The cluster with a chart of the operator that has our chart's hook."""
    cluster.chart = hooked_chart(cluster.directory / "chart")
    return cluster


def kept(release: Cluster) -> set[str]:
    """The kinds of which there is an object of ours, the Job aside."""
    return {item["kind"] for item in rights() if release.ours(item["apiVersion"], item["kind"])}


def undisturbed(release: Cluster) -> Object:
    """What is the same after an upgrade that did not begin: the operator's Deployment and its pods."""
    return {
        "generation": release.site.deployment()["metadata"]["generation"],
        "managers": release.managers(),
        "pods": sorted(pod["metadata"]["uid"] for pod in release.site.operators()),
    }


def attempts(release: Cluster) -> list[tuple[int, Object]]:
    """Exit code and summary of each pod of the Job that has ended, the first one first; a killed one has no summary."""
    pods = release.site.admin.list("v1", "Pod", NAMESPACE, selector="job-name=grove-migrator")
    states = [container["state"] for pod in pods for container in pod["status"].get("containerStatuses", ())]
    ended = [state["terminated"] for state in states if "terminated" in state]
    ended.sort(key=lambda state: state["finishedAt"])
    return [(state["exitCode"], _summary(state["message"])) for state in ended]


def _summary(message: str) -> Object:
    found: Object = json.loads(message) if message.startswith("{") and message.count("\n") == 1 else {}
    return found


@helms
def test_the_hook_migrates_and_the_upgrade_starts_the_new_operator(
    hooked: Cluster, kubelet: Kubelet, audit: Audit, helm: str
) -> None:
    """One command: old operator stopped, every hash translated, new operator with as many replicas as before.

    Nothing runs at the installation, and an upgrade to the same release leaves its operator in peace. Afterwards only
    the Job is left of the hook. The audit log knows of no request of its account that the chart does not grant.
    """
    hooked.program, site = helm, hooked.site
    before = hooked.install(OLD)
    assert kubelet.containers == []
    hooked.upgrade_to(NEW)
    assert site.objects() == site.expected(before, OLD, NEW)
    [(code, summary)] = attempts(hooked)
    assert (code, summary["outcome"], site.ended()) == (0, "done", "Complete")
    assert site.replicas() == 2
    hooked.running(2)
    assert "grove-migrator" not in hooked.managers()
    assert kept(hooked) == set(), "rights and policies have outlived the upgrade"
    running = undisturbed(hooked)
    hooked.upgrade_to(NEW)
    assert [code for code, _ in attempts(hooked)] == [0]
    assert undisturbed(hooked)["pods"] == running["pods"]
    assert used(audit.requests(), GRANTS) < set(GRANTS)


@mostly_helm4
def test_a_refused_run_stops_helm_and_never_disturbs_the_operator(hooked: Cluster, helm: str) -> None:
    """An update is in flight: exit 3, one attempt, Helm fails, the old operator's pods and Deployment are untouched.

    A pod of the older template is left. Helm prints why, because the hook asks it to print a failed hook's log.
    Once the operator has finished the update, the same command upgrades.
    """
    hooked.program, site = helm, hooked.site
    hooked.install(OLD)
    running = undisturbed(hooked)
    ended = site.objects()["PodCliqueSet", "web"]["status"]["updateProgress"]["updateEndedAt"]
    label = _set_pods_hash(hooked, "0lder")
    _set_update_end(hooked, None)
    before = site.objects()
    refused = hooked.upgrade(NEW)
    assert refused.returncode != 0
    assert "pre-upgrade" in refused.stderr
    assert "GM-102" in refused.stdout + refused.stderr
    [(code, summary)] = attempts(hooked)
    assert (code, site.ended()) == (3, "Failed")
    assert "GM-102" in summary["message"]
    assert (site.objects(), undisturbed(hooked)) == (before, running)
    assert [name for name in site.names("ConfigMap") if name.startswith("grove-migrator")] == []
    _set_update_end(hooked, ended)
    _set_pods_hash(hooked, label)
    hooked.upgrade_to(NEW)
    assert [code for code, _ in attempts(hooked)] == [0]


@helms
def test_a_job_that_outlives_helms_patience_keeps_its_rights_and_policies(
    hooked: Cluster, helm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Helm gives up first: every object that the Job needs is still there, and the Job migrates everything.

    The next upgrade finds nothing to do, installs the new operator and takes rights and policies away.
    """
    hooked_chart(hooked.chart, "--concurrency=1")
    monkeypatch.setenv("PATCH_DELAY", "0.12")
    hooked.program, site = helm, hooked.site
    before = hooked.install(OLD)
    gave_up = hooked.upgrade(NEW, "--timeout=6s")
    assert gave_up.returncode != 0
    assert site.ended() == "", "the Job was faster than Helm"
    everything = {item["kind"] for item in rights()}
    assert kept(hooked) == everything
    eventually(site.ended, what="the Job is not over", seconds=180)
    assert (site.ended(), [code for code, _ in attempts(hooked)]) == ("Complete", [0])
    assert site.objects() == site.expected(before, OLD, NEW)
    assert kept(hooked) == everything
    hooked.upgrade_to(NEW)
    assert (site.replicas(), kept(hooked)) == (2, set())


def _set_update_end(release: Cluster, value: str | None) -> None:
    pcs = made(GROVE, "PodCliqueSet", "web", WORKLOADS)
    body = {"status": {"updateProgress": {"updateEndedAt": value}}}
    assert release.site.admin.patch(pcs, body, subresource="status").status == 200


def _set_pods_hash(release: Cluster, value: str) -> str:
    """Set the hash that one pod of the set `web` carries; returns the one that it carried."""
    pod = next(item for (kind, name), item in sorted(release.site.objects().items()) if kind == "Pod" and "web" in name)
    before = str(pod["metadata"]["labels"]["grove.io/pod-template-hash"])
    assert release.site.admin.patch(pod, {"metadata": {"labels": {"grove.io/pod-template-hash": value}}}).status == 200
    return before
