"""The sets that the matrix upgrades: the shapes of Grove's own samples, small enough for a laptop."""

from __future__ import annotations

from typing import Any, Final

from testbed import workloads
from testbed.controlplane.client import Object
from testbed.kind import BUSYBOX
from tests.cluster.site import WORKLOADS

#: The set under OnDelete.
KEPT: Final = "kept"

# Runs until it is asked to end, and ends then at once: a shell as process 1 would not. It ignores the args.
_COMMAND: Final = ("sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait")
#: Kubelet itself, which answers on its own node: a command in each of dozens of pods would keep a processor busy.
_HEALTH: Final = {"host": "127.0.0.1", "port": 10248, "path": "/healthz"}


def gang(name: str = "gang", *, alone: int = 2, grouped: int = 2) -> Object:
    """One clique alone and two that scale together, ten pods: the shape of Grove's ``workload1``."""
    cliques = [
        workloads.clique("pc-a", replicas=alone),
        workloads.clique("pc-b", replicas=1),
        workloads.clique("pc-c", replicas=3),
    ]
    group = {"name": "sg-x", "cliqueNames": ["pc-b", "pc-c"], "replicas": grouped, "minAvailable": 2}
    return _set(name, cliques, groups=[group])


def disaggregated() -> Object:
    """A frontend beside prefill and decode workers, as inference is served."""
    return _small(workloads.disaggregated("disagg", namespace=WORKLOADS))


def busybox() -> Object:
    """One clique with one container, in two replicas: what Grove issue 709 reproduces the problem with."""
    return _set("busybox", [_plain("one")], replicas=2)


def ordered() -> Object:
    """Two cliques that start one after the other, so that Grove adds an init container; not in the order of names."""
    return _set("ordered", [_plain("second"), _plain("first")], startup="CliqueStartupTypeInOrder")


def started() -> Object:
    """Workers that wait for a bootstrap clique by name: the shape of Grove's own upgrade test."""
    cliques = [_plain("worker"), _plain("bootstrap")]
    cliques[0]["spec"]["startsAfter"] = ["bootstrap"]
    return _set("started", cliques, startup="CliqueStartupTypeExplicit")


def kept() -> Object:
    """A clique alone and a group under OnDelete: pods are replaced when somebody else deletes them."""
    cliques = [workloads.clique("leader"), workloads.clique("follower")]
    group = {"name": "followers", "cliqueNames": ["follower"], "replicas": 1, "minAvailable": 1}
    return _set(KEPT, cliques, groups=[group], on_delete=True)


def all_sets(*, on_delete: bool) -> list[Object]:
    """Every set of the matrix; one under OnDelete where the operator knows that."""
    return [gang(), disaggregated(), busybox(), ordered(), started(), *([kept()] if on_delete else [])]


def _plain(name: str) -> Object:
    spec: Object = {"roleName": name, "replicas": 2, "minAvailable": 1, "podSpec": {"containers": [{"name": "main"}]}}
    return {"name": name, "spec": spec}


def _set(name: str, cliques: list[Object], **options: Any) -> Object:
    return _small(workloads.pod_clique_set(name, cliques, namespace=WORKLOADS, **options))


def _small(pcs: Object) -> Object:
    """A new set with every container's image, command, probe and resources exchanged; all else is as it was.

    No GPUs, and hardly any memory: dozens of such pods fit on one node.
    """
    for clique in pcs["spec"]["template"]["cliques"]:
        for container in clique["spec"]["podSpec"]["containers"]:
            container["image"] = BUSYBOX
            container["command"] = list(_COMMAND)
            if "resources" in container:
                limits = {"memory": "64Mi", "cpu": "150m"}
                container["resources"] = {"limits": limits, "requests": {"memory": "1.5Mi", "cpu": "1m"}}
            if "readinessProbe" in container:
                container["readinessProbe"] = {"httpGet": dict(_HEALTH), "periodSeconds": 5}
    return pcs
