"""Run one pod of a real node to its end, in the namespaces of ``python -m tests.node --probe``.

The pod is restricted as our Job's is, has a memory limit, and connects to the API server from inside.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Final

from testbed.controlplane.client import Client, eventually
from tests.node import inside
from tests.node.cluster import Machine
from tests.node.real import SANDBOX

_SECONDS: Final = 180
_CONTAINER: Final = {
    "name": "probe",
    "image": SANDBOX,
    "command": ["/bin/busybox", "sh", "-c", f"/bin/busybox nc -w 30 {inside.SERVICE} 443 </dev/null"],
    "resources": {"limits": {"memory": "64Mi"}},
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}
_POD: Final = {
    "metadata": {"name": "probe"},
    "spec": {"automountServiceAccountToken": False, "restartPolicy": "Never", "containers": [_CONTAINER]},
}
_CREATED: Final = 201


def _ended(client: Client, seen: dict[str, Any]) -> bool:
    seen.update(client.get("v1", "Pod", "probe", "default")["status"])
    return seen["phase"] in {"Succeeded", "Failed"}


def main() -> int:
    """Whether the pod has succeeded, as an exit code; its status on standard error if not."""
    status: dict[str, Any] = {}
    with Machine() as machine, contextlib.closing(machine.server.client()) as client:
        path = "/api/v1/namespaces/default/pods"
        # The namespace's ServiceAccount, which comes a moment later, is asked for.
        eventually(lambda: client.request("POST", path, _POD).status == _CREATED, what="no pod can be created")
        with contextlib.suppress(TimeoutError):
            eventually(lambda: _ended(client, status), what="the pod does not end", seconds=_SECONDS)
        if status["phase"] != "Succeeded":
            sys.stderr.write(f"the pod does not succeed: {status}\n{machine.node.logs()}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
