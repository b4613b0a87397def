"""The documents for Argo CD and Flux: a real API server with their CRDs takes them, and they fit our chart."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from testbed import gitops
from testbed.controlplane.client import Object
from testbed.controlplane.crds import put
from tests.cluster.helm.cluster import Cluster
from tests.cluster.helm.reader import Reader
from tests.cluster.helm.wrapper import OURS, template, wrapper
from tests.cluster.manifests.site import NEW, Site, add_namespace, arguments, of_kind
from tests.cluster.manifests.test_rendered import apply_strictly
from tests.repo.pages import blocks
from tests.support.paths import ROOT

EXAMPLES = ROOT / "examples"
DOCUMENTS = ("argo-cd/application.yaml", "argo-cd/appproject.yaml", "flux/helmrelease.yaml")
#: Kinds of ours that have no namespace.
CLUSTERED = {"ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
#: Helm's hooks as Argo CD runs them, where an object has no hook of its own (gitops-engine, pkg/sync/hook/hook.go:
#: Types, and pkg/sync/hook/helm/type.go). It knows no hook of a rollback.
HELMS_HOOKS = {
    **dict.fromkeys(("pre-install", "pre-upgrade"), "PreSync"),
    **dict.fromkeys(("post-install", "post-upgrade"), "PostSync"),
}


def example(path: str) -> Any:
    """A file of examples/."""
    return yaml.safe_load((EXAMPLES / path).read_text(encoding="utf-8"))


def phases(item: Object) -> set[str]:
    """When Argo CD applies an object: the phases of a sync."""
    found = item["metadata"].get("annotations", {})
    if "argocd.argoproj.io/hook" in found:
        return set(found["argocd.argoproj.io/hook"].split(","))
    return {HELMS_HOOKS[name] for name in found.get("helm.sh/hook", "").split(",") if name in HELMS_HOOKS} or {"Sync"}


@pytest.fixture(scope="module")
def served(site: Site) -> Iterator[Site]:
    """An API server that knows the kinds of Argo CD and Flux."""
    crds = gitops.crds()
    put(site.admin, crds)
    for namespace in ("argocd", "grove-system"):
        add_namespace(site.admin, namespace)
    yield site
    for crd in crds:
        site.admin.delete(crd)


@pytest.mark.controlplane
@pytest.mark.parametrize("path", DOCUMENTS)
def test_the_kinds_own_crd_takes_the_document(served: Site, path: str) -> None:
    """Strict validation by the CRD of Argo CD or Flux knows every field, and refuses the same with a mistyped one."""
    document = example(path)
    taken = apply_strictly(served, document)
    assert (taken.status in {200, 201}, taken.headers.get("Warning")) == (True, None), taken.body
    mistyped = copy.deepcopy(document)
    mistyped["spec"]["destinatoin"] = {}
    refused = apply_strictly(served, mistyped)
    assert refused.status >= 400
    assert "destinatoin" in str(refused.body)


@pytest.mark.controlplane
def test_flux_is_stopped_for_an_upgrade_by_hand_and_goes_on(served: Site, cluster: Cluster) -> None:
    """The page's commands suspend the HelmRelease and resume it, as a manager whose fields Flux leaves alone.

    Flux takes back the fields of managers whose name begins with kubectl (fluxcd/pkg, ssa/patch.go).
    """
    release = example("flux/helmrelease.yaml")
    release["metadata"]["namespace"] = cluster.site.namespace
    before = served.admin.apply(release, manager="kustomize-controller")["spec"]
    reader = Reader(cluster, "helm4", RELEASE=release["metadata"]["name"])
    names = (release["apiVersion"], release["kind"], release["metadata"]["name"], cluster.site.namespace)
    suspend, resume = blocks("upgrade", "Flux")
    for block, suspended in ((suspend, True), (resume, False)):
        reader.type(block)
        found = served.admin.get(*names)
        assert found["spec"] == {**before, "suspend": suspended}
        managers = {entry["manager"] for entry in found["metadata"]["managedFields"]}
        assert not [name for name in managers if name.startswith("kubectl")]
    served.admin.delete(release)


def test_the_application_has_the_hook_beside_the_operator() -> None:
    """One Application, two sources: the target is the release of the other source, and each object of ours is a hook.

    Argo CD renders by `helm template`, without --is-upgrade. Everything that the run needs is in PreSync.
    """
    spec = example("argo-cd/application.yaml")["spec"]
    grove, ours = spec["sources"]
    values = ours["helm"]["valuesObject"]
    assert (grove["chart"], values["target"]) == ("grove-charts", grove["targetRevision"])
    settings = [f"{key}={value}" for key, value in values.items() if not isinstance(value, dict)]
    namespace = spec["destination"]["namespace"]
    objects = template("helm4", OURS, *settings, "verify.enabled=true", namespace=namespace, upgrade=False)
    jobs = {item["metadata"]["name"]: item for item in of_kind(objects, "Job")}
    run, verify = jobs["grove-migrator"], jobs["grove-migrator-verify"]
    assert (arguments(run)[0], phases(run)) == ("run", {"PreSync"})
    assert (arguments(verify)[0], phases(verify)) == ("verify", {"PostSync"})
    assert [phases(item) for item in objects if item["kind"] != "Job"] == [{"PreSync"}] * (len(objects) - 3)
    assert "RespectIgnoreDifferences" not in yaml.safe_dump(spec)


def test_a_wrapper_gates_its_own_application(tmp_path: Any) -> None:
    """A chart of your own with `mode: argocd`: our Job is in PreSync, and the operator comes after it."""
    chart = wrapper("grove", tmp_path, NEW)
    objects = template("helm4", chart, "grove-migrator.mode=argocd", upgrade=False)
    run = next(item for item in of_kind(objects, "Job") if item["metadata"]["name"] == "grove-migrator")
    [operator] = of_kind(objects, "Deployment")
    assert (phases(run), phases(operator)) == ({"PreSync"}, {"Sync"})
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


def test_the_examples_name_no_registry() -> None:
    """Where charts come from is the reader's to fill in."""
    for path in EXAMPLES.rglob("*.yaml"):
        text = re.sub(r"https://kubernetes\.default\.svc", "", path.read_text(encoding="utf-8"))
        assert not re.search(r"\b(?:https?|oci)://", text), path
