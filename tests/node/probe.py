"""Whether this machine can have a real node, found out by having one: no image of ours, no code of the product's.

Runs in the namespaces of tests.node; exits with 0 once a pod runs, or prints in one line why none does.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Final

from tests.node.cluster import Machine
from tests.node.real import SANDBOX
from tests.support.controlplane.client import Client, eventually

_POD: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "probe", "namespace": "default"},
    "spec": {"containers": [{"name": "probe", "image": SANDBOX, "imagePullPolicy": "Never"}]},
}
_SECONDS: Final = 120


def _pod_runs(client: Client) -> bool:
    return bool(client.get("v1", "Pod", "probe", "default")["status"]["phase"] == "Running")


def _account_is_there(client: Client) -> bool:
    return bool(client.list("v1", "ServiceAccount", "default"))


def main() -> int:
    """Start a node, run a pod on it, and end it."""
    try:
        with Machine() as machine, contextlib.closing(machine.server.client()) as client:
            eventually(lambda: _account_is_there(client), what="there is no account for pods", seconds=_SECONDS)
            client.create(_POD)
            eventually(lambda: _pod_runs(client), what="no pod runs", seconds=_SECONDS)
    except Exception as error:  # noqa: BLE001 - whatever it is, there cannot be a node here
        sys.stdout.write(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
