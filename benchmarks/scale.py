"""Grove's scale test, as an operator leaves it: what the run and the reading of a dump are measured on."""

from __future__ import annotations

from typing import Any, Final

from migrator.hashing import podcliqueset, schemes
from testbed import workloads
from testbed.trees import grow

Object = dict[str, Any]

#: The migration that is measured: what the operator of alpha.9 stores becomes what the one of alpha.11 expects.
SOURCE: Final = "legacy-1.34"
TARGET: Final = "legacy-1.35"
LINE: Final = "alpha.9"

_PODS_OF_A_CLIQUE: Final = 2


def scale_test(pods: int) -> list[Object]:
    """One set, and a PodClique for every two pods (``operator/e2e/yaml/scale-test-1000.yaml``)."""
    clique = workloads.clique("expert-worker", replicas=_PODS_OF_A_CLIQUE, containers=("expert-worker",))
    pcs = workloads.pod_clique_set("scale-test", [clique], replicas=pods // _PODS_OF_A_CLIQUE)
    return grow(pcs, podcliqueset.SetHasher(pcs).under(schemes.by_name(SOURCE)))
