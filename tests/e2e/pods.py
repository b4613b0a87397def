"""The sets of the upgrade tests in a form that a laptop can run."""

from __future__ import annotations

import copy
from typing import Final

from testbed.controlplane.client import Object
from testbed.kind import BUSYBOX

# Runs until it is asked to end, and ends then at once: a shell as process 1 would not. It ignores the args.
COMMAND: Final = ("sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait")
#: Kubelet itself, which answers on its own node: a command in each of dozens of pods would keep a processor busy.
HEALTH: Final = {"host": "127.0.0.1", "port": 10248, "path": "/healthz"}


def small(pcs: Object) -> Object:
    """A set with every container's image, command, probe and resources exchanged; all else is as it was.

    No GPUs, and hardly any memory: dozens of such pods fit on one node.
    """
    found = copy.deepcopy(pcs)
    for clique in found["spec"]["template"]["cliques"]:
        for container in clique["spec"]["podSpec"]["containers"]:
            container["image"] = BUSYBOX
            container["command"] = list(COMMAND)
            if "resources" in container:
                limits = {"memory": "64Mi", "cpu": "150m"}
                container["resources"] = {"limits": limits, "requests": {"memory": "1.5Mi", "cpu": "1m"}}
            if "readinessProbe" in container:
                container["readinessProbe"] = {"httpGet": dict(HEALTH), "periodSeconds": 5}
    return found
