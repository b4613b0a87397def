"""The image of a kind node, for machines that can pull none: Debian, dressed as kind's base image is, and Kubernetes.

kind's own ``kind build node-image`` makes it of an archive as Kubernetes publishes one. Every image whose tag is in
there counts as built and is not pulled, so that all that kind and kubeadm ask for go into it. Cluster DNS and volumes
have stand-ins that do nothing; everything else is the real program.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from testbed.controlplane.server import KUBERNETES
from testbed.go_programs import environment, go
from testbed.kind import CONTAINERD, KIND, OWN, archives, debian, engine, home

_FILES: Final = Path(__file__).resolve().parent / "files"
_BASE: Final = "kind-base:own"
_PACKAGES: Final = (
    *("systemd", "dbus", "util-linux", "mount", "kmod", "procps", "e2fsprogs", "curl", "ca-certificates", "jq"),
    *("conntrack", "iptables", "nftables", "iproute2", "ethtool"),
    *("runc", "containernetworking-plugins"),
)
_SERVERS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
_STAND_INS: Final = re.compile(r'"(docker\.io/kindest/[^"]+)"')
# The rest of what kind's Dockerfile does (images/base), in a root directory that debootstrap has made.
_DRESS: Final = """\
set -eu
chmod 755 /usr/local/bin/* /kind /kind/bin /kind/bin/*
find /etc/systemd /etc/sysctl.d /etc/containerd /etc/default/kubelet /etc/crictl.yaml -type f -exec chmod 644 {} +
cd /lib/systemd/system
rm -rf sysinit.target.wants/systemd-tmpfiles-setup.service multi-user.target.wants/* local-fs.target.wants/* \
  sockets.target.wants/*udev* sockets.target.wants/*initctl* basic.target.wants/* /etc/systemd/system/*.wants/*
echo ReadKMsg=no >> /etc/systemd/journald.conf
ln -sf /usr/lib/systemd/systemd /sbin/init
mkdir -p /opt/cni /etc/kubernetes/manifests && ln -sfn /usr/lib/cni /opt/cni/bin
sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' /etc/containerd/config.toml
for unit in kubelet containerd undo-mount-hacks; do SYSTEMCTL_SKIP_SYSV=1 systemctl enable $unit.service; done
systemctl mask systemd-binfmt.service
ctr oci spec | jq '.hooks.createContainer += [{"path": "/kind/bin/mount-product-files.sh"}]
  | del(.process.rlimits)' > /etc/containerd/cri-base.json
"""
_CALLED: Final = '#!/bin/bash\nexec -a {name} /usr/bin/kubelet "$@"\n'


def node_image() -> Path:
    """The image as an archive, made if none of these sources is kept: two minutes on an idle machine."""
    kept = home() / f"node-{_key()}.tar.gz"
    if kept.exists():
        return kept
    with tempfile.TemporaryDirectory(dir=home()) as scratch:
        made = Path(scratch) / "node.tar.gz"
        base, root = _base(Path(scratch))
        release = _release(Path(scratch), root)
        if engine.run([sys.executable, "-m", "testbed.kind.node_image", *map(str, (base, release, made))]):
            raise RuntimeError("the node image was not made; the lines on standard error are the reason")
        for old in home().glob("node-*.tar.gz"):
            old.unlink()
        made.rename(kept)
    return kept


def _key() -> str:
    digest = hashlib.sha256(" ".join(program.binary().name for program in (KIND, KUBERNETES, *CONTAINERD)).encode())
    for path in (Path(__file__), *sorted(_FILES.iterdir())):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _source() -> Path:
    """The source of kind, which has the files of its base image."""
    command = [go(), "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kind"]
    found = subprocess.run(command, cwd=KIND.directory, env=environment(), capture_output=True, text=True, check=True)
    return Path(found.stdout.strip())


def _base(scratch: Path) -> tuple[Path, Path]:
    """The base image as an archive, and the root directory that it was made of."""
    root = scratch / "base"
    debian.root(root, _PACKAGES)
    subprocess.run(["cp", "-r", "--no-preserve=mode,ownership", f"{_source()}/images/base/files/.", root], check=True)
    for program in CONTAINERD:
        shutil.copy(program.binary(), root / "usr/local/bin" / program.name)
    subprocess.run(["chroot", root, "bash", "-c", _DRESS], stdout=sys.stderr, check=True)
    config = {
        "Env": ["container=docker", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "Entrypoint": ["/usr/local/bin/entrypoint", "/sbin/init"],
        "StopSignal": "SIGRTMIN+3",
    }
    return archives.of_root(scratch / "base.tar", [_BASE], root, config), root


def _servers(scratch: Path, root: Path) -> Path:
    """The layer of the images of all servers: one program, and for kube-proxy what it calls to make rules."""
    own = scratch / "servers"
    for directory in ("usr/local/bin", "usr/sbin", "usr/lib/x86_64-linux-gnu", "lib64", "tmp", "run", "etc"):
        (own / directory).mkdir(parents=True)
    (own / "lib").symlink_to("usr/lib")
    shutil.copy(KUBERNETES.binary(), own / "usr/local/bin/node")
    for name in (*_SERVERS, "etcd"):
        (own / "usr/local/bin" / name).symlink_to("node")
    tools = ("xtables-nft-multi", "nft")
    for name in tools:
        shutil.copy(root / "usr/sbin" / name, own / "usr/sbin" / name)
    for name in (f"{family}tables{end}" for family in ("ip", "ip6") for end in ("", "-save", "-restore")):
        (own / "usr/sbin" / name).symlink_to("xtables-nft-multi")
    listed = subprocess.run(
        ["chroot", root, "ldd", *(f"/usr/sbin/{name}" for name in tools)], capture_output=True, text=True, check=True
    ).stdout
    for library in set(re.findall(r"/lib/x86_64\S+", listed)):
        shutil.copy(root / library.lstrip("/"), own / "usr/lib/x86_64-linux-gnu")
    shutil.copy(root / "lib64/ld-linux-x86-64.so.2", own / "lib64")
    shutil.copytree(root / "usr/lib/x86_64-linux-gnu/xtables", own / "usr/lib/x86_64-linux-gnu/xtables")
    layer = scratch / "servers.tar"
    subprocess.run(["tar", "-C", own, "--numeric-owner", "--owner=0", "--group=0", "-cf", layer, "."], check=True)
    return layer


def _release(scratch: Path, root: Path) -> Path:
    """What Kubernetes publishes as kubernetes-server-linux-amd64.tar.gz."""
    release = scratch / "release"
    programs = release / "kubernetes/server/bin"
    programs.mkdir(parents=True)
    shutil.copy(KUBERNETES.binary(), programs / "kubelet")
    for name in ("kubeadm", "kubectl"):
        (programs / name).write_text(_CALLED.format(name=name), encoding="utf-8")
        (programs / name).chmod(0o755)
    listed = _kubeadm("config", "images", "list", "--kubernetes-version", _version())
    wanted = {image.rpartition("/")[2].partition(":")[0]: image for image in listed.split()}
    (release / "kubernetes/version").write_text(_version(), encoding="utf-8")
    servers = [wanted[name] for name in (*_SERVERS, "etcd")]
    config = {"Env": ["PATH=/usr/local/bin:/usr/sbin"]}
    archives.write(programs / f"{_SERVERS[0]}.tar", servers, _servers(scratch, root), config)
    idle = [wanted["coredns"], wanted["pause"], *_others(root)]
    for number, name in enumerate(_SERVERS[1:]):  # kind wants a file for each server, and no image in two of them
        archives.busybox(programs / f"{name}.tar", idle[number :: len(_SERVERS) - 1], _FILES / "stand-in", name)
    path = scratch / "release.tar.gz"
    subprocess.run(["tar", "-C", release, "--use-compress-program=gzip -1", "-cf", path, "kubernetes"], check=True)
    return path


def _others(root: Path) -> list[str]:
    """What containerd and kind ask for besides what kubeadm does."""
    text = "".join(path.read_text(encoding="utf-8") for path in (_source() / "pkg/build/nodeimage").glob("const_*.go"))
    configuration = (root / "etc/containerd/config.toml").read_text(encoding="utf-8")
    return [*re.findall(r'sandbox_image = "([^"]+)"', configuration), *_STAND_INS.findall(text)]


def _version() -> str:
    return _run_as("kubectl", "version", "--client", "-o", "json").partition('"gitVersion": "')[2].partition('"')[0]


def _kubeadm(*arguments: str) -> str:
    return _run_as("kubeadm", *arguments)


def _run_as(name: str, *arguments: str) -> str:
    command = [name, *arguments]
    done = subprocess.run(command, executable=KUBERNETES.binary(), stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def main() -> None:
    """Where an engine runs, make the image of a base and a release, and write it as an archive: three paths."""
    base, release, made = sys.argv[1:]
    _docker("load", "--input", base)
    command = [KIND.binary(), "build", "node-image", "--type", "file", release, "--base-image", _BASE, "--image", OWN]
    subprocess.run(command, stdout=sys.stderr, check=True)
    with Path(made).open("wb") as file:
        save = subprocess.Popen(["docker", "save", OWN], stdout=subprocess.PIPE)
        subprocess.run(["gzip", "-1"], stdin=save.stdout, stdout=file, check=True)
        if save.wait():
            raise RuntimeError("docker save failed")


def _docker(*arguments: str) -> None:
    subprocess.run(["docker", *arguments], stdout=sys.stderr, check=True)


if __name__ == "__main__":
    main()
