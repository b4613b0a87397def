"""Make the golden vectors: `python -m tests.oracle.regenerate` calls this."""

from __future__ import annotations

from collections.abc import Iterable

from tests.golden import cases, vectors
from tests.oracle.build import MINORS, NEWEST
from tests.oracle.client import ask, line, random_lines

SEED = 20260819
RANDOM_TEMPLATES = 1600
RANDOM_POD_CLIQUE_SETS = 150


def main() -> None:
    """Write both files."""
    templates = _lines("input", cases.templates())
    templates += random_lines(NEWEST, SEED, RANDOM_TEMPLATES)
    pod_clique_sets = _lines("pcs", cases.pod_clique_sets())
    pod_clique_sets += random_lines(NEWEST, SEED, RANDOM_POD_CLIQUE_SETS, sets=True)
    for path, lines in ((vectors.TEMPLATES, templates), (vectors.POD_CLIQUE_SETS, pod_clique_sets)):
        replies = {minor: ask(minor, lines) for minor in MINORS}
        vectors.write(path, vectors.rendered(lines, replies))


def _lines(kind: str, made: Iterable[cases.Case]) -> list[bytes]:
    return [line(case.id, kind, case.text) for case in made]
