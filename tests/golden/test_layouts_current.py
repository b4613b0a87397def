"""What is generated and checked in is what the oracle says today."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.golden import layouts, regenerate
from tests.golden.vectors import vectors

pytestmark = pytest.mark.differential


def test_layouts_are_current() -> None:
    """Every layout file has the text that the oracles print, and there is no other file beside them."""
    expected = layouts.rendered()
    found = {path: path.read_text(encoding="utf-8") for path in layouts.LAYOUTS.glob("*.json")}
    assert found == expected, "run python -m tests.golden.regenerate"


@pytest.mark.parametrize("path", [vectors.TEMPLATES, vectors.POD_CLIQUE_SETS], ids=lambda path: path.name)
def test_golden_vectors_are_current(path: Path) -> None:
    """The oracles of today make every golden input and hash again, to the byte."""
    assert gzip.decompress(path.read_bytes()) == regenerate.golden(path), "run python -m tests.golden.regenerate"
