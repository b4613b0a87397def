"""The manifests are what the chart renders, and the API server takes each of them to the letter."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml

from testbed.controlplane.client import APPLY_PATCH, Answer, Object
from testbed.helm import PROGRAMS
from tests.cluster.manifests.site import MANIFESTS, Site, documents, job_of, of_kind
from tests.support.paths import ROOT

FILES: Final = ("job.yaml", "revert.yaml", "planner.yaml")


def apply_strictly(site: Site, item: Object) -> Answer:
    """What the server answers to an apply of an object, with strict validation and without changing anything."""
    path = site.admin.kind_of(item).path(item["metadata"].get("namespace"), item["metadata"]["name"])
    query = {"fieldManager": "strict", "force": "true", "fieldValidation": "Strict", "dryRun": "All"}
    return site.admin.request("PATCH", path, item, query=query, content_type=APPLY_PATCH)


def test_the_files_are_what_the_chart_renders(tmp_path: Path) -> None:
    """Nobody has edited a rendered file, or the chart without `make manifests`."""
    helm = PROGRAMS["helm3"].binary()
    command = ["make", "--silent", "--old-file=.venv/.dev", "manifests", f"HELM={helm}", f"MANIFESTS={tmp_path}"]
    subprocess.run(command, cwd=ROOT, check=True)
    for name in FILES:
        assert (MANIFESTS / name).read_text(encoding="utf-8") == (tmp_path / name).read_text(encoding="utf-8")


def test_policies_come_before_rights_and_the_job_comes_last() -> None:
    """A file is applied from top to bottom."""
    for name in ("job.yaml", "revert.yaml"):
        kinds = [item["kind"] for item in documents(name)]
        assert kinds.index("ValidatingAdmissionPolicyBinding") < kinds.index("ClusterRoleBinding")
        assert kinds[-1] == "Job"


def test_labels_neither_switch_a_policy_off_nor_on() -> None:
    """Tenants label their objects and namespaces as they like: no policy or binding selects by labels or by name."""
    policies = of_kind(documents("job.yaml"), "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    for item in policies:
        text = yaml.safe_dump(item["spec"])
        for selector in ("objectSelector", "namespaceSelector", "resourceNames", "matchResources", "'*/*'"):
            assert selector not in text, item["metadata"]["name"]
    rules = [rule for item in policies for rule in item["spec"].get("matchConstraints", {}).get("resourceRules", ())]
    assert all("*" not in rule["resources"] + rule["apiGroups"] for rule in rules)


@pytest.mark.controlplane
@pytest.mark.parametrize("name", FILES)
def test_the_server_knows_every_field(site: Site, name: str) -> None:
    """A server-side apply with strict validation takes each file, and warns of nothing."""
    for item in documents(name):
        answer = apply_strictly(site, item)
        assert answer.status in {200, 201}, answer.body
        assert "Warning" not in answer.headers


@pytest.mark.controlplane
def test_a_field_that_the_server_does_not_know_is_refused(site: Site) -> None:
    """The control: one mistyped field is found."""
    mistyped = job_of()
    mistyped["spec"]["podFailurePolice"] = mistyped["spec"].pop("podFailurePolicy")
    answer = apply_strictly(site, mistyped)
    assert answer.status in {400, 422, 500}
    assert "podFailurePolice" in answer.body["message"]
