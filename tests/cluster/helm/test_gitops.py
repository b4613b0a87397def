"""The documents for Argo CD and Flux fit the chart."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from testbed.controlplane.client import Object
from tests.cluster.helm.wrapper import OURS, template, wrapper
from tests.cluster.site import NEW, arguments, of_kind
from tests.support.paths import ROOT

EXAMPLES = ROOT / "examples"
#: Kinds of ours that have no namespace.
CLUSTERED = {"ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
#: Helm's hooks as Argo CD runs them, where an object has no hook of its own (gitops-engine, pkg/sync/hook/hook.go:
#: Types, and pkg/sync/hook/helm/type.go). It knows no hook of a rollback.
HELMS_HOOKS = {
    **dict.fromkeys(("pre-install", "pre-upgrade"), "PreSync"),
    **dict.fromkeys(("post-install", "post-upgrade"), "PostSync"),
}


def example(path: str) -> Any:
    return yaml.safe_load((EXAMPLES / path).read_text(encoding="utf-8"))


def phases(item: Object) -> set[str]:
    """When Argo CD applies an object: the phases of a sync."""
    found = item["metadata"].get("annotations", {})
    if "argocd.argoproj.io/hook" in found:
        return set(found["argocd.argoproj.io/hook"].split(","))
    return {HELMS_HOOKS[name] for name in found.get("helm.sh/hook", "").split(",") if name in HELMS_HOOKS} or {"Sync"}


def test_the_application_has_the_hook_beside_the_operator() -> None:
    """One Application, two sources: the target is the release of the other source, and each object of ours is a hook.

    Argo CD renders by `helm template`, without --is-upgrade. Everything that the run needs is in PreSync.
    """
    spec = example("argo-cd/application.yaml")["spec"]
    grove, ours = spec["sources"]
    values = ours["helm"]["valuesObject"]
    assert grove["chart"] == "grove-charts"
    assert values["target"] == grove["targetRevision"]
    settings = [f"{key}={value}" for key, value in values.items() if not isinstance(value, dict)]
    namespace = spec["destination"]["namespace"]
    objects = template("helm4", OURS, *settings, "verify.enabled=true", namespace=namespace, upgrade=False)
    jobs = {item["metadata"]["name"]: item for item in of_kind(objects, "Job")}
    run, verify = jobs["grove-migrator"], jobs["grove-migrator-verify"]
    assert arguments(run)[0] == "run"
    assert phases(run) == {"PreSync"}
    assert arguments(verify)[0] == "verify"
    assert phases(verify) == {"PostSync"}
    assert [phases(item) for item in objects if item["kind"] != "Job"] == [{"PreSync"}] * (len(objects) - 3)
    assert "RespectIgnoreDifferences" not in yaml.safe_dump(spec)


def test_a_wrapper_gates_its_own_application(tmp_path: Any) -> None:
    """A chart of your own with `mode: argocd`: our Job is in PreSync, and the operator comes after it."""
    chart = wrapper("grove", tmp_path, NEW)
    objects = template("helm4", chart, "grove-migrator.mode=argocd", upgrade=False)
    run = next(item for item in of_kind(objects, "Job") if item["metadata"]["name"] == "grove-migrator")
    [operator] = of_kind(objects, "Deployment")
    assert phases(run) == {"PreSync"}
    assert phases(operator) == {"Sync"}
    assert arguments(run)[1] == f"--to={NEW}"


def test_the_project_permits_what_the_application_syncs() -> None:
    """Sources, destination, and each of our kinds that has no namespace."""
    project, application = example("argo-cd/appproject.yaml")["spec"], example("argo-cd/application.yaml")["spec"]
    assert [source["repoURL"] for source in application["sources"]] == project["sourceRepos"]
    assert application["destination"] in project["destinations"]
    permitted = {(entry["group"], entry["kind"]) for entry in project["clusterResourceWhitelist"]}
    objects = template("helm4", OURS, "mode=argocd", "target=v0.1.0-alpha.12-rc1")
    used = {(item["apiVersion"].partition("/")[0], item["kind"]) for item in objects if item["kind"] in CLUSTERED}
    assert used <= permitted
    assert {item["kind"] for item in objects if "namespace" not in item["metadata"]} == CLUSTERED


def test_flux_waits_as_long_as_the_hook_believes() -> None:
    """The HelmRelease's timeout is helmTimeout, and nothing is tried again or rolled back by itself."""
    spec = example("flux/helmrelease.yaml")["spec"]
    assert spec["timeout"] == spec["values"]["grove-migrator"]["helmTimeout"]
    assert spec["upgrade"]["remediation"] == {"retries": 0}


@pytest.mark.parametrize("kind", ["grove", "dynamo"])
def test_a_wrapper_has_the_name_of_the_chart_that_it_replaces(kind: str) -> None:
    """A release whose chart gets another name is uninstalled by Flux and installed anew, which runs no hook.

    helm-controller, internal/action/verify.go: ReleaseTargetChanged.
    """
    chart = example(f"helm/{kind}/Chart.yaml")
    assert chart["name"] == chart["dependencies"][0]["name"]


def test_flux_does_not_post_render_the_hooks() -> None:
    """It sends each release through Kustomize, which takes no object twice; a twin has the name of what it removes."""
    assert example("flux/helmrelease.yaml")["spec"]["postRenderStrategy"] == "nohooks"


def test_the_examples_name_no_registry() -> None:
    """Where charts come from is the reader's to fill in."""
    for path in EXAMPLES.rglob("*.yaml"):
        text = re.sub(r"https://kubernetes\.default\.svc", "", path.read_text(encoding="utf-8"))
        assert not re.search(r"\b(?:https?|oci)://", text), path
