"""The examples for Argo CD and Flux fit the charts that they deploy."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.cluster.helm.test_chart import arguments, template
from tests.cluster.helm.wrapper import OURS
from tests.cluster.manifests.site import of_kind
from tests.support.paths import ROOT

EXAMPLES = ROOT / "examples"
#: Kinds of ours that have no namespace.
CLUSTERED = {"ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}


def example(path: str) -> Any:
    """A file of examples/."""
    return yaml.safe_load((EXAMPLES / path).read_text(encoding="utf-8"))


def test_the_application_has_the_hook_beside_the_operator() -> None:
    """One Application, two sources: the target is the release of the other source, and the hooks are Argo CD's."""
    spec = example("argo-cd/application.yaml")["spec"]
    grove, ours = spec["sources"]
    values = ours["helm"]["valuesObject"]
    assert (grove["chart"], values["target"]) == ("grove-charts", grove["targetRevision"])
    settings = [f"{key}={value}" for key, value in values.items() if not isinstance(value, dict)]
    objects = template("helm4", OURS, *settings, "verify.enabled=true", namespace=spec["destination"]["namespace"])
    hooks = {item["metadata"]["annotations"]["argocd.argoproj.io/hook"] for item in objects}
    assert hooks == {"PreSync", "PostSync"}
    assert [arguments(job)[0] for job in of_kind(objects, "Job")] == ["run", "verify"]
    assert "RespectIgnoreDifferences" not in yaml.safe_dump(spec)


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


def test_the_examples_name_no_registry() -> None:
    """Where charts come from is the reader's to fill in."""
    for path in EXAMPLES.rglob("*.yaml"):
        text = re.sub(r"https://kubernetes\.default\.svc", "", path.read_text(encoding="utf-8"))
        assert not re.search(r"\b(?:https?|oci)://", text), path
