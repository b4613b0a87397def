"""Docker in namespaces of its own: a command in there finds an engine that is empty, and nothing outlives it.

The network of the namespaces leads nowhere. ``online``, the command has this machine's network, and containers have
none but that: enough to build an image, and no link or rule is made.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from testbed.controlplane.client import eventually
from testbed.kind import debian, traces

#: The kernel ends all of it when this process ends, however that happens.
_ALONE: Final = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child")
_FILES: Final = Path(__file__).resolve().parent / "files"
_NETWORK: Final = (
    "link set lo up",
    "link add up0 type bridge",
    "address add 10.99.0.1/24 dev up0",
    "link set up0 up",
    "route add default via 10.99.0.254 dev up0",
)
_FIREWALL: Final = tuple(f"{family}tables{end}" for family in ("ip", "ip6") for end in ("", "-save", "-restore"))
_SYS_RESOURCE: Final = 24
_START_SECONDS: Final = 120
_FROZEN_SECONDS: Final = 5


def run(command: Sequence[str], *, online: bool = False) -> int:
    """Run a command with an engine; returns its exit code."""
    debian.engine()
    name = traces.new()
    namespaces = (*_ALONE, "--mount-proc", *(() if online else ("--net",)))
    inside = (sys.executable, "-m", "testbed.kind.engine", name, "online" if online else "closed", *command)
    try:
        traces.make(name)
        process = subprocess.Popen([*namespaces, *inside])
        try:
            return _wait(process, name)
        finally:
            process.kill()
            _wait(process, name)
    finally:
        traces.remove(name)


def _wait(process: subprocess.Popen[bytes], name: str) -> int:
    """Wait for the end; returns the exit code.

    runc freezes a container for a moment. One that is left frozen, because runc was killed meanwhile, could not be
    ended by anybody, and the namespaces neither, where control groups are of version 1; so it is thawed.
    """
    frozen: set[Path] = set()
    while True:
        try:
            return process.wait(timeout=_FROZEN_SECONDS)
        except subprocess.TimeoutExpired:
            now = traces.frozen(name)
            for path in now & frozen:
                traces.thaw(path)
            frozen = now


def _lacks_a_capability() -> bool:
    """Whether this machine withholds a capability that privileged containers are given."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    bounding = next(line.split()[1] for line in status.splitlines() if line.startswith("CapBnd:"))
    return not int(bounding, 16) >> _SYS_RESOURCE & 1


def _configure(home: Path, programs: Path) -> Path:
    """Write the engine's configuration, with programs of ours before those of this machine."""
    own = home / "bin"
    own.mkdir()
    for name in _FIREWALL:
        (own / name).symlink_to(programs / "usr/sbin/xtables-nft-multi")
    configuration = {}
    if _lacks_a_capability():
        wrapper = own / "runc-without"
        text = (_FILES / "runc").read_text(encoding="utf-8")
        wrapper.write_text(text.replace("$RUNC", str(programs / "usr/sbin/runc")), encoding="utf-8")
        wrapper.chmod(0o755)
        configuration = {"runtimes": {"without": {"path": str(wrapper)}}, "default-runtime": "without"}
    written = home / "daemon.json"
    written.write_text(json.dumps(configuration), encoding="utf-8")
    return written


def _start(home: Path, *, online: bool) -> tuple[subprocess.Popen[bytes], dict[str, str]]:
    """Start the engine; returns it, and the environment in which commands find it."""
    programs = debian.engine()
    configuration = _configure(home, programs)
    path = f"{home / 'bin'}:{programs / 'usr/sbin'}:{programs / 'usr/bin'}:{os.environ['PATH']}"
    socket = f"unix://{home / 'docker.sock'}"
    found = {**os.environ, "PATH": path, "DOCKER_HOST": socket, "DOCKER_CONFIG": str(home / "config")}
    libraries = programs / "usr/lib/x86_64-linux-gnu"
    own = {**found, "LD_LIBRARY_PATH": str(libraries), "XTABLES_LIBDIR": str(libraries / "xtables")}
    flags = ["--bridge=none", "--iptables=false", "--ip-forward=false", "--ip-masq=false"] if online else []
    command = [
        *("dockerd", "--host", socket, "--config-file", configuration, "--pidfile", home / "docker.pid"),
        *("--data-root", home / "data", "--exec-root", home / "exec", "--storage-driver", "overlay2"),
        *("--cgroup-parent", f"/{home.name}", "--exec-opt", "native.cgroupdriver=cgroupfs", "--oom-score-adjust", "0"),
        *flags,
    ]
    with (home / "docker.log").open("ab") as log:
        engine = subprocess.Popen(list(map(str, command)), env=own, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def answers() -> bool:
        if engine.poll() is not None:
            raise RuntimeError("the engine has ended")
        return subprocess.run(["docker", "info"], env=found, capture_output=True, check=False).returncode == 0

    try:
        eventually(answers, what="the engine does not answer", seconds=_START_SECONDS, every=0.3)
    except (RuntimeError, TimeoutError):
        sys.stderr.write((home / "docker.log").read_text(encoding="utf-8", errors="replace")[-5000:])
        raise
    return engine, found


def _own_run() -> None:
    """Give the namespaces a /run of their own, with what says how names are resolved."""
    resolver = Path("/etc/resolv.conf").resolve()
    text = resolver.read_text(encoding="utf-8") if resolver.exists() else ""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    if not resolver.exists():
        resolver.parent.mkdir(parents=True, exist_ok=True)
        resolver.write_text(text, encoding="utf-8")


def main() -> int:
    """As the first process of the namespaces: start the engine and run the command to its end; its exit code is ours.

    When this process ends, the kernel ends every other in there, and mounts, links and rules go with the last one.
    """
    if os.getpid() != 1:
        sys.exit("testbed.kind.engine must be the first process of its namespaces")
    name, mode, *command = sys.argv[1:]
    _own_run()
    if mode == "closed":
        program = shutil.which("ip") or debian.engine() / "bin/ip"
        for arguments in _NETWORK:
            subprocess.run([program, *arguments.split()], check=True)
    _, environment = _start(traces.home(name), online=mode == "online")
    child = subprocess.Popen(command, env=environment)
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
