"""What CONTRIBUTING.md promises to a contributor who adds a release."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import attempt
from tests.support.paths import ROOT

LINE = '{"release": "v9.9.9", "minor": "1.36", "algorithm": "legacy", "source": "https://example.test"}\n'


@pytest.fixture
def grown(tmp_path: Path) -> Path:
    """The package with one line more in the release table, and nothing else."""
    shutil.copytree(ROOT / "migrator", tmp_path / "migrator", ignore=shutil.ignore_patterns("__pycache__"))
    table = tmp_path / "migrator" / "releases" / "releases.json"
    table.write_text(table.read_text() + LINE)
    return tmp_path


def answer(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tool as it is in a directory."""
    return attempt(sys.executable, "-m", "migrator", *arguments, cwd=directory, PYTHONPATH=str(directory))


def test_one_line_adds_a_release(grown: Path) -> None:
    """A made-up release is planned for by its line in the table alone."""
    dump = str(ROOT / "examples" / "cluster.yaml")
    before = answer(ROOT, "plan", "-f", dump, "--to", "v9.9.9")
    assert before.returncode == 2
    assert "is not a known release or scheme" in before.stderr

    planned = answer(grown, "plan", "-f", dump, "--to", "9.9.9", "-o", "json")
    assert planned.returncode == 0, planned.stderr
    assert {tree["to"] for tree in json.loads(planned.stdout)["trees"]} == {"legacy-1.36"}

    named = answer(grown, "releases")
    assert "v9.9.9" in named.stdout
    assert "legacy-1.36" in next(line for line in named.stdout.splitlines() if line.startswith("v9.9.9"))
