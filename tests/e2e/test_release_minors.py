"""The script that reads each Grove release's k8s.io/api minor from that release's own go.mod."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import release_minors as script
from tests.support.commands import run

TABLE = """\
{"release": "v0.1.0-alpha.3", "algorithm": "legacy"}
{"release": "v0.1.0-alpha.9", "algorithm": "legacy", "source": "x"}
"""


def go_mod(api: str) -> str:
    """A go.mod as small as the script's question."""
    requires = f"require (\n\tk8s.io/api {api}\n\tk8s.io/apimachinery v0.99.0\n)\n"
    return f"module example.test/operator\n\ngo 1.25\n\n{requires}"


def git(directory: Path, *arguments: str) -> str:
    """Run git as nobody in particular."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    return run("git", *identity, *arguments, cwd=directory).strip()


def commit(clone: Path, text: str) -> str:
    """Commit one go.mod, and return the commit."""
    (clone / "operator" / "go.mod").write_text(text)
    git(clone, "add", "-A")
    git(clone, "commit", "-q", "-m", "go.mod")
    return git(clone, "rev-parse", "HEAD")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with two releases, the later one annotated."""
    (tmp_path / "clone" / "operator").mkdir(parents=True)
    git(tmp_path / "clone", "init", "-q")
    commit(tmp_path / "clone", go_mod("v0.33.4"))
    git(tmp_path / "clone", "tag", "operator/v0.1.0-alpha.3")
    commit(tmp_path / "clone", go_mod("v0.34.3"))
    git(tmp_path / "clone", "tag", "-a", "-m", "release", "operator/v0.1.0-alpha.9")
    return tmp_path / "clone"


def test_a_clone_fills_minor_and_commit(clone: Path, tmp_path: Path) -> None:
    """They come from each release's tag, or from the commit that a main- build names; what a person wrote stays."""
    tagged = git(clone, "rev-parse", "operator/v0.1.0-alpha.9^{commit}")[:8]
    newest = commit(clone, go_mod("v0.35.5"))[:8]
    table = tmp_path / "releases.json"
    table.write_text(f'{TABLE}{{"release": "main-{newest}", "algorithm": "canonical"}}\n')
    script.main(clone, table)
    written = table.read_text()
    script.main(clone, table)
    assert table.read_text() == written
    old, middle, new = map(json.loads, written.splitlines())
    assert [row["minor"] for row in (old, new)] == ["1.33", "1.35"]
    own = {"release": "v0.1.0-alpha.9", "algorithm": "legacy", "source": "x"}
    assert middle == {**own, "minor": "1.34", "commit": tagged}


def test_a_line_without_a_tag_is_never_guessed(clone: Path, tmp_path: Path) -> None:
    """The release is named, and the table stays as it is."""
    line = '{"release": "v0.1.0-alpha.99", "algorithm": "legacy"}\n'
    table = tmp_path / "releases.json"
    table.write_text(TABLE + line)
    with pytest.raises(SystemExit, match=r"v0\.1\.0-alpha\.99"):
        script.main(clone, table)
    assert table.read_text() == TABLE + line


def test_a_release_that_nobody_has_read_is_named(
    clone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is left out of the table, and whoever runs the script learns of it."""
    git(clone, "tag", "operator/v0.1.0-alpha.12")
    (table := tmp_path / "releases.json").write_text(TABLE)
    script.main(clone, table)
    assert len(table.read_text().splitlines()) == 2
    assert "not in the table: v0.1.0-alpha.12" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        go_mod("v0.35.5") + "replace k8s.io/api => k8s.io/api v0.34.0\n",
        "require k8s.io/apimachinery v0.35.0\n",
        go_mod("v1.2.3"),
    ],
)
def test_unclear_go_mod_is_refused(text: str) -> None:
    """A go.mod from which the minor does not follow beyond doubt is an error, not a guess."""
    with pytest.raises(ValueError, match="does not say which"):
        script.minor_of(text)


def test_checked_in_table_is_complete() -> None:
    """Every line of the table that ships has all columns, in their order, and no release has two."""
    rows = [json.loads(line) for line in script.TABLE.read_text().splitlines()]
    assert len({row["release"] for row in rows}) == len(rows)
    assert {tuple(row)[:4] for row in rows} == {script.COLUMNS}
