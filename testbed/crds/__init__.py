"""The release lines of Grove's API, each named after a release, and their CustomResourceDefinitions: Grove's own files.

As far as tests need, alpha.1 and alpha.2 are like alpha.3, alpha.4 and alpha.5 like alpha.6, alpha.7 like alpha.8,
alpha.10 and main at d7cb1bc2 like alpha.11, main at 94a0105c like alpha.9. ``podgangmap`` adds the PodGangMap of
alpha.12 and later to alpha.11, as pull request #778 of Grove has it.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Final

DATA: Final = Path(__file__).resolve().parent / "data"


def line_of(release: str) -> str:
    """The line of a release that is newer than alpha.7, by its name or its version."""
    line = release.removeprefix("v0.1.0-")
    return line if (DATA / f"{line}.json.gz").exists() else "alpha.11"


def write(line: str, directory: Path) -> None:
    """Write the CRDs of a line as Grove's chart has them: into ``crds/``, a file for each, named after group and kind.

    ``operator/hack/prepare-charts.sh`` copies what controller-gen has written: ``grove.io_podcliques.yaml``.
    """
    (directory / "crds").mkdir()
    for crd in load(line):
        name = f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml"
        (directory / "crds" / name).write_text(f"---\n{json.dumps(crd)}\n", encoding="utf-8")


def load(line: str) -> list[dict[str, Any]]:
    """Return the CRDs of a line, such as ``alpha.9``."""
    return list(json.loads(gzip.decompress((DATA / f"{line}.json.gz").read_bytes())))


def without_schema(group: str, version: str, plural: str, kind: str) -> dict[str, Any]:
    """A CRD of somebody else, whose objects may have any field."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    served = {"name": version, "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [served],
        },
    }
