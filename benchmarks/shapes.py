"""Clusters to measure on: PodCliqueSets with everything that they own, as an operator leaves them."""

from __future__ import annotations

from typing import Any, Final

from migrator.hashing import podcliqueset, schemes
from testbed import workloads
from testbed.trees import State, grow

Object = dict[str, Any]

#: The migration that is measured: what the operator of alpha.9 stores becomes what the one of alpha.11 expects.
SOURCE: Final = "legacy-1.34"
TARGET: Final = "legacy-1.35"
LINE: Final = "alpha.9"

_PODS_OF_A_CLIQUE: Final = 2
_PODS_FOR_A_SMALL_SET: Final = 10


def scale_test(pods: int) -> list[Object]:
    """Grove's scale test: one set, and a PodClique for every two pods (``operator/e2e/yaml/scale-test-1000.yaml``)."""
    clique = workloads.clique("expert-worker", replicas=_PODS_OF_A_CLIQUE, containers=("expert-worker",))
    return _grown(workloads.pod_clique_set("scale-test", [clique], replicas=pods // _PODS_OF_A_CLIQUE))


def small_sets(pods: int) -> list[Object]:
    """Many small sets with templates of their own: two cliques of two pods each, a set for every ten ``pods``."""
    return [item for number in range(pods // _PODS_FOR_A_SMALL_SET) for item in _grown(_small(number))]


SHAPES: Final = {"scale test": scale_test, "small sets": small_sets}


def _small(number: int) -> Object:
    cliques = [workloads.clique(name, replicas=_PODS_OF_A_CLIQUE) for name in ("prefill", "decode")]
    for clique in cliques:
        clique["annotations"] = {"example.test/revision": str(number)}
    return workloads.pod_clique_set(f"small-{number}", cliques)


def _grown(pcs: Object) -> list[Object]:
    hashes = podcliqueset.hash_pod_clique_set(pcs, schemes.by_name(SOURCE))
    return grow(pcs, hashes, State(line=LINE))
