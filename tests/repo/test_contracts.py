"""The shape of the house: contracts between packages, each broken on purpose, and sizes of files and classes."""

from __future__ import annotations

import ast
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
    ("layers", "grove/model.py", "import migrator.planning.planner"),
    ("layers", "stores/dump/store.py", "import migrator.run.snapshot"),
    ("layers", "exact_json.py", "import migrator.store"),
    ("layers", "newcomer.py", ""),
    ("core", "planning/disruption.py", "import threading"),
    ("core", "grove/trees.py", "import pathlib"),
    ("core", "hashing/fnv.py", "import migrator.store"),
    ("core", "operators/elf.py", "import subprocess"),
    ("seam", "run/record.py", "import kubernetes"),
    ("seam", "render/page.py", "import migrator.stores.dump.reader"),
    ("drawing", "render/summary.py", "import migrator.run.migration"),
    ("guards", "planning/guards/gangs.py", "import migrator.planning.guards.values"),
)

_LINES_OF_THE_RUN: Final = 600
_LINES_OF_A_FILE: Final = 400
_LINES_OF_A_CLASS: Final = 250


@pytest.mark.parametrize(("contract", "module", "line"), _VIOLATIONS, ids=lambda value: str(value)[:40])
def test_violation(tmp_path: Path, contract: str, module: str, line: str) -> None:
    """One import against a contract breaks that contract, by its name."""
    shutil.copytree(ROOT / "migrator", tmp_path / "migrator", ignore=shutil.ignore_patterns("__pycache__", "*.json*"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    target = tmp_path / "migrator" / module
    target.parent.mkdir(exist_ok=True)
    (target.parent / "__init__.py").touch()
    target.write_text((target.read_text(encoding="utf-8") if target.exists() else "") + f"\n{line}\n", encoding="utf-8")
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
    """The contract between guards names every module that has checks."""
    named = contracts()["guards"]["modules"]
    guards = (ROOT / "migrator" / "planning" / "guards").glob("*.py")
    assert {name.rsplit(".", 1)[-1] for name in named} == {
        path.stem for path in guards if "\nCHECKS" in path.read_text(encoding="utf-8")
    }


def test_contributing_shows_the_layers() -> None:
    """The line of layers in CONTRIBUTING.md is that of the contract."""
    shown = " → ".join(contracts()["layers"]["layers"])
    assert f"\n{shown}\n" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def modules(*folders: str) -> Iterator[tuple[str, ast.Module, int]]:
    """Path, syntax tree and number of lines of every module below the folders."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            yield str(path.relative_to(ROOT)), ast.parse(text), len(text.splitlines())


def test_files_and_classes_stay_small() -> None:
    """A file has 400 lines at most and a class 250, tests included, so that one job fits on a few screens.

    The run is one class in one file of 600, because it is read from top to bottom.
    """
    large: list[str] = []
    for path, tree, lines in modules("migrator", "tests", "testbed", "benchmarks", "scripts"):
        if path == "migrator/run/migration.py" and lines <= _LINES_OF_THE_RUN:
            continue
        if lines > _LINES_OF_A_FILE:
            large.append(path)
        classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
        too_long = (one for one in classes if (one.end_lineno or 0) - one.lineno >= _LINES_OF_A_CLASS)
        large += [f"{path}: {one.name}" for one in too_long]
    assert large == []


def test_only_tests_import_tests() -> None:
    """The product, its scripts, its benchmarks and what they share with the tests work without them."""
    for path, tree, _ in modules("migrator", "scripts", "benchmarks", "testbed"):
        for node in ast.walk(tree):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in names if name.partition(".")[0] == "tests"], path
