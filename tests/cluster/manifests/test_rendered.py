"""All manifests say the same, as real kustomize builds them, and the API server takes each of them to the letter."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml

from migrator import __version__
from scripts.render_manifests import IMAGE, VARIANTS, files
from scripts.render_manifests import main as render
from testbed.controlplane.client import APPLY_PATCH, Answer, Object
from testbed.helm import PROGRAMS
from tests.cluster.manifests.site import MANIFESTS, NAMESPACE, Site, arguments, by_name, documents, job_of, of_kind

FILES: Final = [variant.name for variant in VARIANTS]
FENCE: Final = "grove-migrator-fence"


def build(directory: Path) -> list[Object]:
    """What kustomize makes of a directory."""
    command = [str(PROGRAMS["kustomize"].binary()), "build", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def apply_strictly(site: Site, item: Object) -> Answer:
    """What the server answers to an apply of an object, with strict validation and without changing anything."""
    path = site.admin.kind_of(item).path(item["metadata"].get("namespace"), item["metadata"]["name"])
    query = {"fieldManager": "strict", "force": "true", "fieldValidation": "Strict", "dryRun": "All"}
    return site.admin.request("PATCH", path, item, query=query, content_type=APPLY_PATCH)


def assert_taken(site: Site, item: Object) -> None:
    """The server takes an object with strict validation, and warns of nothing."""
    answer = apply_strictly(site, item)
    assert answer.status in {200, 201}, answer.body
    assert "Warning" not in answer.headers


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_those_that_the_base_renders(name: str) -> None:
    """Nobody has edited a rendered file, or the base without rendering it."""
    assert (MANIFESTS / name).read_text(encoding="utf-8") == files()[name]


def test_the_image_is_one_value(tmp_path: Path) -> None:
    """Rendered with another image, by its digest too, the files differ in one line for each Job, and in no other."""
    image = f"registry.example/grove-migrator@sha256:{'0' * 64}"
    assert render([f"--image={image}", f"--into={tmp_path}"]) == 0
    for name, text in files().items():
        assert (tmp_path / name).read_text(encoding="utf-8") == text.replace(f"image: {IMAGE}", f"image: {image}")
        assert text.count(IMAGE) == 1


def test_the_job_is_the_base() -> None:
    """What kustomize builds of the base is what the file has, to the last field."""
    assert by_name(documents("job.yaml")) == by_name(build(MANIFESTS / "base"))


def test_the_way_back_is_the_base_with_another_direction() -> None:
    """The reverse Job has a name and two releases of its own, and the same rights and policies."""
    back, base = by_name(documents("revert.yaml")), by_name(build(MANIFESTS / "base"))
    ours, theirs = back.pop(("Job", "grove-migrator-revert")), base.pop(("Job", "grove-migrator"))
    assert arguments(ours)[1:3] == ["--from=v0.1.0-alpha.11", "--to=v0.1.0-alpha.9"]
    arguments(ours)[1:3] = arguments(theirs)[1:2]
    ours["metadata"]["name"] = "grove-migrator"
    assert ours == theirs
    assert back == base


def test_labels_neither_switch_a_policy_off_nor_on() -> None:
    """Tenants label their objects and namespaces as they like: no policy or binding selects by labels or by name."""
    shipped = [*documents("job.yaml"), *documents("fence/fence.yaml")]
    for item in of_kind(shipped, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        text = yaml.safe_dump(item["spec"])
        for selector in ("objectSelector", "namespaceSelector", "resourceNames", "matchResources"):
            assert selector not in text, item["metadata"]["name"]


def test_an_overlay_moves_everything_to_another_namespace_and_image(tmp_path: Path) -> None:
    """The overlay to copy works: no object, subject, Lease of the fence or image of the default place is left."""
    text = (MANIFESTS / "overlay" / "kustomization.yaml").read_text(encoding="utf-8")
    for old, new in (
        ("- ../base\n", f"- {os.path.relpath(MANIFESTS / 'base', tmp_path)}\n"),
        ("namespace: grove-system ", "namespace: elsewhere "),
        ("newName: grove-migrator ", "newName: registry.example/gm "),
        (f"newTag: {__version__} ", "newTag: 9.9.9 "),
        ("# - ../fence\n", f"- {os.path.relpath(MANIFESTS / 'fence', tmp_path)}\n"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "kustomization.yaml").write_text(text, encoding="utf-8")
    objects = build(tmp_path)
    assert NAMESPACE not in yaml.safe_dump_all(objects)
    [job] = of_kind(objects, "Job")
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/gm:9.9.9"
    for binding in of_kind(objects, "ClusterRoleBinding", "RoleBinding"):
        assert [subject["namespace"] for subject in binding["subjects"]] == ["elsewhere"]
    assert by_name(objects)["ValidatingAdmissionPolicyBinding", FENCE]["spec"]["paramRef"]["namespace"] == "elsewhere"


def test_the_overlays_other_values_arrive(tmp_path: Path) -> None:
    """Without its comment marks the last block adds the operator's own Lease and raises the most replicas to 5."""
    text = (MANIFESTS / "overlay" / "kustomization.yaml").read_text(encoding="utf-8")
    head, mark, patches = text.partition("# patches:\n")
    head = head.replace("- ../base\n", f"- {os.path.relpath(MANIFESTS / 'base', tmp_path)}\n")
    (tmp_path / "kustomization.yaml").write_text(head + (mark + patches).replace("# ", ""), encoding="utf-8")
    objects = by_name(build(tmp_path))
    leases = ["grove-operator-leader-election", "grove-migrator", "my-operator"]
    assert leases in [rule.get("resourceNames") for rule in objects["Role", "grove-migrator"]["rules"]]
    policy = "ValidatingAdmissionPolicy"
    [names] = [v for v in objects[policy, "grove-migrator-own"]["spec"]["variables"] if v["name"] == "leases"]
    assert sorted(yaml.safe_load(names["expression"])) == sorted(leases)
    assert {"name": "most", "expression": "5"} in objects[policy, "grove-migrator-scale"]["spec"]["variables"]


def test_role_and_policy_name_the_same_leases() -> None:
    """What the Role lets the account renew is what the policy lets it write."""
    objects = by_name(documents("job.yaml"))
    rules = objects["Role", "grove-migrator"]["rules"]
    [rule] = [found for found in rules if "patch" in found["verbs"] and found["resources"] == ["leases"]]
    variables = objects["ValidatingAdmissionPolicy", "grove-migrator-own"]["spec"]["variables"]
    [names] = [found["expression"] for found in variables if found["name"] == "leases"]
    assert yaml.safe_load(names) == rule["resourceNames"]


def test_a_namespace_alone_does_not_reach_the_fence(tmp_path: Path) -> None:
    """The trap: without the overlay's replacement kustomize leaves the Lease's namespace as it is in the base."""
    overlay = {"resources": [os.path.relpath(MANIFESTS / "fence", tmp_path)], "namespace": "elsewhere"}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
    fence = by_name(build(tmp_path))["ValidatingAdmissionPolicyBinding", FENCE]
    assert fence["spec"]["paramRef"]["namespace"] == NAMESPACE


@pytest.mark.controlplane
@pytest.mark.parametrize("name", [*FILES, "fence/fence.yaml", "planner/planner.yaml"])
def test_the_server_knows_every_field(site: Site, name: str) -> None:
    """A server-side apply with strict validation takes each file, and warns of nothing."""
    for item in documents(name):
        assert_taken(site, item)


@pytest.mark.controlplane
def test_a_field_that_the_server_does_not_know_is_refused(site: Site) -> None:
    """The control: one mistyped field is found."""
    mistyped = job_of()
    mistyped["spec"]["podFailurePolice"] = mistyped["spec"].pop("podFailurePolicy")
    answer = apply_strictly(site, mistyped)
    assert answer.status in {400, 422, 500}
    assert "podFailurePolice" in answer.body["message"]
