"""The Python hash against golden vectors; needs no Go."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from migrator.exact_json import loads
from testbed.oracle import MINORS
from tests.golden.compare import UNKNOWABLE, set_hashes, template_hash
from tests.golden.vectors import vectors
from tests.golden.vectors.vectors import SCHEMES, Vector
from tests.support.layout_walk import types
from tests.support.tables import table

SHARED = os.environ.get("GROVE_MIGRATOR_SHARED_VECTORS")
SHOWN = 10

read = cache(vectors.read)


@table(
    "path compute",
    ("A template has the hash, or is refused as Go refused it or as unknowable.", (vectors.TEMPLATES, template_hash)),
    ("A PodCliqueSet has the generation hash and the template hashes.", (vectors.POD_CLIQUE_SETS, set_hashes)),
)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_vectors_hash_as_recorded(scheme: str, path: Path, compute: Callable[..., Any]) -> None:
    """Python makes of every golden vector what Go made of it."""
    found = read(path)
    got = [compute(v.input, scheme) for v in found]
    wrong = [_shown(v, g) for v, g in zip(found, got, strict=True) if g not in (v.hashes[scheme], UNKNOWABLE)]
    assert got.count(UNKNOWABLE) < len(found) // 40
    assert not wrong, f"{len(wrong)} of {len(found)} differ:\n" + "\n".join(wrong[:SHOWN])


def test_the_vectors_tell_all_schemes_apart() -> None:
    """Every template has a legacy hash of its own in each layout, and a fair part is not in canonical order."""
    taken = [v.hashes for v in read(vectors.TEMPLATES) if None not in v.hashes.values()]
    layouts = {json.dumps(types(minor), sort_keys=True) for minor in MINORS}
    for hashes in taken:
        assert len({value for scheme, value in hashes.items() if scheme.startswith("legacy-")}) == len(layouts)
    for minor in MINORS:
        reordered = [hashes for hashes in taken if hashes[f"legacy-{minor}"] != hashes[f"canonical-{minor}"]]
        assert len(reordered) > len(taken) // 5


if SHARED is not None:  # only on request: without the variable there is no such test

    @pytest.mark.parametrize("name", ["templates.jsonl", "podcliquesets.jsonl"])
    def test_vectors_from_elsewhere(name: str) -> None:
        """Vectors that others computed from the real packages have the hashes that they recorded."""
        compute = template_hash if name == "templates.jsonl" else set_hashes
        lines = (Path(SHARED) / name).read_bytes().strip().split(b"\n")
        wrong = []
        for line in lines:
            vector = loads(line)
            refused = "error" in vector["hashes"]
            for scheme in SCHEMES if refused else vector["hashes"]:
                expected = None if refused else vector["hashes"][scheme]
                if (got := compute(vector["input"], scheme)) != expected:
                    wrong.append(f"{vector['id']}: {scheme}: {got}, recorded {expected}")
        assert not wrong, "\n".join(wrong[:SHOWN])


def _shown(vector: Vector, got: Any) -> str:
    return f"{vector.id}: {got}\n  {vector.line.decode('utf-8', 'backslashreplace')[:2000]}"
