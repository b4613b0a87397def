"""The sets that the matrix upgrades: the shapes of Grove's own samples, in our own words."""

from __future__ import annotations

from typing import Any

from tests import workloads
from tests.controlplane.client import Object
from tests.upgrade.lab import WORKLOADS


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
    container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "infinity"]}
    return workloads.pod_clique_set("busybox", [_plain("one", container)], namespace=WORKLOADS, replicas=2)


def ordered() -> Object:
    """Two cliques that start one after the other, so that Grove adds an init container; not in the order of names."""
    cliques = [
        _plain(name, {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", "sleep 1 && sleep infinity"]})
        for name in ("second", "first")
    ]
    return workloads.pod_clique_set("ordered", cliques, namespace=WORKLOADS, startup="CliqueStartupTypeInOrder")


def all_sets() -> list[Object]:
    """Every set of the matrix."""
    return [gang(), disaggregated(), busybox(), ordered()]


def _plain(name: str, container: dict[str, Any]) -> Object:
    spec = {"roleName": name, "replicas": 2, "minAvailable": 1, "podSpec": {"containers": [container]}}
    return {"name": name, "spec": spec}
