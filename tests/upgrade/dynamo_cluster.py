"""Record examples/dynamo/cluster.json: what kubectl prints of the sets in podcliquesets.yaml beside it, once they run.

    GROVE_OPERATORS_DIR=... python -m tests.upgrade.dynamo_cluster > examples/dynamo/cluster.json

A real operator of v0.1.0-alpha.8 makes everything of them, on a real API server with imitated nodes; kubectl, which
must be on PATH, reads it back. One set has had a rolling update, so that its progress is recorded too.
"""

from __future__ import annotations

import copy
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from migrator.stores.dump import reader
from tests.support.paths import ROOT
from tests.upgrade import photo
from tests.upgrade.builds import BUILDS
from tests.upgrade.lab import Lab

SOURCE: Final = ROOT / "examples" / "dynamo" / "podcliquesets.yaml"
OPERATOR: Final = BUILDS["v0.1.0-alpha.8"]
KINDS: Final = "podcliquesets,podcliques,podcliquescalinggroups,pods,podgangs.scheduler.grove.io"
UPDATED: Final = "embedder"


def fill(lab: Lab) -> None:
    """Install the operator and create the sets; afterwards all pods are up, and one set was updated."""
    lab.install(OPERATOR)
    objects = list(reader.objects(str(SOURCE), spelt=True))
    for name in {item["metadata"]["namespace"] for item in objects}:
        lab.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    account = {"name": "llama-70b-k8s-service-discovery", "namespace": "inference"}
    lab.client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "batch"}}
    lab.client.apply({**priority, "value": 100})
    for item in objects:
        first = copy.deepcopy(item)
        if item["metadata"]["name"] == UPDATED:
            _container(first)["image"] = "example.test/search/embedder:0.8"
        lab.create_set(first)
    lab.settle(lambda now: len(now.of(photo.SET)) == len(objects))
    [item] = [item for item in objects if item["metadata"]["name"] == UPDATED]
    lab.client.apply(item, manager="users")
    lab.settle(lambda now: (photo.SET, UPDATED) in now.updates())


def _container(pcs: dict[str, Any]) -> dict[str, Any]:
    [container] = pcs["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"]
    found: dict[str, Any] = container
    return found


def main() -> int:
    """Let the operator work, and print what kubectl prints."""
    with tempfile.TemporaryDirectory() as directory, Lab(Path(directory)) as lab:
        fill(lab)
        lab.stop_operator()
        command = ["kubectl", "--kubeconfig", str(lab.kubeconfig), "get", KINDS, "-A", "-o", "json"]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
