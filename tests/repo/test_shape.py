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


def test_files_and_classes_of_the_product_stay_small() -> None:
    """A file has 400 lines at most and a class 250, so that one job fits on a few screens."""
    for path, tree, lines in modules("migrator"):
        assert lines <= _LINES_OF_A_FILE, path
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.end_lineno is not None:
                assert node.end_lineno - node.lineno < _LINES_OF_A_CLASS, f"{path}: {node.name}"


def test_only_tests_import_tests() -> None:
    """The product, its scripts, its benchmarks and what they share with the tests work without them."""
    for path, tree, _ in modules("migrator", "scripts", "benchmarks", "testbed"):
        for node in ast.walk(tree):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in names if name.partition(".")[0] == "tests"], path
