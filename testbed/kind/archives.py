"""Images that nobody pulls, as archives that ``docker load`` reads."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.kind import debian


def write(path: Path, tags: Sequence[str], layer: Path, config: Mapping[str, Any]) -> Path:
    """Write an image of one layer as ``docker save`` would, by another name first."""
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
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
    return unfinished.replace(path)


def of_root(path: Path, tags: Sequence[str], root: Path, config: Mapping[str, Any]) -> Path:
    """An image of a root directory."""
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        layer = Path(scratch) / "layer.tar"
        subprocess.run(["tar", "-C", root, "--numeric-owner", "-cf", layer, "."], check=True)
        return write(path, tags, layer, config)


def of_program(path: Path, tags: Sequence[str], program: Path, target: str) -> Path:
    """An image of one static program, which is its entrypoint."""
    return _of_files(path, tags, {target: program}, {"Entrypoint": [target]})


def busybox(path: Path, tags: Sequence[str], script: Path | None = None, label: str = "") -> Path:
    """An image of a shell and its commands; with a script, which is its entrypoint. ``label`` makes it another one."""
    files = {"/bin/busybox": debian.engine() / "bin/busybox"} | ({"/bin/script": script} if script else {})
    config: dict[str, Any] = {"Env": ["PATH=/bin"]} | ({"Entrypoint": ["/bin/script"]} if script else {"Cmd": ["sh"]})
    config |= {"Labels": {"name": label}}
    commands = subprocess.run([files["/bin/busybox"], "--list"], capture_output=True, text=True, check=True)
    return _of_files(path, tags, files, config, [name for name in commands.stdout.split() if name != "busybox"])


def _of_files(
    path: Path, tags: Sequence[str], files: Mapping[str, Path], config: Mapping[str, Any], links: Sequence[str] = ()
) -> Path:
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        layer = Path(scratch) / "layer.tar"
        with tarfile.open(layer, "w") as archive:
            for name in ("tmp", "bin"):
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
                archive.addfile(entry)
            for target, file in files.items():
                archive.add(file.resolve(), target.lstrip("/"), filter=_executable)
            for name in links:
                entry = tarfile.TarInfo(f"bin/{name}")
                entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
                archive.addfile(entry)
        return write(path, tags, layer, config)


def _executable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.mode = 0o755
    return entry
