"""The script that reads each Grove release's k8s.io/api minor from that release's own go.mod."""

from __future__ import annotations

import json
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


def test_a_clone_fills_minor_module_and_commit(clone: Path, table: Path) -> None:
    """They come from each release's tag, or from the commit that a main- build names; what a person wrote stays."""
    tagged = git(clone, "rev-parse", "operator/v0.1.0-alpha.9^{commit}")[:8]
    commit = commit_go_mod(clone, go_mod(AI_DYNAMO, "v0.35.5"))[:8]
    with table.open("a") as file:
        file.write(json.dumps({"release": f"main-{commit}", "algorithm": "canonical", "dev": True}) + "\n")
    script.main(clone, table)
    written = table.read_text()
    script.main(clone, table)
    assert table.read_text() == written
    assert [(row["minor"], row["module"]) for row in rows(table)[::2]] == [("1.33", NVIDIA), ("1.35", AI_DYNAMO)]
    assert rows(table)[1] == {
        "release": "v0.1.0-alpha.9",
        "minor": "1.34",
        "algorithm": "legacy",
        "module": AI_DYNAMO,
        "commit": tagged,
        "podGangMaps": True,
    }


@pytest.mark.parametrize("release", ["v0.1.0-alpha.99", "v0.1.0-alpha.10"], ids=["without a tag", "without a line"])
def test_what_nobody_has_read_is_never_guessed(clone: Path, table: Path, release: str) -> None:
    """The release is named, and the table stays as it is."""
    if release.endswith("99"):
        table.write_text(f'{table.read_text()}{{"release": "{release}", "algorithm": "legacy"}}\n')
    else:
        git(clone, "tag", f"operator/{release}")
    before = table.read_bytes()
    with pytest.raises(SystemExit, match=release):
        script.main(clone, table)
    assert table.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        go_mod(AI_DYNAMO, "v0.35.5") + "replace k8s.io/api => k8s.io/api v0.34.0\n",
        f"module {AI_DYNAMO}\nrequire k8s.io/apimachinery v0.35.0\n",
        go_mod(AI_DYNAMO, "v1.2.3"),
        "require k8s.io/api v0.35.0\n",
    ],
)
def test_unclear_go_mod_is_refused(text: str) -> None:
    """A go.mod from which the minor does not follow beyond doubt is an error, not a guess."""
    with pytest.raises(ValueError, match="does not say which"):
        script.module_and_minor(text)


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
