"""The sets that the matrix upgrades: the shapes of Grove's own samples, in our own words."""

from __future__ import annotations

from typing import Any, Final

from testbed import workloads
from testbed.controlplane.client import Object
from tests.e2e.lab.cluster import WORKLOADS

#: The set under OnDelete.
KEPT: Final = "kept"

_SLEEPER: Final = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "infinity"]}


def gang() -> Object:
    """One clique alone and two that scale together, ten pods: the shape of Grove's ``workload1``."""
    cliques = [
        workloads.clique("pc-a", replicas=2),
        workloads.clique("pc-b", replicas=1),
        workloads.clique("pc-c", replicas=3),
    ]
    group = {"name": "sg-x", "cliqueNames": ["pc-b", "pc-c"], "replicas": 2, "minAvailable": 2}
    return workloads.pod_clique_set("gang", cliques, namespace=WORKLOADS, groups=[group])


def disaggregated() -> Object:
    """A frontend beside prefill and decode workers, as inference is served."""
    return workloads.disaggregated("disagg", namespace=WORKLOADS)


def busybox() -> Object:
    """One clique with one container, in two replicas: what Grove issue 709 reproduces the problem with."""
    return workloads.pod_clique_set("busybox", [_plain("one", _SLEEPER)], namespace=WORKLOADS, replicas=2)


def ordered() -> Object:
    """Two cliques that start one after the other, so that Grove adds an init container; not in the order of names."""
    cliques = [
        _plain(name, {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", "sleep 1 && sleep infinity"]})
        for name in ("second", "first")
    ]
    return workloads.pod_clique_set("ordered", cliques, namespace=WORKLOADS, startup="CliqueStartupTypeInOrder")


def started() -> Object:
    """Workers that wait for a bootstrap clique by name: the shape of Grove's own upgrade test."""
    cliques = [_plain("worker", _SLEEPER), _plain("bootstrap", _SLEEPER)]
    cliques[0]["spec"]["startsAfter"] = ["bootstrap"]
    return workloads.pod_clique_set("started", cliques, namespace=WORKLOADS, startup="CliqueStartupTypeExplicit")


def kept() -> Object:
    """A clique alone and a group under OnDelete: pods are replaced when somebody else deletes them."""
    cliques = [workloads.clique("leader"), workloads.clique("follower")]
    group = {"name": "followers", "cliqueNames": ["follower"], "replicas": 1, "minAvailable": 1}
    return workloads.pod_clique_set(KEPT, cliques, namespace=WORKLOADS, groups=[group], on_delete=True)


def all_sets(*, on_delete: bool) -> list[Object]:
    """Every set of the matrix; one under OnDelete where the operator knows that."""
    return [gang(), disaggregated(), busybox(), ordered(), started(), *([kept()] if on_delete else [])]


def _plain(name: str, container: dict[str, Any]) -> Object:
    spec: Object = {"roleName": name, "replicas": 2, "minAvailable": 1, "podSpec": {"containers": [container]}}
    return {"name": name, "spec": spec}
