"""The golden vector files.

A file is gzipped JSON Lines: first `{"schemes": [...]}`, then a `{"id", "input" or "pcs", "hashes"}` for each vector,
with a hash, or null where Go refuses, for each scheme. Lines are bytes, because an input may not be UTF-8.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from migrator.exact_json import loads
from testbed.oracle import MINORS, Reply

HERE = Path(__file__).resolve().parent
TEMPLATES = HERE / "templates.jsonl.gz"
POD_CLIQUE_SETS = HERE / "podcliquesets.jsonl.gz"
_SCHEMES = tuple(product(("legacy", "canonical"), MINORS))
SCHEMES = tuple("-".join(scheme) for scheme in _SCHEMES)


@dataclass(frozen=True, slots=True)
class Vector:
    """An input, what each scheme makes of it, and the line that an oracle can be asked."""

    id: str
    input: Any
    hashes: dict[str, Any]
    line: bytes


def read(path: Path) -> list[Vector]:
    header, *lines = gzip.decompress(path.read_bytes()).rstrip(b"\n").split(b"\n")
    schemes = json.loads(header)["schemes"]
    vectors = []
    for line in lines:
        entry = loads(line)
        value = entry["pcs"] if "pcs" in entry else entry["input"]
        vectors.append(Vector(entry["id"], value, dict(zip(schemes, entry["hashes"], strict=True)), line))
    return vectors


def rendered(lines: list[bytes], replies: dict[str, list[Reply]]) -> bytes:
    """Return the text of a file for the oracle's input lines and, by minor, its replies."""
    out = [json.dumps({"schemes": SCHEMES}).encode()]
    for index, line in enumerate(lines):
        hashes = [replies[minor][index].get(algorithm) for algorithm, minor in _SCHEMES]
        out.append(line[:-1] + b',"hashes":' + json.dumps(hashes, separators=(",", ":")).encode() + b"}")
    return b"\n".join(out) + b"\n"
