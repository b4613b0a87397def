"""The shape of the house: sizes of files and classes, and who may import the tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tests.support.paths import ROOT

_LINES_OF_A_FILE: Final = 400
_LINES_OF_A_CLASS: Final = 250


def modules(*folders: str) -> Iterator[tuple[str, ast.Module, int]]:
    """Path, syntax tree and number of lines of every module below the folders."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            yield str(path.relative_to(ROOT)), ast.parse(text), len(text.splitlines())


def test_files_and_classes_stay_small() -> None:
    """A file has 400 lines at most and a class 250, tests included, so that one job fits on a few screens."""
    large: list[str] = []
    for path, tree, lines in modules("migrator", "tests", "testbed", "benchmarks", "scripts"):
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
