"""Read the lists that a run reads, and do nothing with them: ``python -m benchmarks.lists KUBECONFIG``."""

from __future__ import annotations

import json
import sys
from time import perf_counter, process_time

from migrator import kube
from migrator import store as seam
from migrator.errors import NotFound
from migrator.model import LABEL_MANAGED_BY, MANAGED_BY_GROVE


def main(kubeconfig: str) -> None:
    """Print seconds of the clock and of CPU, as one JSON object."""
    store = kube.connect(kubeconfig=kubeconfig)
    began, cpu = perf_counter(), process_time()
    for resource in (seam.POD_CLIQUE_SETS, seam.POD_GANG_MAPS, seam.POD_CLIQUE_SCALING_GROUPS, seam.POD_CLIQUES):
        try:
            store.list(resource, lambda _raw: None)
        except NotFound:
            continue
    store.list(
        seam.PODS, lambda _raw: None, label_selector=f"{LABEL_MANAGED_BY}={MANAGED_BY_GROVE}", metadata_only=True
    )
    print(json.dumps({"seconds": perf_counter() - began, "cpuSeconds": process_time() - cpu}))


if __name__ == "__main__":
    main(sys.argv[1])
