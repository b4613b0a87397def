"""Read the lists that a run reads, and do nothing with them: ``python -m benchmarks.lists KUBECONFIG``."""

from __future__ import annotations

import json
import sys
from time import perf_counter, process_time

from migrator import resources
from migrator.grove.model import LABEL_MANAGED_BY, MANAGED_BY_GROVE
from migrator.grove.sweep import GROUPS
from migrator.stores.kube import store as kube_store


def main(kubeconfig: str) -> None:
    """Print seconds of the clock and of CPU, as one JSON object."""
    store = kube_store.connect(kubeconfig=kubeconfig)
    began, cpu = perf_counter(), process_time()
    selector = f"{LABEL_MANAGED_BY}={MANAGED_BY_GROVE}"
    for kind in (kind for group in GROUPS for kind in store.kinds(group)):
        store.list(kind, lambda _raw: None)
    store.list(resources.PODS, lambda _raw: None, label_selector=selector, metadata_only=True)
    print(json.dumps({"seconds": perf_counter() - began, "cpuSeconds": process_time() - cpu}))


if __name__ == "__main__":
    main(sys.argv[1])
