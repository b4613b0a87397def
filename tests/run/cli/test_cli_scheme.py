"""``scheme``, and what ``--to-binary`` and ``--from-binary`` mean to the other commands."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from migrator import cli
from migrator.cli import wiring
from migrator.hashing import layouts, schemes
from migrator.operators import schemefile
from migrator.operators.schemefile import OperatorScheme
from tests.support.memory_store import MemoryStore
from tests.support.operator_files import changed_layout, described
from tests.support.paths import ROOT

DUMP = ROOT / "examples" / "cluster.yaml"
DIGEST = f"sha256:{64 * 'a'}"


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test starts as a process that has read no binary."""
    monkeypatch.setattr(layouts, "_adopted", {})


def written(path: Path, found: OperatorScheme | None = None) -> str:
    """A scheme.json."""
    file = path / "scheme.json"
    file.write_text(schemefile.encode(found or described()))
    return str(file)


def message(capsys: pytest.CaptureFixture[str]) -> str:
    """What the last line on stderr says."""
    text: str = json.loads(capsys.readouterr().err.splitlines()[-1])["message"]
    return text


def test_a_scheme_is_described_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Scheme, layout, algorithm, flags, platforms, digest, labels and warnings are printed."""
    assert cli.invoke(["scheme", written(tmp_path)]) == 0
    text = capsys.readouterr().out
    for part in ("legacy-1.35 (spoken by v0.1.0-alpha.10", "recognised by", "linux/arm64", DIGEST, "go1.26.8", "s390x"):
        assert part in text
    assert "proven" not in text


def test_a_layout_that_is_not_shipped_is_compared_with_the_nearest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The differences are named field by field."""
    assert cli.invoke(["scheme", written(tmp_path, described(changed_layout()))]) == 0
    text = capsys.readouterr().out
    assert "spoken by no release" in text
    assert "not one of ours" in text
    assert "against k8s.io/api v0.35:" in text
    assert "v1.PodSpec.Newer is new (*string, JSON newer)" in text


def test_the_file_is_the_json_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-o json` prints what was read from such a file."""
    path = written(tmp_path)
    assert cli.invoke(["scheme", path, "-o", "json"]) == 0
    assert capsys.readouterr().out == Path(path).read_text()


def test_a_plan_to_a_binary_is_the_plan_to_its_scheme(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan differs in nothing from that by name."""
    plans = []
    for target in (("--to-binary", written(tmp_path)), ("--to", "legacy-1.35")):
        assert cli.invoke(["plan", "-f", str(DUMP), *target, "-o", "json"]) == 0
        plans.append({**json.loads(capsys.readouterr().out), "time": None})
    assert plans[0] == plans[1]


def test_a_report_of_a_layout_that_is_not_shipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page gives the reasons in words, and names the layout as that of a binary."""
    path = written(tmp_path, described(changed_layout()))
    assert cli.invoke(["plan", "-f", str(DUMP), "--to-binary", path, "-o", "html"]) == 0
    text = capsys.readouterr().out
    assert "the other with those of a binary (x" in text
    assert "Newer" in text


def test_hash_and_explain_take_a_binary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hashes and the explanation are over the layout that was read, shipped or not."""
    path = written(tmp_path, described(changed_layout(), names=True))
    assert cli.invoke(["hash", "-f", str(ROOT / "examples" / "podcliquesets.yaml"), "--to-binary", path]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["scheme"] for line in lines} == {described(changed_layout()).scheme.name}
    assert cli.invoke(["explain", "-f", str(DUMP), "--to-binary", path]) == 0
    assert "Newer" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["plan"], ["run", "--dry-run=client"], ["verify"], ["explain"]])
def test_a_name_that_contradicts_the_binary_refuses(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A release beside a binary of another scheme is a usage error that names both; the right one is accepted."""
    path = written(tmp_path)
    assert cli.invoke([*command, "-f", str(DUMP), "--to", "v0.1.0-alpha.9", "--to-binary", path]) == 2
    said = message(capsys)
    assert "--to v0.1.0-alpha.9 is legacy-1.34" in said
    assert f"--to-binary {path} is legacy-1.35" in said
    code = cli.invoke([*command, "-f", str(DUMP), "--to", "v0.1.0-alpha.11", "--to-binary", path])
    assert code == (7 if command == ["verify"] else 0)  # the example is not migrated


def test_a_release_that_nobody_has_read_is_what_its_binary_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A release that is known by name only cannot contradict: the binary decides."""
    unread = schemes.unread_releases()[-1]
    args = ["plan", "-f", str(DUMP), "--to", unread, "--to-binary", written(tmp_path), "-o", "json"]
    assert cli.invoke(args) == 0
    assert {tree["to"] for tree in json.loads(capsys.readouterr().out)["trees"]} == {"legacy-1.35"}


def test_the_source_is_read_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--from-binary` names the source, and contradicts `--from` in the same way."""
    path = written(tmp_path, described(layouts.load("1.34")))
    assert cli.invoke(["plan", "-f", str(DUMP), "--from-binary", path, "--to", "legacy-1.35", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["from"] == "legacy-1.34"
    args = ["plan", "-f", str(DUMP), "--from-binary", path, "--from", "legacy-1.33", "--to", "legacy-1.35"]
    assert cli.invoke(args) == 2
    assert "--from legacy-1.33 is legacy-1.33, but --from-binary" in message(capsys)


@pytest.mark.parametrize("command", [["plan"], ["run", "--dry-run=client"], ["verify"], ["explain"]])
def test_a_source_that_contradicts_its_binary_refuses(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--from` beside `--from-binary` of another scheme is a usage error that names both, in every command."""
    path = written(tmp_path, described(layouts.load("1.34")))
    args = [*command, "-f", str(DUMP), "--to", "legacy-1.35", "--from-binary", path]
    assert cli.invoke([*args, "--from", "legacy-1.33"]) == 2
    assert f"--from legacy-1.33 is legacy-1.33, but --from-binary {path} is legacy-1.34" in message(capsys)
    assert cli.invoke([*args, "--from", "v0.1.0-alpha.9"]) == (7 if command == ["verify"] else 0)


def test_verify_knows_what_was_stored_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--to canonical` is over the layout of `--from-binary`, though no release speaks that."""
    old, new = described(changed_layout()), described(changed_layout(), algorithm="canonical")
    args = ["-f", str(DUMP), "--from-binary", written(tmp_path, old)]
    assert cli.invoke(["verify", *args, "--to", "canonical"]) == 7
    assert f"not {new.scheme.name}'s" in message(capsys)


@pytest.mark.parametrize("command", [["run", "--dry-run=client"], ["verify"]])
def test_an_image_that_contradicts_the_binary_refuses(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--target-image` by another digest than the binary's is a usage error that names both."""
    path, other = written(tmp_path), f"example.test/op@sha256:{64 * 'b'}"
    args = [*command, "-f", str(DUMP), "--to-binary", path, "--target-image"]
    assert cli.invoke([*args, other]) == 2
    assert f"--target-image {other} names another image than --to-binary {path}" in message(capsys)
    assert cli.invoke([*args, f"example.test/op@{DIGEST}"]) != 2


def test_a_pipe_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What can be read only once is refused with what to do instead."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)  # does not wait for a reader
    try:
        assert cli.invoke(["scheme", str(pipe)]) == 2
    finally:
        os.close(writer)
    assert "is a pipe, which cannot be read twice: save it to a file" in message(capsys)


def test_a_volume_that_is_not_there_is_explained_in_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cluster without image volumes leaves the mount out, so the Job names the reason and the other way."""
    for namespace, explained in ((None, False), ("grove-system", True)):
        monkeypatch.setattr(wiring, "own_namespace", lambda namespace=namespace: namespace)
        assert cli.invoke(["scheme", str(tmp_path / "target")]) == 2
        assert ("feature gate ImageVolume" in message(capsys)) is explained


@pytest.mark.parametrize(
    ("name", "content", "refusal"),
    [
        ("manifest.json", r'[{"Config": "a\u0000b", "Layers": []}]', "cannot be understood"),
        ("manifest.json", '[{"Config": "../../../../../../etc/passwd", "Layers": []}]', "the archive lacks ../"),
        ("manifest.json", '[{"Config": "/etc/passwd", "Layers": []}]', "the archive lacks /etc/passwd"),
        ("manifest.json", "loop", "no Grove operator|cannot be understood"),
    ],
)
def test_a_directory_is_not_left(
    name: str, content: str, refusal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path that leads out of a directory, or nowhere, is refused."""
    if content == "loop":
        (tmp_path / name).symlink_to(name)
    else:
        (tmp_path / name).write_text(content)
    assert cli.invoke(["scheme", str(tmp_path)]) == 2
    assert re.search(refusal, message(capsys))


@pytest.mark.parametrize("command", [["plan"], ["run", "--dry-run=client"], ["verify"]])
def test_hashes_in_names_are_refused(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An operator that is understood but cannot be migrated to exits with 3."""
    path = written(tmp_path, described(names=True))
    assert cli.invoke([*command, "-f", str(DUMP), "--to-binary", path]) == 3
    assert "puts the hash into object names" in message(capsys)


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh", b"{}", b"\x7fELF"])
def test_a_file_that_cannot_be_read_is_named(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, and the sentence begins with the path."""
    path = tmp_path / "operator"
    path.write_bytes(content)
    for name in (str(path), str(tmp_path / "absent")):
        assert cli.invoke(["plan", "-f", str(DUMP), "--to-binary", name]) == 2
        assert message(capsys).startswith(name)


@pytest.mark.parametrize("command", [["run", "--dry-run=client"], ["verify"]])
def test_a_target_is_required(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Without --to and --to-binary: exit 2, and both are named."""
    assert cli.invoke([*command, "-f", str(DUMP)]) == 2
    said = message(capsys)
    assert "--to" in said
    assert "--to-binary" in said


def test_a_layout_of_its_own_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a run to a layout that is not shipped, verify and revert need its name only, and no file."""
    before: list[dict[str, Any]] = yaml.safe_load(DUMP.read_text(encoding="utf-8"))["items"]
    store = MemoryStore({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "grove-system"}}, *before)
    monkeypatch.setattr(wiring, "connect", lambda *_, dry_run, **__: store.in_dry_run(dry_run))
    name = described(changed_layout()).scheme.name
    path = written(tmp_path, described(changed_layout()))
    where = ["--operator-namespace", "grove-system"]
    assert cli.invoke(["run", "--to-binary", path, *where]) == 0
    for arguments in (["verify", "--to", name, *where], ["plan", "--to", name], ["run", "--to", name, *where]):
        monkeypatch.setattr(layouts, "_adopted", {})
        assert cli.invoke(arguments) == 0, capsys.readouterr().err
    monkeypatch.setattr(layouts, "_adopted", {})
    assert cli.invoke(["run", "--to", name, "--from", "legacy-1.34", "--revert", *where]) == 0
    assert cli.invoke(["verify", "--to", "legacy-1.34", *where]) == 0


def test_a_name_without_a_record_asks_for_the_file(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """The name of a layout that nobody recorded refuses, and says what to give."""
    store = MemoryStore()
    monkeypatch.setattr(wiring, "connect", lambda *_, dry_run, **__: store.in_dry_run(dry_run))
    assert cli.invoke(["verify", "--to", "legacy-x0123456789ab"]) == 2
    assert "--to-binary" in message(capsys)


def test_previews_are_hashed_by_name_only(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --scheme no minor is used that has no release yet."""
    sets = str(ROOT / "examples" / "podcliquesets.yaml")
    everything = {scheme.name: scheme.preview for scheme in schemes.all_schemes()}
    assert cli.invoke(["hash", "-f", sets]) == 0
    said = {json.loads(line)["scheme"] for line in capsys.readouterr().out.splitlines()}
    assert said == {name for name, preview in everything.items() if not preview}
    assert cli.invoke(["hash", "-f", sets, *(f"--scheme={name}" for name in everything)]) == 0
    assert {json.loads(line)["scheme"] for line in capsys.readouterr().out.splitlines()} == everything.keys()
