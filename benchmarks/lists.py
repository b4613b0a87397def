"""Read the lists that a run reads, and do nothing with them: ``python -m benchmarks.lists KUBECONFIG``."""

from __future__ import annotations

import json
import sys
from time import perf_counter, process_time

from migrator import resources
from migrator.errors import NotFound
from migrator.grove.model import LABEL_MANAGED_BY, MANAGED_BY_GROVE
from migrator.stores.kube import store as kube_store


def main(kubeconfig: str) -> None:
    """Print seconds of the clock and of CPU, as one JSON object."""
    store = kube_store.connect(kubeconfig=kubeconfig)
    began, cpu = perf_counter(), process_time()
    for resource in (
        resources.POD_CLIQUE_SETS,
        resources.POD_GANG_MAPS,
        resources.POD_CLIQUE_SCALING_GROUPS,
        resources.POD_CLIQUES,
    ):
        try:
            store.list(resource, lambda _raw: None)
        except NotFound:
            continue
    store.list(
        resources.PODS, lambda _raw: None, label_selector=f"{LABEL_MANAGED_BY}={MANAGED_BY_GROVE}", metadata_only=True
    )
    print(json.dumps({"seconds": perf_counter() - began, "cpuSeconds": process_time() - cpu}))


if __name__ == "__main__":
    main(sys.argv[1])
