"""``scheme``, and what ``--to-binary`` means to the other commands."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from migrator.releases import program
from migrator.releases.program import API, MACHINERY, SPEW
from tests.support.command_line import DUMP, HOME, Invoke, objects
from tests.support.memory_store import MemoryCluster
from tests.support.programs import CANONICAL, GROVE, LEGACY, lines, made
from tests.support.tables import table

COMMANDS = pytest.mark.parametrize("command", [["plan"], ["run", "--dry-run", *HOME], ["verify"]])

ON_A_CLUSTER = pytest.mark.parametrize("command", [["run", "--dry-run", *HOME], ["verify"]])


UNKNOWN_PATCH = lines("1.35", dict.fromkeys((API, MACHINERY), "v0.35.99\th1:new="))


def written(path: Path, text: str | None = None, names: tuple[str, ...] = LEGACY) -> Path:
    """The program of an operator, over 1.35 by default."""
    file = path / "grove-operator"
    file.write_bytes(made(text, names))
    return file


USED_BY = "v0.1.0-alpha.10, v0.1.0-alpha.11, v0.1.0-alpha.12-rc1, main-fcc3b3bb"


@table(
    "text names said",
    (
        "Scheme and libraries.",
        (
            lines("1.35"),
            LEGACY,
            (f"scheme legacy-1.35 (used by {USED_BY}", "built go1.26.8, k8s.io/api v0.35.", f", {SPEW} v"),
        ),
    ),
    ("A build of the future.", (lines("1.37"), CANONICAL, ("canonical-1.37 (used by no release in the table)",))),
    (
        "A scheme that is only likely, with what a person can do.",
        (
            UNKNOWN_PATCH,
            LEGACY,
            (
                "scheme likely legacy-1.35 (used by",
                f"doubt {API} v0.35.99 was not compared",
                "the scheme: --to legacy-1.35",
            ),
        ),
    ),
)
def test_a_scheme_is_described_for_people(
    text: str, names: tuple[str, ...], said: tuple[str, ...], tmp_path: Path, invoke: Invoke
) -> None:
    """What the operator computes, and by which of its parts that is known; the exit code is 0."""
    printed = " ".join(invoke("scheme", written(tmp_path, text, names)).out.split())
    assert [part for part in said if part not in printed] == []


@COMMANDS
def test_a_likely_scheme_is_no_target(command: list[str], tmp_path: Path, invoke: Invoke) -> None:
    """The person decides and never the tool: `--to-binary` refuses, also beside the name, and says what to type."""
    path = written(tmp_path, UNKNOWN_PATCH)
    for named in ([], ["--to", "legacy-1.35"]):
        said = invoke(*command, "--to-binary", path, *named, code=2).message
        assert said.startswith(f"{path} is likely legacy-1.35, but {API} v0.35.99 was not compared")
        assert said.endswith("If you are sure, name the scheme in place of the program: --to legacy-1.35")


def test_a_plan_to_a_program_is_the_plan_to_its_scheme(tmp_path: Path, invoke: Invoke) -> None:
    """The plan differs in nothing from that by name."""
    named, read = (
        {**invoke("plan", "-f", DUMP, *target, "-o", "json").json, "time": None}
        for target in (("--to", "legacy-1.35"), ("--to-binary", written(tmp_path)))
    )
    assert named == read


@COMMANDS
def test_a_name_that_contradicts_the_program_refuses(command: list[str], tmp_path: Path, invoke: Invoke) -> None:
    """A release beside a program of another scheme is a usage error that names both; the right one is accepted."""
    invoke.on(MemoryCluster(*objects()))
    path = written(tmp_path)
    said = invoke(*command, "--to", "v0.1.0-alpha.9", "--to-binary", path, code=2).message
    assert "--to v0.1.0-alpha.9 is legacy-1.34" in said
    assert f"--to-binary {path} is legacy-1.35" in said
    code = 7 if command == ["verify"] else 0  # the example is not migrated
    invoke(*command, "--to", "v0.1.0-alpha.11", "--to-binary", path, code=code)


@ON_A_CLUSTER
@pytest.mark.parametrize("by_binary", [False, True], ids=["a name", "a program"])
def test_a_target_image_of_another_scheme_is_a_usage_error(
    command: list[str], tmp_path: Path, invoke: Invoke, *, by_binary: bool
) -> None:
    """The image of the operator that runs now is not taken for the next one, which a run would start again."""
    invoke.on(MemoryCluster(*objects()))
    target = ("--to-binary", written(tmp_path)) if by_binary else ("--to", "v0.1.0-alpha.12-rc1")
    args, named = (*command, *target, "--target-image"), "legacy-1.35" if by_binary else "v0.1.0-alpha.12-rc1"
    said = invoke(*args, "example.test/op:v0.1.0-alpha.8", code=2).message
    assert f"is v0.1.0-alpha.8 (legacy-1.34), and the target is {named}" in said
    for image in ("example.test/op:v0.1.0-alpha.11", "example.test/op:v0.1.0-alpha.13", "example.test/op:ours"):
        invoke(*args, image, code=7 if command == ["verify"] else 0)


@ON_A_CLUSTER
def test_a_tag_is_no_target_image(command: list[str], invoke: Invoke) -> None:
    """No Deployment's image equals it, so it would have no effect, and the next operator would not be known."""
    said = invoke(*command, "--to", "legacy-1.37", "--target-image", "v0.1.0-alpha.13", code=2).message
    assert "for instance registry.example/grove-operator:v0.1.0-alpha.13" in said


def test_a_name_without_registry_and_tag_is_a_target_image(invoke: Invoke) -> None:
    """A cluster on a laptop runs such images, and nothing else would tell which operator is the next one."""
    invoke.on(MemoryCluster(*objects()))
    invoke("verify", "--to", "legacy-1.37", "--target-image", "grove-operator", code=7)


def test_after_a_run_by_binary_the_check_needs_the_image(tmp_path: Path, invoke: Invoke) -> None:
    """`verify --after-upgrade` knows an operator by its release or its image, and a program file says neither."""
    invoke.on(MemoryCluster(*objects()))
    run = ("run", *HOME, "--to-binary", written(tmp_path), "-o", "json")
    assert ' --target-image "$IMAGE" --after-upgrade' in invoke(*run).json["next"][-1]
    named = invoke(*run, "--target-image", "example.test/op:mine").json["next"][-1]
    assert named.count("--target-image") == 1
    assert "example.test/op:mine" in named


def test_a_pipe_is_read(tmp_path: Path, invoke: Invoke) -> None:
    """`crane export ... | tar -xO grove-operator | grove-migrator scheme /dev/stdin` needs no file."""
    pipe, data = tmp_path / "pipe", made()
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    assert "legacy-1.35" in invoke("scheme", pipe).out
    writer.join()


@pytest.mark.parametrize("command", [["scheme"], ["plan", "-f", DUMP, "--to-binary"]])
def test_what_is_no_program_is_answered_with_the_way_to_one(
    command: list[str | Path], tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image, an archive, a directory and what is too large are named, with the command that takes it out."""
    archive = tmp_path / "operator.tar"
    archive.write_bytes(bytes(512))
    monkeypatch.setattr(program, "LARGEST", 512)
    for given in ("registry.example/grove-operator:v0.1.0-alpha.11", archive, tmp_path, written(tmp_path)):
        said = invoke(*command, given, code=2).message
        assert said.startswith(str(given))
        assert 'crane export "$IMAGE" - | tar -xO grove-operator > grove-operator' in said


@COMMANDS
def test_an_operator_that_cannot_be_migrated_is_refused(command: list[str], tmp_path: Path, invoke: Invoke) -> None:
    """An operator that is known but cannot be migrated exits with 3."""
    path = written(tmp_path, names=(*LEGACY, f"{GROVE}/api/common.GeneratePodGangName"))
    failure = invoke(*command, "--to-binary", path, code=3).failure
    assert "puts the hash into object names" in failure["message"]
