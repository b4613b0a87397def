"""Commands that need nothing but a file: hash, releases and scheme; and what a binary means to the others."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from migrator.hashing import layouts, schemes
from migrator.hashing.podcliqueset import hash_pod_clique_set
from migrator.operators import schemefile
from migrator.operators.schemefile import OperatorScheme
from tests.support.command_line import DUMP, Invoke, objects
from tests.support.memory_store import MemoryStore
from tests.support.operator_files import changed_layout, described


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
    """A PodCliqueSet with this pod spec."""
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
    """Write JSON Lines."""
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return path


def test_hash_prints_one_object_per_set_and_scheme_in_order(tmp_path: Path, invoke: Invoke) -> None:
    """Input order, then table order; exactly the keys of the contract; other kinds are skipped."""
    others = {"apiVersion": "v1", "kind": "Pod"}, {"apiVersion": "example.com/v1", "kind": "PodCliqueSet"}
    path = write(tmp_path / "sets.jsonl", pcs("z", "b", "a"), *others, pcs("a"))
    captured = invoke("hash", "-f", path)
    lines = captured.lines
    table = [scheme.name for scheme in schemes.all_schemes() if not scheme.preview]
    assert [(line["name"], line["scheme"]) for line in lines] == [(name, s) for name in ("z", "a") for s in table]
    assert {tuple(line) for line in lines} == {("namespace", "name", "scheme", "generationHash", "podTemplateHashes")}
    expected = hash_pod_clique_set(pcs("z", "b", "a"), schemes.by_name("legacy-1.34"))
    assert (lines[1]["namespace"], lines[1]["generationHash"]) == ("prod", expected.generation_hash)
    assert list(lines[1]["podTemplateHashes"].items()) == [(c, expected.pod_template_hashes[c]) for c in ("b", "a")]
    assert captured.err == ""


def test_schemes_may_be_repeated_and_be_releases_and_come_in_table_order(tmp_path: Path, invoke: Invoke) -> None:
    """--scheme takes schemes, previews too, and releases, even alpha.10-rc1; asking twice prints once."""
    path = write(tmp_path / "sets.jsonl", pcs("a"))
    asked = ["canonical-1.34", "0.1.0-alpha.11", "legacy-1.35", "v0.1.0-alpha.10-rc1", "legacy-1.38-preview"]
    printed = invoke("hash", "-f", path, *(f"--scheme={name}" for name in asked))
    assert printed.column("scheme") == ["legacy-1.34", "legacy-1.35", "legacy-1.38-preview", "canonical-1.34"]


def test_one_bad_set_does_not_keep_the_others_back(tmp_path: Path, invoke: Invoke) -> None:
    """The rest is printed, one sentence names the set and the path of the value, and the exit code is 2."""
    odd = holding("odd", {"containers": [{"name": "c", "resources": {"limits": {"cpu": "many"}}}]})
    path = write(tmp_path / "sets.jsonl", pcs("first"), odd, pcs("last"))
    captured = invoke("hash", "-f", path, "--scheme", "legacy-1.34", code=2)
    assert captured.column("name") == ["first", "last"]
    (event,) = captured.events
    assert (event["code"], event["exit_code"]) == ("undecodable-input", 2)
    where = "spec.template.cliques[0].spec.podSpec.containers[0].resources.limits.cpu"
    assert f"{path}: PodCliqueSet prod/odd: {where}" in event["message"]


def test_what_one_operator_cannot_decode_another_may(tmp_path: Path, invoke: Invoke) -> None:
    """A field that an older layout does not know is not decoded by it, whatever it holds."""
    path = write(tmp_path / "sets.jsonl", holding("a", {"hostnameOverride": 5}))
    captured = invoke("hash", "-f", path, code=2)
    assert captured.column("scheme") == ["legacy-1.33", "canonical-1.33"]
    (event,) = captured.events
    assert "podSpec.hostnameOverride" in event["message"]


def test_a_manifest_is_hashed_with_one_warning(tmp_path: Path, invoke: Invoke) -> None:
    """A manifest lacks what admission adds: said once, on stderr. Its missing namespace is `default`."""
    document = pcs("a", metadata={"name": "a"})
    path = write(tmp_path / "sets.jsonl", document, document, pcs("b"))
    captured = invoke("hash", "-f", path, "--scheme", "legacy-1.34")
    assert captured.column("namespace") == ["default", "default", "prod"]
    (event,) = captured.events
    assert (event["level"], event["event"]) == ("warning", "bare_manifest")
    assert "admission" in event["message"]


def test_releases_are_the_table(invoke: Invoke) -> None:
    """Every release and every scheme, with who uses it; those that were not read say what to do."""
    document = invoke("releases", "-o", "json").json
    known = [*(release.name for release in schemes.releases()), *schemes.unread_releases()]
    assert [release["release"] for release in document["releases"]] == known
    assert [scheme["scheme"] for scheme in document["schemes"]] == [s.name for s in schemes.all_schemes()]
    used = {scheme["scheme"]: scheme["releases"] for scheme in document["schemes"]}
    assert all(one["release"] in used[one["scheme"]] for one in document["releases"] if one["scheme"] is not None)
    lines = invoke("releases").out.splitlines()
    assert max(map(len, lines)) <= 80
    rows = {line.split()[0]: line for line in lines if line}
    assert re.split("  +", rows["v0.1.0-alpha.8"]) == ["v0.1.0-alpha.8", "1.1, 1.2, 1.3", "legacy-1.34"]
    assert re.split("  +", rows["v0.1.0-alpha.14"])[1:] == ["1.6", "-", "not read: use --to-binary"]


# --- scheme, and what --to-binary and --from-binary mean to the other commands ----------------------------------------


NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "grove-system"}}
COMMANDS = pytest.mark.parametrize("command", [["plan"], ["run", "--dry-run=client"], ["verify"]])

ON_A_CLUSTER = pytest.mark.parametrize(
    "command", [["run", "--dry-run=client", "--operator", "grove-system/grove-operator"], ["verify"]]
)


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test starts as a process that has read no binary."""
    monkeypatch.setattr(layouts, "_adopted", {})


def written(path: Path, found: OperatorScheme | None = None) -> Path:
    """A scheme.json."""
    file = path / "scheme.json"
    file.write_text(schemefile.encode(found or described()))
    return file


def test_a_scheme_is_described_for_people(tmp_path: Path, invoke: Invoke) -> None:
    """Scheme, layout, algorithm, flags, labels and warnings are printed; `-o json` is the file."""
    path = written(tmp_path)
    assert invoke("scheme", path, "-o", "json").out == path.read_text()
    text = invoke("scheme", path).out
    for part in ("legacy-1.35 (used by v0.1.0-alpha.10", "recognised by", "linux/arm64", "go1.26.8", "Monday"):
        assert part in text


def test_a_layout_that_is_not_shipped_is_compared_with_the_nearest(tmp_path: Path, invoke: Invoke) -> None:
    """The differences are named field by field."""
    text = invoke("scheme", written(tmp_path, described(changed_layout()))).out
    assert "used by no release" in text
    assert "not one of ours" in text
    assert "against k8s.io/api v0.35:" in text
    assert "v1.PodSpec.Newer is new (*string, JSON newer)" in text


def test_a_plan_to_a_binary_is_the_plan_to_its_scheme(tmp_path: Path, invoke: Invoke) -> None:
    """The plan differs in nothing from that by name."""
    named, read = (
        {**invoke("plan", "-f", DUMP, *target, "-o", "json").json, "time": None}
        for target in (("--to", "legacy-1.35"), ("--to-binary", written(tmp_path)))
    )
    assert named == read


@COMMANDS
def test_a_name_that_contradicts_the_binary_refuses(command: list[str], tmp_path: Path, invoke: Invoke) -> None:
    """A release beside a binary of another scheme is a usage error that names both; the right one is accepted."""
    path = written(tmp_path)
    said = invoke(*command, "-f", DUMP, "--to", "v0.1.0-alpha.9", "--to-binary", path, code=2).message
    assert "--to v0.1.0-alpha.9 is legacy-1.34" in said
    assert f"--to-binary {path} is legacy-1.35" in said
    code = 7 if command == ["verify"] else 0  # the example is not migrated
    invoke(*command, "-f", DUMP, "--to", "v0.1.0-alpha.11", "--to-binary", path, code=code)


def test_the_source_is_read_too(tmp_path: Path, invoke: Invoke) -> None:
    """`--from-binary` names the source, and contradicts `--from` in the same way."""
    path = written(tmp_path, described(layouts.load("1.34")))
    args = ("plan", "-f", DUMP, "--from-binary", path, "--to", "legacy-1.35", "-o", "json")
    assert invoke(*args).json["from"] == "legacy-1.34"


@pytest.mark.parametrize("command", [["plan"], ["run", "--dry-run=client"]])
def test_a_source_that_contradicts_its_binary_refuses(command: list[str], tmp_path: Path, invoke: Invoke) -> None:
    """`--from` beside `--from-binary` of another scheme is a usage error that names both."""
    path = written(tmp_path, described(layouts.load("1.34")))
    args = (*command, "-f", DUMP, "--to", "legacy-1.35", "--from-binary", path)
    said = invoke(*args, "--from", "legacy-1.33", code=2).message
    assert f"--from legacy-1.33 is legacy-1.33, but --from-binary {path} is legacy-1.34" in said
    invoke(*args, "--from", "v0.1.0-alpha.9")


@ON_A_CLUSTER
def test_a_target_image_of_another_schemes_release_is_a_usage_error(command: list[str], invoke: Invoke) -> None:
    """The image of the operator that runs now is not taken for the next one, which a run would start again."""
    invoke.on(MemoryStore(NAMESPACE, *objects()))
    args = (*command, "--to", "v0.1.0-alpha.12-rc1", "--target-image")
    said = invoke(*args, "example.test/op:v0.1.0-alpha.8", code=2).message
    assert "is v0.1.0-alpha.8 (legacy-1.34), not of --to v0.1.0-alpha.12-rc1" in said
    for image in ("example.test/op:v0.1.0-alpha.11", "example.test/op:ours"):
        invoke(*args, image, code=7 if command == ["verify"] else 0)


def test_a_pipe_is_refused(tmp_path: Path, invoke: Invoke) -> None:
    """What can be read only once is refused with what to do instead."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pipe.open("r+b", buffering=0):  # does not wait for a reader
        said = invoke("scheme", pipe, code=2).message
    assert "a pipe, which cannot be read twice. Save it to a file" in said


@pytest.mark.parametrize("command", [["scheme"], ["plan", "-f", DUMP, "--to-binary"]])
def test_what_is_no_program_is_answered_with_the_way_to_one(
    command: list[str | Path], tmp_path: Path, invoke: Invoke
) -> None:
    """An image, the archive of one and a directory are named, with the command that takes the program out."""
    archive = tmp_path / "operator.tar"
    archive.write_bytes(bytes(512))
    for given in ("registry.example/grove-operator:v0.1.0-alpha.11", archive, tmp_path):
        said = invoke(*command, given, code=2).message
        assert said.startswith(str(given))
        assert "crane export IMAGE - | tar -xO grove-operator > grove-operator" in said


@pytest.mark.parametrize("command", [["plan"], ["run", "--dry-run=client"], ["verify"]])
def test_hashes_in_names_are_refused(command: list[str], tmp_path: Path, invoke: Invoke) -> None:
    """An operator that is understood but cannot be migrated to exits with 3."""
    path = written(tmp_path, described(names=True))
    assert "puts the hash into object names" in invoke(*command, "-f", DUMP, "--to-binary", path, code=3).message


def test_a_layout_of_its_own_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> None:
    """After a run to a layout that is not shipped, verify and revert need its name only, and no file."""
    invoke.on(MemoryStore(NAMESPACE, *objects()))
    name = described(changed_layout()).scheme.name
    path = written(tmp_path, described(changed_layout()))
    where = ["--operator", "grove-system/grove-operator"]
    invoke("run", "--to-binary", path, *where)
    for arguments in (["verify", "--to", name, *where], ["plan", "--to", name], ["run", "--to", name, *where]):
        monkeypatch.setattr(layouts, "_adopted", {})
        invoke(*arguments)
    monkeypatch.setattr(layouts, "_adopted", {})
    invoke("run", "--to", name, "--from", "legacy-1.34", "--revert", *where)
    invoke("verify", "--to", "legacy-1.34", *where)


def test_a_name_without_a_record_asks_for_the_file(invoke: Invoke) -> None:
    """The name of a layout that nobody recorded refuses, and says what to give."""
    invoke.on(MemoryStore())
    assert "--to-binary" in invoke("verify", "--to", "legacy-x0123456789ab", code=2).message
