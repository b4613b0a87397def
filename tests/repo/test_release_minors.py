"""The script that reads each Grove release's k8s.io/api minor from that release's own go.mod."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts import release_minors as script
from tests.support.paths import ROOT

NVIDIA = "github.com/NVIDIA/grove/operator"
AI_DYNAMO = "github.com/ai-dynamo/grove/operator"


def go_mod(module: str, api: str) -> str:
    """A go.mod as small as the script's question."""
    return f"module {module}\n\ngo 1.25\n\nrequire (\n\tk8s.io/api {api}\n\tk8s.io/apimachinery v0.99.0\n)\n"


def git(directory: Path, *arguments: str) -> str:
    """Run git as nobody in particular."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout.strip()


def commit_go_mod(clone: Path, text: str) -> str:
    """Commit one go.mod and return the commit."""
    path = clone / "operator" / "go.mod"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    git(clone, "add", "-A")
    git(clone, "commit", "-q", "-m", "go.mod")
    return git(clone, "rev-parse", "HEAD")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with one release per module path, the later one annotated."""
    directory = tmp_path / "clone"
    directory.mkdir()
    git(directory, "init", "-q")
    commit_go_mod(directory, go_mod(NVIDIA, "v0.33.4"))
    git(directory, "tag", "operator/v0.1.0-alpha.3")
    commit_go_mod(directory, go_mod(AI_DYNAMO, "v0.34.3"))
    git(directory, "tag", "-a", "-m", "release", "operator/v0.1.0-alpha.9")
    return directory


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table that has only what a person writes."""
    path = tmp_path / "releases.json"
    path.write_text(
        '{"release": "v0.1.0-alpha.3", "algorithm": "legacy"}\n'
        '{"release": "v0.1.0-alpha.9", "algorithm": "legacy", "podGangMaps": true}\n'
    )
    return path


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a table."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def put_go_on_path(directory: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Let ``go`` be a shell script of the test's own."""
    directory.mkdir()
    program = directory / "go"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")


def test_clone_fills_minor_module_and_commit(clone: Path, table: Path) -> None:
    """Minor, module and commit come from each release's own tag; what a person wrote stays."""
    assert script.main(["--git", str(clone), "--table", str(table), "--write"]) == 0
    first, second = rows(table)
    commit = git(clone, "rev-parse", "operator/v0.1.0-alpha.9^{commit}")[:8]
    assert (first["minor"], first["module"]) == ("1.33", NVIDIA)
    assert second == {
        "release": "v0.1.0-alpha.9",
        "minor": "1.34",
        "algorithm": "legacy",
        "module": AI_DYNAMO,
        "commit": commit,
        "podGangMaps": True,
    }


def test_development_build_is_read_at_its_commit(clone: Path, table: Path) -> None:
    """A main- build is not tagged: its go.mod is the one of the commit in its name."""
    commit = commit_go_mod(clone, go_mod(AI_DYNAMO, "v0.35.5"))
    with table.open("a") as file:
        file.write(json.dumps({"release": f"main-{commit[:8]}", "algorithm": "canonical", "dev": True}) + "\n")
    assert script.main(["--git", str(clone), "--table", str(table), "--write"]) == 0
    row = rows(table)[-1]
    assert (row["minor"], row["commit"], row["dev"]) == ("1.35", commit[:8], True)


def test_release_without_a_line_is_named_and_nothing_is_written(
    clone: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A release that nobody has read yet is never guessed into the table."""
    git(clone, "tag", "operator/v0.1.0-alpha.10")
    before = table.read_bytes()
    assert script.main(["--git", str(clone), "--table", str(table), "--write"]) == 1
    assert "No line for v0.1.0-alpha.10:" in capsys.readouterr().err
    assert table.read_bytes() == before


def test_line_without_a_tag_is_an_error(clone: Path, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line whose release does not exist cannot keep a minor that nobody read."""
    with table.open("a") as file:
        file.write('{"release": "v0.1.0-alpha.99", "algorithm": "legacy", "minor": "1.36"}\n')
    before = table.read_bytes()
    assert script.main(["--git", str(clone), "--table", str(table), "--write"]) == 1
    assert "v0.1.0-alpha.99" in capsys.readouterr().err
    assert table.read_bytes() == before


def test_check_tells_whether_the_table_is_current(clone: Path, table: Path) -> None:
    """--check writes nothing and fails exactly while a column differs from a go.mod."""
    arguments = ["--git", str(clone), "--table", str(table)]
    before = table.read_bytes()
    assert script.main([*arguments, "--check"]) == 1
    assert table.read_bytes() == before
    assert script.main([*arguments, "--write"]) == 0
    assert script.main([*arguments, "--check"]) == 0


def test_refused_module_is_one_sentence_and_exit_code_1(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A refusal is one line without addresses, and the table is left alone."""
    put_go_on_path(
        tmp_path / "bin",
        monkeypatch,
        'echo "go: module $4: reading https://modules.example/list: 403 Forbidden" >&2\n'
        'printf "\\tserver response: This module version is not available.\\n" >&2\nexit 1',
    )
    before = table.read_bytes()
    assert script.main(["--table", str(table), "--write"]) == 1
    assert capsys.readouterr().err == (
        f"The Go module {NVIDIA} is refused (403 Forbidden, This module version is not available);"
        " read a clone with --git instead. releases.json is unchanged.\n"
    )
    assert table.read_bytes() == before


def test_modules_are_read_under_the_name_they_declare(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version that is listed under both names belongs to the one that its go.mod declares."""
    (tmp_path / "alpha.3.mod").write_text(go_mod(NVIDIA, "v0.33.4"))
    (tmp_path / "alpha.9.mod").write_text(go_mod(AI_DYNAMO, "v0.34.3"))
    put_go_on_path(
        tmp_path / "bin",
        monkeypatch,
        'if [ "$1" = list ]; then echo "$4 v0.1.0-alpha.3 v0.1.0-alpha.9"; exit 0; fi\n'
        f'printf \'{{"GoMod": "{tmp_path}/%s.mod", "Origin": {{"Hash": "0123456789abcdef"}}}}\' '
        '"${4##*-}"',
    )
    assert script.main(["--table", str(table), "--write"]) == 0
    first, second = rows(table)
    assert (first["module"], first["minor"], first["commit"]) == (NVIDIA, "1.33", "01234567")
    assert (second["module"], second["minor"]) == (AI_DYNAMO, "1.34")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (go_mod(AI_DYNAMO, "v0.35.5"), (AI_DYNAMO, "1.35")),
        (f"module {AI_DYNAMO}\nrequire k8s.io/api v0.36.1 // indirect\n", (AI_DYNAMO, "1.36")),
        (f"module {AI_DYNAMO}\n// require k8s.io/api v0.1.0\nrequire (\nk8s.io/api v0.40.0\n)\n", (AI_DYNAMO, "1.40")),
    ],
)
def test_requirement_is_found_however_it_is_written(text: str, expected: tuple[str, str]) -> None:
    """Blocks, single lines and comments are read as Go reads them."""
    assert script.module_and_minor(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (go_mod(AI_DYNAMO, "v0.35.5") + "replace k8s.io/api => k8s.io/api v0.34.0\n", "replaces k8s.io/api"),
        (f"module {AI_DYNAMO}\nrequire k8s.io/apimachinery v0.35.0\n", "does not require k8s.io/api"),
        (go_mod(AI_DYNAMO, "v1.2.3"), "requires k8s.io/api v1.2.3"),
        ("require k8s.io/api v0.35.0\n", "without a module"),
    ],
)
def test_unclear_go_mod_is_refused(text: str, complaint: str) -> None:
    """A go.mod from which the minor does not follow beyond doubt is an error, not a guess."""
    with pytest.raises(script.ReadError, match=complaint):
        script.module_and_minor(text)


@pytest.mark.parametrize("line", ["not json", '["v0.1.0-alpha.1"]', '{"release": "v0.1.0-alpha.1"}', ""])
def test_malformed_table_is_refused(clone: Path, table: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    """A line that is not a release with an algorithm is named by its number, and the table stays."""
    table.write_text(line + "\n")
    assert script.main(["--git", str(clone), "--table", str(table), "--write"]) == 1
    assert "Line 1 of the table" in capsys.readouterr().err
    assert table.read_text() == line + "\n"


def test_checked_in_table_is_complete() -> None:
    """Every line of the table that ships has all columns, and no release has two."""
    table = rows(ROOT / "migrator" / "hashing" / "releases.json")
    names = [row["release"] for row in table]
    assert len(set(names)) == len(names)
    for row in table:
        assert tuple(row)[:5] == script.COLUMNS
        assert row["algorithm"] in {"legacy", "canonical"}
        assert row["module"] == (NVIDIA if row["minor"] == "1.33" else AI_DYNAMO)
        assert bool(row.get("dev")) == row["release"].startswith("main-")
        assert bool(row.get("acceptsLegacy")) == (row["algorithm"] == "canonical")
