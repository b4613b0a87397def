"""Images without a registry: a Debian base, busybox, operators, and ours, as archives that containerd can import."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from migrator import __version__
from testbed.go_programs import cache_directory
from tests.support.paths import ROOT

#: What a pod of a workload, and the sandbox of any pod, runs: it ends as soon as it is asked to.
IDLE: Final = ("/bin/busybox", "sh", "-c", "trap 'exit 0' TERM; /bin/busybox sleep infinity & wait")
OURS: Final = f"grove-migrator:{__version__}"
#: Names the archive of our image in the environment of everything that runs in namespaces.
VARIABLE: Final = "GROVE_NODE_IMAGE"
_BASE: Final = "grove-migrator-base:bookworm"
_PACKAGES: Final = "python3,python3-venv,ca-certificates"
_SUITE: Final = "bookworm"
# As in published slim images: nothing that only people read, and nothing of apt's.
_LEFT_OUT: Final = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt", "var/lib/apt/lists", "dev")
_INPUTS: Final = ("Dockerfile", ".dockerignore", "LICENSE", "README.md", "pyproject.toml", "requirements", "migrator")
_PIP: Final = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST")
_AUTHORITY: Final = "PIP_CERT"
# What a command mounts or starts ends with it, also when it is killed.
_ALONE: Final = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
_REHEARSAL: Final = """\
ARG BUILD_BASE
FROM ${BUILD_BASE}
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_TRUSTED_HOST
RUN --mount=type=secret,id=ca,target=/run/secrets/ca.pem \
    if [ -s /run/secrets/ca.pem ]; then export PIP_CERT=/run/secrets/ca.pem; fi \
 && python -m venv /tools && /tools/bin/pip download --no-deps --dest /tmp hatchling
"""


def home() -> Path:
    """Where images are kept between runs; they are never published, for the base comes from this machine's mirror."""
    found = cache_directory() / "node"
    found.mkdir(parents=True, exist_ok=True)
    return found


def write(path: Path, tags: Sequence[str], layer: Path, config: Mapping[str, Any]) -> None:
    """Write an image of one layer as ``docker save`` would, by another name first."""
    digest = hashlib.sha256(layer.read_bytes()).hexdigest()
    image = {
        "architecture": "amd64",
        "os": "linux",
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": list(tags), "Layers": ["layer.tar"]}]
    unfinished = path.with_suffix(f".{os.getpid()}")
    with tarfile.open(unfinished, "w") as archive:
        archive.add(layer, "layer.tar")
        for name, content in (("config.json", image), ("manifest.json", manifest)):
            data = json.dumps(content).encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    unfinished.replace(path)


def of_program(path: Path, tags: Sequence[str], program: Path, target: str, command: Sequence[str]) -> Path:
    """An image with one static program and nothing else."""
    with tempfile.TemporaryDirectory() as scratch:
        layer = Path(scratch) / "layer.tar"
        with tarfile.open(layer, "w") as archive:
            for name in ("tmp", "bin"):
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
                archive.addfile(entry)
            archive.add(program, target.lstrip("/"), filter=_executable)
            for link in ("sh", "sleep", "true") if target == "/bin/busybox" else ():
                entry = tarfile.TarInfo(f"bin/{link}")
                entry.type, entry.linkname = tarfile.SYMTYPE, "/bin/busybox"
                archive.addfile(entry)
        write(path, tags, layer, {"Entrypoint": list(command), "Env": ["PATH=/bin"]})
    return path


def _executable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.mode = 0o755
    return entry


def busybox(path: Path, tags: Sequence[str]) -> Path:
    """An image under many names that does nothing until it is asked to end."""
    return of_program(path, tags, Path("/bin/busybox"), "/bin/busybox", IDLE)


def base() -> Path:
    """The base of our image, made from Debian's packages if it is not kept from before: some minutes."""
    kept = home() / f"base-{_SUITE}.tar"
    if kept.exists():
        return kept
    with tempfile.TemporaryDirectory(dir=home()) as scratch:
        root, layer = Path(scratch) / "root", Path(scratch) / "layer.tar"
        command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", _SUITE, str(root)]
        # Mounts of debootstrap's go with its namespaces.
        subprocess.run([*_ALONE, *command], stdout=sys.stderr, check=True)
        # The Dockerfile calls python, as the published images of Python do.
        (root / "usr/bin/python").symlink_to("python3")
        for name in _LEFT_OUT:
            shutil.rmtree(root / name, ignore_errors=True)
            (root / name).mkdir(exist_ok=True)
        subprocess.run(["tar", "-C", root, "--numeric-owner", "-cf", layer, "."], check=True)
        write(kept, [_BASE], layer, {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]})
    return kept


def ours() -> Path:
    """Our image: the one that the environment names, one kept from before, or built from the Dockerfile by buildah."""
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE])
    kept = home() / f"ours-{_key()}.tar"
    if kept.exists():
        return kept
    with tempfile.TemporaryDirectory(dir=home()) as scratch:
        unfinished = Path(scratch) / "image.tar"
        to = f"docker-archive:{unfinished}:docker.io/library/{OURS}"
        _buildah(scratch, _bud(OURS, ROOT), ["push", "--quiet", OURS, to])
        # Another run may still have the newest of the others.
        for old in sorted(home().glob("ours-*.tar"), key=lambda path: path.stat().st_mtime)[:-1]:
            old.unlink()
        unfinished.replace(kept)
    return kept


def rehearse() -> Path:
    """Build an image whose one command fetches a package; CalledProcessError where ours cannot be built either."""
    with tempfile.TemporaryDirectory(dir=home()) as scratch:
        context = Path(scratch) / "context"
        context.mkdir()
        (context / "Dockerfile").write_text(_REHEARSAL, encoding="utf-8")
        _buildah(scratch, _bud("rehearsal", context))
    return base()


def _bud(tag: str, context: Path) -> list[str]:
    named = {"BUILD_BASE": _BASE, "RUNTIME_BASE": _BASE, **{k: os.environ[k] for k in _PIP if k in os.environ}}
    authority = os.environ.get(_AUTHORITY)
    secrets = [f"--secret=id=ca,src={authority}"] if authority else []
    arguments = [f"--build-arg={key}={value}" for key, value in named.items()]
    flags = ["--isolation=chroot", "--network=host", "--pull-never", "--format=docker", *arguments, *secrets]
    return ["bud", *flags, "--tag", tag, str(context)]


def _buildah(scratch: str, *commands: list[str]) -> None:
    """Run commands of buildah, one after another, with a store of their own that has the base."""
    store = ["--root", f"{scratch}/root", "--runroot", f"{scratch}/run", "--storage-driver", "overlay"]
    for command in (["pull", "--quiet", f"docker-archive:{base()}"], *commands):
        subprocess.run([*_ALONE, "--mount-proc", "buildah", *store, *command], stdout=sys.stderr, check=True)


def _key() -> str:
    digest = hashlib.sha256(str(base().stat().st_mtime_ns).encode())
    for name in _INPUTS:
        path = ROOT / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file.suffix != ".pyc":
                digest.update(f"{file.relative_to(ROOT)}\0".encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
