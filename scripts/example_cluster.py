"""Write examples/cluster.yaml: what kubectl prints of the sets in examples/podcliquesets.yaml once they run.

    python -m scripts.example_cluster > examples/cluster.yaml

Every object is as an operator that speaks legacy-1.34 leaves it (Grove v0.1.0-alpha.4 to alpha.9).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from migrator.dump import read_documents
from migrator.hashing.podcliqueset import hash_pod_clique_set
from migrator.hashing.schemes import by_name
from tests import trees

SOURCE: Final = Path(__file__).resolve().parent.parent / "examples" / "podcliquesets.yaml"
SCHEME: Final = "legacy-1.34"
KINDS: Final = ("PodCliqueSet", "PodClique", "PodCliqueScalingGroup", "Pod")


def cluster() -> list[dict[str, Any]]:
    """All objects, kind by kind, as kubectl lists several kinds."""
    objects = [
        item
        for pcs in read_documents(str(SOURCE))
        for item in trees.grow(
            pcs, hash_pod_clique_set(pcs, by_name(SCHEME)), trees.State(updated=pcs["metadata"]["name"] == "embedder")
        )
    ]
    return sorted(objects, key=lambda item: KINDS.index(item["kind"]))


class _Plain(yaml.SafeDumper):
    """YAML as kubectl prints it: what is there twice is written twice."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        """Never an anchor."""
        return True


if __name__ == "__main__":
    yaml.dump(trees.as_list(cluster()), sys.stdout, _Plain, default_flow_style=False, sort_keys=True, width=1000)
