"""Write everything that is generated from the oracle: `python -m tests.golden.regenerate`."""

from __future__ import annotations

import gzip
from pathlib import Path

from testbed.oracle import MINORS, ask, line
from tests.golden import layouts
from tests.golden.inputs import random_lines
from tests.golden.vectors import cases, vectors

SEED = 20260819
RANDOM_TEMPLATES = 1600
RANDOM_POD_CLIQUE_SETS = 150


def main() -> None:
    """Rewrite the layout files, and then the golden vectors, whose inputs are made from the layouts."""
    for path, text in layouts.rendered().items():
        path.write_text(text, encoding="utf-8")
    for path in (vectors.TEMPLATES, vectors.POD_CLIQUE_SETS):
        # The same for the same content: no name and no time in the header.
        path.write_bytes(gzip.compress(golden(path), compresslevel=9, mtime=0))


def golden(path: Path) -> bytes:
    """Return what a vector file should hold, before compression."""
    if path == vectors.TEMPLATES:
        lines = [line(case.id, "input", case.text) for case in cases.templates()]
        lines += random_lines(SEED, RANDOM_TEMPLATES)
    else:
        lines = [line(case.id, "pcs", case.text) for case in cases.pod_clique_sets()]
        lines += random_lines(SEED, RANDOM_POD_CLIQUE_SETS, sets=True)
    return vectors.rendered(lines, {minor: ask(minor, lines) for minor in MINORS})


if __name__ == "__main__":
    main()
