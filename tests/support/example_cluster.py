"""Record examples/cluster.yaml: what kubectl prints of the sets in examples/podcliquesets.yaml once they run.

    python -m tests.support.example_cluster > examples/cluster.yaml

The objects are loaded onto a real API server with the CRDs of alpha.9, as an operator that speaks legacy-1.34 leaves
them (Grove v0.1.0-alpha.4 to alpha.9), and read back with kubectl, which must be on PATH.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from migrator.hashing.podcliqueset import hash_pod_clique_set
from migrator.hashing.schemes import by_name
from migrator.stores.dump.store import read_documents
from testbed import trees
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.server import ControlPlane
from testbed.controlplane.trees import load
from tests.support.paths import ROOT

SOURCE: Final = ROOT / "examples" / "podcliquesets.yaml"
SCHEME: Final = "legacy-1.34"
KINDS: Final = "podcliquesets,podcliques,podcliquescalinggroups,pods"


def cluster() -> list[trees.Object]:
    """All objects, owners before owned."""
    return [
        item
        for pcs in read_documents(str(SOURCE))
        for item in trees.grow(
            pcs, hash_pod_clique_set(pcs, by_name(SCHEME)), trees.State(updated=pcs["metadata"]["name"] == "embedder")
        )
    ]


def main() -> int:
    """Load, and print what kubectl prints."""
    with tempfile.TemporaryDirectory() as directory, ControlPlane(Path(directory)) as control_plane:
        apply_crds(control_plane, "alpha.9")
        client = control_plane.client()
        objects = cluster()
        for name in sorted({item["metadata"]["namespace"] for item in objects} - {"default"}):
            client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        load(client, objects)
        command = ["kubectl", "--kubeconfig", str(control_plane.kubeconfig), "get", KINDS, "-A", "-o", "yaml"]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
