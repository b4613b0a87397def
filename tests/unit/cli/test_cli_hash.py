"""``hash`` and ``releases``: commands that need nothing but a file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from migrator.hashing import schemes
from migrator.releases.table import releases
from tests.support.builders import hashes_of
from tests.support.command_line import Invoke


def pcs(name: str, *cliques: str, **more: Any) -> dict[str, Any]:
    """A PodCliqueSet as an API server returns it."""
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": "prod", "uid": f"uid-{name}"},
        "spec": {"template": {"cliques": [{"name": clique, "spec": {"podSpec": {}}} for clique in cliques or ("a",)]}},
        **more,
    }


def holding(name: str, pod_spec: dict[str, Any]) -> dict[str, Any]:
    document = pcs(name)
    document["spec"]["template"]["cliques"][0]["spec"]["podSpec"] = pod_spec
    return document


@pytest.mark.parametrize("text", ["", '{"apiVersion": "v1", "kind": "List", "items": []}'])
def test_a_file_without_a_set_is_an_error(tmp_path: Path, invoke: Invoke, text: str) -> None:
    """What a kubectl that failed prints is no success: exit 2, and stderr names the file."""
    path = tmp_path / "empty"
    path.write_text(text)
    assert str(path) in invoke("hash", "-f", path, code=2).failure["message"]


def write(path: Path, *documents: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return path


def test_hash_prints_one_object_per_set_and_scheme_in_order(tmp_path: Path, invoke: Invoke) -> None:
    """Input order, then table order; exactly the keys of the contract; other kinds are skipped."""
    others = {"apiVersion": "v1", "kind": "Pod"}, {"apiVersion": "example.com/v1", "kind": "PodCliqueSet"}
    path = write(tmp_path / "sets.jsonl", pcs("z", "b", "a"), *others, pcs("a"))
    captured = invoke("hash", "-f", path)
    lines = captured.lines
    table = [scheme.name for scheme in schemes.all_schemes()]
    assert [(line["name"], line["scheme"]) for line in lines] == [(name, s) for name in ("z", "a") for s in table]
    assert {tuple(line) for line in lines} == {("namespace", "name", "scheme", "generationHash", "podTemplateHashes")}
    expected = hashes_of(pcs("z", "b", "a"), "legacy-1.34")
    assert lines[1]["namespace"] == "prod"
    assert lines[1]["generationHash"] == expected.generation
    assert list(lines[1]["podTemplateHashes"].items()) == [(c, expected.templates[c]) for c in ("b", "a")]
    assert captured.err == ""


def test_schemes_may_be_repeated_and_be_releases_and_come_in_table_order(tmp_path: Path, invoke: Invoke) -> None:
    """--scheme takes schemes and releases; asking twice prints once."""
    path = write(tmp_path / "sets.jsonl", pcs("a"))
    asked = ["canonical-1.34", "0.1.0-alpha.11", "legacy-1.35", "v0.1.0-alpha.9", "legacy-1.37"]
    printed = invoke("hash", "-f", path, *(f"--scheme={name}" for name in asked))
    assert printed.column("scheme") == ["legacy-1.34", "legacy-1.35", "legacy-1.37", "canonical-1.34"]


def test_one_bad_set_does_not_keep_the_others_back(tmp_path: Path, invoke: Invoke) -> None:
    """The rest is printed, one sentence names the set and the path of the value, and the exit code is 2."""
    odd = holding("odd", {"containers": [{"name": "c", "resources": {"limits": {"cpu": "many"}}}]})
    path = write(tmp_path / "sets.jsonl", pcs("first"), odd, holding("last", {"overhead": {"cpu": 1.5}}))
    captured = invoke("hash", "-f", path, "--scheme", "legacy-1.34", code=2)
    assert captured.column("name") == ["first", "last"]
    (event,) = captured.events
    assert event["code"] == "undecodable-input"
    assert event["exit_code"] == 2
    where = "spec.template.cliques[0].spec.podSpec.containers[0].resources.limits.cpu"
    assert f"{path}: PodCliqueSet prod/odd: {where}" in event["message"]


def test_what_one_operator_cannot_decode_another_may(tmp_path: Path, invoke: Invoke) -> None:
    """A field that an older layout does not know is not decoded by it, whatever it holds."""
    path = write(tmp_path / "sets.jsonl", holding("a", {"hostnameOverride": 5}))
    captured = invoke("hash", "-f", path, code=2)
    assert captured.column("scheme") == ["legacy-1.33", "canonical-1.33"]
    (event,) = captured.events
    assert "podSpec.hostnameOverride" in event["message"]


@pytest.mark.parametrize("number", ["1.0", "0.5", "1e3", "0644"])
@pytest.mark.parametrize("field", ["containers: [{name: c, resources: {limits: {cpu: NUMBER}}}]", "priority: NUMBER"])
def test_a_number_that_yaml_spells_in_another_way_is_not_hashed(
    field: str, number: str, tmp_path: Path, invoke: Invoke
) -> None:
    """Go hashes the text of a quantity, and kubectl makes another one of such a number: exit 2, with its path."""
    path = tmp_path / "set.yaml"
    clique = f"{{name: a, spec: {{podSpec: {{{field.replace('NUMBER', number)}}}}}}}"
    head = "apiVersion: grove.io/v1alpha1\nkind: PodCliqueSet\nmetadata: {name: a, uid: u}\n"
    path.write_text(f"{head}spec: {{template: {{cliques: [{clique}]}}}}\n")
    printed = invoke("hash", "-f", path, "--scheme", "legacy-1.35", code=2)
    assert printed.out == ""
    assert "podSpec" in printed.message


def test_a_manifest_is_hashed_with_one_warning(tmp_path: Path, invoke: Invoke) -> None:
    """A manifest lacks what admission adds: said once, on stderr. Its missing namespace is `default`."""
    document = pcs("a", metadata={"name": "a"})
    path = write(tmp_path / "sets.jsonl", document, document, pcs("b"))
    captured = invoke("hash", "-f", path, "--scheme", "legacy-1.34")
    assert captured.column("namespace") == ["default", "default", "prod"]
    (event,) = captured.events
    assert event["level"] == "warning"
    assert event["event"] == "bare_manifest"
    assert "admission" in event["message"]


def test_releases_are_the_table(invoke: Invoke) -> None:
    """Every release and every scheme, with who uses it."""
    document = invoke("releases", "-o", "json").json
    assert [release["release"] for release in document["releases"]] == [one.name for one in releases()]
    assert [scheme["scheme"] for scheme in document["schemes"]] == [s.name for s in schemes.all_schemes()]
    used = {scheme["scheme"]: scheme["releases"] for scheme in document["schemes"]}
    assert all(one["release"] in used[one["scheme"]] for one in document["releases"])
    lines = invoke("releases").out.splitlines()
    rows = {line.split()[0]: line for line in lines if line}
    assert re.split("  +", rows["v0.1.0-alpha.12-rc1"]) == ["v0.1.0-alpha.12-rc1", "1.4", "legacy-1.35"]
    assert "docs/dynamo.md" in " ".join(lines), "1.1 to 1.3 have no row that is sure"
