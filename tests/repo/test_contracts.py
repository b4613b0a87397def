"""The contracts between packages: a deliberate violation of each fails, and they name what there is."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from tests.support.paths import ROOT

_VIOLATIONS: Final = (
    ("layers", "grove/model.py", "import migrator.planning.planner"),
    ("layers", "stores/dump/store.py", "import migrator.run.snapshot"),
    ("layers", "exact_json.py", "import migrator.store"),
    ("layers", "newcomer.py", ""),
    ("core", "planning/blast.py", "import threading"),
    ("core", "grove/trees.py", "import pathlib"),
    ("core", "hashing/fnv.py", "import migrator.store"),
    ("core", "run/decisions.py", "import time"),
    ("core", "operators/elf.py", "import subprocess"),
    ("seam", "run/record.py", "import kubernetes"),
    ("seam", "render/page.py", "import migrator.stores.dump.file"),
    ("drawing", "render/summary.py", "import migrator.run.loop"),
    ("guards", "planning/guards/gangs.py", "import migrator.planning.guards.values"),
)


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


def test_every_guard_is_named() -> None:
    """The contract between guards names every module that has checks."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    named = next(contract["modules"] for contract in contracts if contract["id"] == "guards")
    guards = (ROOT / "migrator" / "planning" / "guards").glob("*.py")
    assert {name.rsplit(".", 1)[-1] for name in named} == {
        path.stem for path in guards if "\nCHECKS" in path.read_text(encoding="utf-8")
    }


def test_contributing_shows_the_layers() -> None:
    """The line of layers in CONTRIBUTING.md is that of the contract."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(item["layers"] for item in project["tool"]["importlinter"]["contracts"] if item["id"] == "layers")
    shown = " → ".join(layer for layer in layers)
    assert f"\n{shown}\n" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
