"""One real node: containerd, kubelet and kube-scheduler as processes beside a control plane."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from testbed.controlplane.build import CONTROL_PLANE
from testbed.controlplane.client import Client, eventually
from testbed.controlplane.options import tail
from testbed.controlplane.server import ControlPlane
from testbed.go_programs import GoProgram
from tests.node import inside, traces

#: kubelet and kube-scheduler, from the module of the control plane.
NODE: Final = GoProgram("node", CONTROL_PLANE.directory, "./node", ldflags=CONTROL_PLANE.ldflags)
#: Debian's containerd 1.6 cannot mount an image into a container (an image volume); 2.1 and later can.
CONTAINERD: Final = GoProgram(
    "containerd", Path(__file__).resolve().parent / "containerd", "github.com/containerd/containerd/v2/cmd/containerd"
)
NAME: Final = "grove-node"
#: On by default from Kubernetes 1.35 on.
IMAGE_VOLUME: Final = "ImageVolume"
#: What a pod's sandbox runs; an image of `tests.node.images`.
SANDBOX: Final = "docker.io/library/busybox:1.36"
_READY_SECONDS: Final = 120
_CONTAINERD: Final = """\
version = 2
root = "{home}/containerd"
state = "{home}/state"
[grpc]
  address = "{home}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{sandbox}"
  restrict_oom_score_adj = true
  disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{home}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
"""
_CNI: Final = """\
{{"cniVersion": "0.4.0", "name": "pods", "plugins": [{{"type": "bridge", "bridge": "cni0", "isGateway": true,
"ipam": {{"type": "host-local", "subnet": "10.88.0.0/16", "routes": [{{"dst": "0.0.0.0/0"}}],
"dataDir": "{home}/addresses"}}}}]}}
"""


class Node:
    """The programs of a node in the namespaces of tests.node.inside; each can be ended and started again."""

    def __init__(self, server: ControlPlane, home: Path, archives: Sequence[Path]) -> None:
        self._server, self._home, self._archives = server, home, list(archives)
        self._cgroup = os.environ[traces.VARIABLE]
        self._program = str(NODE.binary())
        self._kubeconfig = f"--kubeconfig={server.kubeconfig}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start what does not run, and wait until the node is ready."""
        self._home.mkdir(parents=True, exist_ok=True)
        inside.serve(urlsplit(self._server.url).port or 0)
        self.start_containerd()
        self.start_kubelet()
        if "scheduler" not in self._running:
            self._start("scheduler", self._program, "kube-scheduler", self._kubeconfig, "--leader-elect=false")
        with contextlib.closing(self._server.client()) as client:
            try:
                eventually(lambda: _ready(client), what="the node is not ready", seconds=_READY_SECONDS)
            except TimeoutError as error:
                raise TimeoutError(f"{error}\n{self.logs()}") from error

    def start_containerd(self) -> None:
        """Start containerd, with all images; it keeps them when it ends."""
        (self._home / "cni").mkdir(exist_ok=True)
        (self._home / "cni" / "pods.conflist").write_text(_CNI.format(home=self._home), encoding="utf-8")
        config = self._home / "containerd.toml"
        config.write_text(_CONTAINERD.format(home=self._home, sandbox=SANDBOX), encoding="utf-8")
        self._start("containerd", str(CONTAINERD.binary()), "--config", str(config), "--log-level=warn")
        eventually(lambda: self._ctr("version", check=False), what="containerd does not answer")
        while self._archives:
            self.load(self._archives.pop())

    def load(self, archive: Path) -> None:
        """Import the images of an archive."""
        self._ctr("images", "import", str(archive))

    def start_kubelet(self) -> None:
        """Start kubelet; containers that run go on."""
        resolve, config = self._home / "resolv.conf", self._home / "kubelet.yaml"
        resolve.write_text("", encoding="utf-8")
        config.write_text(yaml.safe_dump(self._configuration(resolve)), encoding="utf-8")
        self._start(
            "kubelet",
            self._program,
            "kubelet",
            self._kubeconfig,
            f"--config={config}",
            f"--root-dir={self._home / 'kubelet'}",
            f"--cert-dir={self._home / 'pki'}",
            f"--hostname-override={NAME}",
            f"--node-ip={inside.NODE}",
        )

    def kill_kubelet(self) -> None:
        """End kubelet at once, and nothing else."""
        self._kill("kubelet")

    def crash(self) -> None:
        """End containerd, kubelet and every container at once."""
        for name in ("kubelet", "containerd"):
            self._kill(name)
        for path in Path("/proc").glob("[0-9]*/exe"):
            with contextlib.suppress(OSError):
                if path.readlink().name.startswith("containerd-shim"):
                    os.kill(int(path.parent.name), signal.SIGKILL)
        traces.kill(self._cgroup)

    def stop(self) -> None:
        """End everything, and take its mounts and its links away."""
        self.crash()
        for name in list(self._running):
            self._kill(name)
        for line in reversed(Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()):
            place = line.split()[1]
            if place.startswith((f"{self._home}/", "/run/netns/", "/run/containerd/")):
                subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)
        subprocess.run(["ip", "link", "delete", "cni0"], check=False, capture_output=True)

    def main_process(self, container: str) -> int:
        """The first process of a running container, by the id that its pod's status has."""
        lines = self._ctr("tasks", "list").splitlines()[1:]
        [pid] = [int(fields[1]) for fields in map(str.split, lines) if fields[0] == container.rpartition("/")[2]]
        return pid

    def run_image(self, image: str, command: str, *, stdin: Path) -> str:
        """Run a shell command in an image to its end, without network, with a read-only root; what it printed.

        Its input is the file itself: ctr sometimes loses the end of a pipe.
        """
        mount = f"--mount=type=bind,src={stdin},dst=/dump.yaml,options=rbind:ro"
        flags = ("--rm", "--read-only", mount, f"--cgroup={self._cgroup}/alone")
        return self._ctr("run", *flags, image, "alone", "sh", "-c", f"{command} </dump.yaml")

    def logs(self) -> str:
        """The end of what each program has logged."""
        return "\n".join(f"{path.name}: {tail(path)}" for path in sorted(self._home.glob("*.log")))

    def _configuration(self, resolve: Path) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._cgroup}",
            "clusterDNS": ["10.96.0.10"],
            "containerRuntimeEndpoint": f"unix://{self._home}/containerd.sock",
            "enforceNodeAllocatable": [],
            "evictionHard": dict.fromkeys(("memory.available", "nodefs.available", "imagefs.available"), "0%"),
            "failCgroupV1": False,
            "failSwapOn": False,
            "featureGates": {IMAGE_VOLUME: True},
            "imageGCHighThresholdPercent": 100,
            "resolvConf": str(resolve),
            "serializeImagePulls": False,
        }

    def _ctr(self, *arguments: str, check: bool = True) -> str:
        command = ["ctr", "--address", f"{self._home}/containerd.sock", "--namespace", "k8s.io", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout if done.returncode == 0 else ""

    def _start(self, name: str, *command: str) -> None:
        if name in self._running:
            raise RuntimeError(f"{name} runs already")
        with (self._home / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        time.sleep(0.2)
        if self._running[name].poll() is not None:
            raise RuntimeError(f"{name} does not start:\n{self.logs()}")

    def _kill(self, name: str) -> None:
        process = self._running.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()


def _ready(client: Client) -> bool:
    nodes = client.list("v1", "Node")
    conditions = [found for node in nodes for found in node["status"].get("conditions", ())]
    return any(found["type"] == "Ready" and found["status"] == "True" for found in conditions)
