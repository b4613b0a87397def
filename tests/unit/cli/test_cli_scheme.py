"""``scheme``, and what ``--to-binary`` and ``--from-binary`` mean to the other commands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from migrator.hashing import layouts
from migrator.operators import schemefile
from migrator.operators.schemefile import OperatorScheme
from tests.support.command_line import DUMP, TO, Invoke, objects
from tests.support.memory_store import MemoryStore
from tests.support.operator_files import changed_layout, described

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
    assert "Differences from k8s.io/api v0.35:" in text
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
    assert "is v0.1.0-alpha.8 (legacy-1.34), and the target is v0.1.0-alpha.12-rc1" in said
    for image in ("example.test/op:v0.1.0-alpha.11", "example.test/op:ours"):
        invoke(*args, image, code=7 if command == ["verify"] else 0)


@ON_A_CLUSTER
def test_a_target_image_of_another_scheme_than_the_binary_is_a_usage_error(
    command: list[str], tmp_path: Path, invoke: Invoke
) -> None:
    """The binary says what the next operator computes: a release of another scheme is the operator that runs now."""
    invoke.on(MemoryStore(NAMESPACE, *objects()))
    args = (*command, "--to-binary", written(tmp_path), "--target-image")
    said = invoke(*args, "example.test/op:v0.1.0-alpha.8", code=2).message
    assert "is v0.1.0-alpha.8 (legacy-1.34), and the target is legacy-1.35" in said
    invoke(*args, "example.test/op:v0.1.0-alpha.13", code=7 if command == ["verify"] else 0)


def test_after_a_run_by_binary_the_check_needs_the_image(tmp_path: Path, invoke: Invoke) -> None:
    """`verify --after-upgrade` knows an operator by its release or its image, and a program file says neither."""
    invoke.on(MemoryStore(NAMESPACE, *objects()))
    run = ("run", "--operator", "grove-system/grove-operator", "--to-binary", written(tmp_path), "-o", "json")
    assert " --target-image IMAGE --after-upgrade" in invoke(*run).json["next"][-1]
    named = invoke(*run, "--target-image", "example.test/op:mine").json["next"][-1]
    assert (named.count("--target-image"), "example.test/op:mine" in named) == (1, True)


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
    """An operator that is understood but cannot be migrated exits with 3, by its program and by its name."""
    path, release = written(tmp_path, described(names=True)), "v0.1.0-alpha.10-rc1"
    ways = [["--to-binary", path], ["--to", release]]
    if command != ["verify"]:
        ways.append(["--from", release, *TO])
    for way in ways:
        assert "puts the hash into object names" in invoke(*command, "-f", DUMP, *way, code=3).failure["message"]


def test_a_name_without_a_record_asks_for_the_file(invoke: Invoke) -> None:
    """The name of a layout that nobody recorded refuses, and says what to give."""
    invoke.on(MemoryStore())
    assert "--to-binary" in invoke("verify", "--to", "legacy-x0123456789ab", code=2).message
