"""The release lines of Grove's API, each named after a release, and their CustomResourceDefinitions.

As far as tests need, alpha.1 and alpha.2 are like alpha.3, alpha.4 and alpha.5 like alpha.6, alpha.7 like alpha.8,
alpha.10 and main at d7cb1bc2 like alpha.11, main at 94a0105c like alpha.9. ``podgangmap`` adds the PodGangMap of
alpha.12 and later to alpha.11.
"""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

HERE: Final = Path(__file__).resolve().parent
GENERATED: Final = HERE / "generated"


@dataclass(frozen=True, slots=True)
class Line:
    """What a line's CRDs are generated from: a go.mod (it names the k8s.io/api minor) and packages below types/."""

    name: str
    module: str
    packages: tuple[str, ...]


_LINES: Final = (
    Line("alpha.3", "k8s-1.33", ("alpha3", "named", "podgangalpha3")),
    Line("alpha.6", "go", ("alpha6", "named", "podgang")),
    Line("alpha.8", "go", ("alpha8", "podgang")),
    Line("alpha.9", "go", ("alpha9", "counted", "podgang", "topology")),
    Line("alpha.11", "k8s-1.35", ("alpha11", "counted", "podgang", "topology")),
    Line("podgangmap", "k8s-1.35", ("alpha11", "counted", "podgang", "topology", "podgangmap")),
)
LINES: Final = {line.name: line for line in _LINES}


def load(line: str) -> list[dict[str, Any]]:
    """Return the CRDs of a line, such as ``alpha.9``.

    They are the generated ones, or, when ``GROVE_CRDS_DIR`` is set, what ``<dir>/<line>/*.yaml`` holds. Raises
    KeyError for a line that is not in LINES, FileNotFoundError when the directory has none for it.
    """
    name = LINES[line].name
    directory = os.environ.get("GROVE_CRDS_DIR")
    if not directory:
        return list(json.loads(gzip.decompress((GENERATED / f"{name}.json.gz").read_bytes())))
    files = sorted((Path(directory) / name).glob("*.yaml"))
    documents = [doc for path in files for doc in yaml.safe_load_all(path.read_text(encoding="utf-8")) if doc]
    crds = [doc for doc in documents if doc.get("kind") == "CustomResourceDefinition"]
    if not crds:
        raise FileNotFoundError(f"GROVE_CRDS_DIR is set, but {Path(directory) / name} has no CRD in *.yaml")
    return crds
