"""The shape of the house: contracts between packages, each broken on purpose, and sizes of files."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.paths import ROOT

_VIOLATIONS: Final = (
    ("layers", "exact_json.py", "import migrator.store"),
    ("layers", "newcomer.py", ""),
    ("core", "hashing/fnv.py", "import threading"),
    ("seam", "run/record.py", "import kubernetes"),
    ("drawing", "render/summary.py", "import migrator.run.migration"),
    ("guards", "planning/guards/updates.py", "import migrator.planning.guards.values"),
)

_LINES_OF_THE_RUN: Final = 600
_LINES_OF_A_FILE: Final = 400


@pytest.mark.parametrize(("contract", "module", "line"), _VIOLATIONS, ids=lambda value: str(value)[:40])
def test_violation(tmp_path: Path, contract: str, module: str, line: str) -> None:
    """One import against a contract breaks that contract, by its name."""
    shutil.copytree(ROOT / "migrator", tmp_path / "migrator", ignore=shutil.ignore_patterns("__pycache__", "*.json*"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "migrator" / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    command = (Path(sys.executable).parent / "lint-imports", "--no-cache", "--no-logo", "--contract", contract)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "BROKEN" in done.stdout
    assert module.rsplit("/", 1)[-1].removesuffix(".py") in done.stdout


def contracts() -> dict[str, Any]:
    """The contracts of pyproject.toml, by their ids."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {contract["id"]: contract for contract in project["tool"]["importlinter"]["contracts"]}


def test_every_guard_is_named() -> None:
    """The contract between guards names every module of theirs."""
    named = {name.rsplit(".", 1)[-1] for name in contracts()["guards"]["modules"]}
    modules = {path.stem for path in (ROOT / "migrator" / "planning" / "guards").glob("*.py")}
    assert named == modules - {"__init__", "base", "cluster"}


def test_contributing_shows_the_layers() -> None:
    """The line of layers in CONTRIBUTING.md is that of the contract."""
    shown = " → ".join(contracts()["layers"]["layers"])
    assert f"\n{shown}\n" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_files_stay_small() -> None:
    """A file has 400 lines at most, tests included; the run has 600, because it is read from top to bottom."""
    paths = [path for folder in ("migrator", "tests", "testbed", "benchmarks", "scripts") for path in _modules(folder)]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert lengths.pop("migrator/run/migration.py") <= _LINES_OF_THE_RUN
    assert [path for path, lines in lengths.items() if lines > _LINES_OF_A_FILE] == []


def _modules(folder: str) -> Iterator[Path]:
    return (ROOT / folder).rglob("*.py")
