"""All manifests say the same, as real kustomize builds them, and the API server takes each of them to the letter."""

from __future__ import annotations

import copy
import os
import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml

from scripts.render_manifests import VARIANTS, Variant, rendered
from tests.cluster.helm.programs import PROGRAMS
from tests.cluster.manifests.site import MANIFESTS, NAMESPACE, Site, documents, of_kind
from tests.support.controlplane.client import APPLY_PATCH, Answer, Object

#: What each file says beside the base: annotations of hooks, and nothing else but what its heading tells.
FILES: Final = [variant.name for variant in VARIANTS]
_HOOKS: Final = ("helm.sh/", "argocd.argoproj.io/")


def build(directory: Path) -> list[Object]:
    """What kustomize makes of a directory."""
    command = [str(PROGRAMS["kustomize"].binary()), "build", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def plain(objects: list[Object]) -> dict[tuple[str, str], Object]:
    """Objects by kind and name, without the annotations of hooks."""
    found = {}
    for item in copy.deepcopy(objects):
        metadata = item["metadata"]
        kept = {key: value for key, value in metadata.pop("annotations", {}).items() if not key.startswith(_HOOKS)}
        found[item["kind"], metadata["name"]] = {**item, "metadata": metadata | ({"annotations": kept} if kept else {})}
    assert len(found) == len(objects)
    return found


def job(objects: list[Object]) -> Object:
    """The one Job among objects."""
    [found] = of_kind(objects, "Job")
    return found


def apply_strictly(site: Site, item: Object) -> Answer:
    """What the server answers to an apply of an object, with strict validation and without changing anything."""
    path = site.admin.kind_of(item).path(item["metadata"].get("namespace"), item["metadata"]["name"])
    query = {"fieldManager": "strict", "force": "true", "fieldValidation": "Strict", "dryRun": "All"}
    return site.admin.request("PATCH", path, item, query=query, content_type=APPLY_PATCH)


@pytest.mark.parametrize("variant", VARIANTS, ids=FILES)
def test_the_files_are_those_that_the_base_renders(variant: Variant) -> None:
    """Nobody has edited a rendered file, or the base without rendering it."""
    assert (MANIFESTS / variant.name).read_text(encoding="utf-8") == rendered(variant)


@pytest.mark.parametrize("name", ["job.yaml", "argo-cd.yaml"])
def test_the_hooks_are_the_base_and_annotations(name: str) -> None:
    """What kustomize builds of the base is what the hooks install, and only their annotations are more."""
    assert plain(documents(name)) == plain(build(MANIFESTS / "base"))


def test_the_way_back_is_the_base_with_another_direction() -> None:
    """The reverse Job has a name and two releases of its own, the same rights and policies, and no hook anywhere."""
    back, base = documents("revert.yaml"), build(MANIFESTS / "base")
    assert not [item for item in back if item["metadata"].get("annotations")]
    ours, theirs = job(back), job(base)
    assert ours["metadata"].pop("name") == "grove-migrator-revert"
    assert theirs["metadata"].pop("name") == "grove-migrator"
    [there], [here] = ours["spec"]["template"]["spec"]["containers"], theirs["spec"]["template"]["spec"]["containers"]
    assert there["args"][1:3] == ["--from=v0.1.0-alpha.11", "--to=v0.1.0-alpha.9"]
    assert [there["args"][0], *there.pop("args")[3:]] == [here["args"][0], *here.pop("args")[2:]]
    assert ours == theirs
    rest = [[item for item in objects if item["kind"] != "Job"] for objects in (back, base)]
    assert plain(rest[0]) == plain(rest[1])


def test_the_exempting_overlay_adds_one_flag_and_its_right() -> None:
    """Beside the base it holds the role of its own file and its binding, and the Job gets one argument more."""
    overlay, base = plain(build(MANIFESTS / "exempt-from-authorizer")), plain(build(MANIFESTS / "base"))
    added = plain(documents("exempt-from-authorizer/rbac.yaml"))
    [container] = overlay["Job", "grove-migrator"]["spec"]["template"]["spec"]["containers"]
    assert container["args"].pop() == "--exempt-from-authorizer"
    assert overlay == base | added


def test_an_overlay_moves_everything_to_another_namespace_and_image(tmp_path: Path) -> None:
    """The overlay of the base's comment works: no object, subject or image of the default place is left."""
    (tmp_path / "kustomization.yaml").write_text(
        yaml.safe_dump(
            {
                "resources": [os.path.relpath(MANIFESTS / "base", tmp_path)],
                "namespace": "elsewhere",
                "images": [{"name": "grove-migrator", "newName": "registry.example/gm", "newTag": "9.9.9"}],
            }
        ),
        encoding="utf-8",
    )
    objects = build(tmp_path)
    assert NAMESPACE not in yaml.safe_dump_all(objects)
    [container] = job(objects)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/gm:9.9.9"
    for binding in of_kind(objects, "ClusterRoleBinding", "RoleBinding"):
        assert [subject["namespace"] for subject in binding["subjects"]] == ["elsewhere"]


@pytest.mark.controlplane
@pytest.mark.parametrize("name", [*FILES, "exempt-from-authorizer/rbac.yaml"])
def test_the_server_knows_every_field(site: Site, name: str) -> None:
    """A server-side apply with strict validation takes each file, and warns of nothing."""
    for item in documents(name):
        answer = apply_strictly(site, item)
        assert answer.status in {200, 201}, answer.body
        assert "Warning" not in answer.headers


@pytest.mark.controlplane
def test_a_field_that_the_server_does_not_know_is_refused(site: Site) -> None:
    """The control: one mistyped field is found."""
    mistyped = job(documents("job.yaml"))
    mistyped["spec"]["podFailurePolice"] = mistyped["spec"].pop("podFailurePolicy")
    answer = apply_strictly(site, mistyped)
    assert answer.status in {400, 422, 500}
    assert "podFailurePolice" in answer.body["message"]
