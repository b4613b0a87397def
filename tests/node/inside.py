"""The first process of a cluster's namespaces, which gives them a network: ``python -m tests.node.inside COMMAND...``.

When it ends, the kernel ends every other process in there, and mounts, links and rules go with the last one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

#: The address of the Service "kubernetes", and the node's.
SERVICE: Final = "10.96.0.1"
NODE: Final = "10.99.0.1"
_NETWORK: Final = (
    "link set lo up",
    f"address add {SERVICE}/32 dev lo",
    "link add node0 type bridge",
    f"address add {NODE}/24 dev node0",
    "link set node0 up",
    "route add default dev node0",
)
# Pods reach the API server, which listens on the loopback interface, by a rule that rewrites the address.
_SYSCTL: Final = {"ip_forward": "1", "conf/all/route_localnet": "1", "conf/all/rp_filter": "0"}
_OWN: Final = ("/run", "/var/log", "/var/lib")


def prepare() -> None:
    """Directories that the programs share with others elsewhere, and a network that leads nowhere."""
    for directory in _OWN:
        _run("mount", "-t", "tmpfs", "tmpfs", directory)
    for command in _NETWORK:
        _run("ip", *command.split())
    for name, value in _SYSCTL.items():
        Path(f"/proc/sys/net/ipv4/{name}").write_text(value, encoding="utf-8")


def serve(port: int) -> None:
    """Let pods find the API server of a port at the address of the Service "kubernetes", in place of the one before."""
    _run("iptables", "-t", "nat", "-F", "PREROUTING")
    to = f"127.0.0.1:{port}"
    rule = f"-A PREROUTING -d {SERVICE}/32 -p tcp --dport 443 -j DNAT --to-destination {to}"
    _run("iptables", "-t", "nat", *rule.split())


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True)


def main() -> int:
    """Run the command to its end; its exit code is ours."""
    if os.getpid() != 1:
        sys.exit("tests.node.inside must be the first process of its namespaces")
    prepare()
    child = subprocess.Popen(sys.argv[1:])
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
