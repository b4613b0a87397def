"""Make the golden vectors: `python -m tests.oracle.regenerate` calls this."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from testbed.oracle import MINORS, NEWEST
from tests.oracle.client import ask, line, random_lines
from tests.oracle.golden import cases, vectors

SEED = 20260819
RANDOM_TEMPLATES = 1600
RANDOM_POD_CLIQUE_SETS = 150


def main() -> None:
    """Write both files."""
    for path in (vectors.TEMPLATES, vectors.POD_CLIQUE_SETS):
        vectors.write(path, content(path))


def content(path: Path) -> bytes:
    """Return what a vector file should hold, before compression."""
    lines = _templates() if path == vectors.TEMPLATES else _pod_clique_sets()
    return vectors.rendered(lines, {minor: ask(minor, lines) for minor in MINORS})


def _templates() -> list[bytes]:
    return _lines("input", cases.templates()) + random_lines(NEWEST, SEED, RANDOM_TEMPLATES)


def _pod_clique_sets() -> list[bytes]:
    drawn = random_lines(NEWEST, SEED, RANDOM_POD_CLIQUE_SETS, sets=True)
    return _lines("pcs", cases.pod_clique_sets()) + drawn


def _lines(kind: str, made: Iterable[cases.Case]) -> list[bytes]:
    return [line(case.id, kind, case.text) for case in made]
