"""Our image from the Dockerfile, for machines that can pull no base: upon a Debian of debootstrap's."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from testbed.kind import archives, debian, engine, home

#: What it is called.
TAG: Final = "grove-migrator:e2e"
_ROOT: Final = Path(__file__).resolve().parents[2]
_BASE: Final = "grove-migrator-base:own"
_PACKAGES: Final = ("python3", "python3-venv", "ca-certificates")
_INPUTS: Final = ("Dockerfile", ".dockerignore", "LICENSE", "README.md", "pyproject.toml", "requirements", "migrator")
#: Build arguments of the Dockerfile that the environment decides.
ARGUMENTS: Final = ("BUILD_BASE", "RUNTIME_BASE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST")
#: Where pip's bundle of authorities is; the Dockerfile takes it as a secret.
_AUTHORITY: Final = "PIP_CERT"


def build(tag: str, *more: str) -> list[str]:
    """The command that builds our image; the environment says where bases and packages come from."""
    named = [f"--build-arg={name}" for name in ARGUMENTS if name in os.environ]
    authority = os.environ.get(_AUTHORITY)
    secret = [f"--secret=id=ca,src={authority}"] if authority else []
    return ["docker", "build", "--tag", tag, *named, *secret, *more, str(_ROOT)]


def our_image() -> Path:
    """The image as an archive, built if no build of these sources is kept: a minute or two."""
    base = _base()
    kept = home() / f"ours-{_key()}.tar.gz"
    if kept.exists():
        return kept
    with tempfile.TemporaryDirectory(dir=home()) as scratch:
        made = Path(scratch) / "image.tar"
        command = [sys.executable, "-m", "testbed.kind.our_image", str(base), str(made)]
        if engine.run(command, online=True):
            raise RuntimeError("our image was not built; the lines on standard error are the reason")
        for old in sorted(home().glob("ours-*"), key=lambda path: path.stat().st_mtime)[:-1]:
            old.unlink()  # another run may still have the newest of the others
        made.with_suffix(".tar.gz").rename(kept)
    return kept


def _base() -> Path:
    kept = home() / "base.tar"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=home()) as scratch:
            root = Path(scratch) / "root"
            debian.root(root, _PACKAGES)
            (root / "usr/bin/python").symlink_to("python3")  # as published images of Python have it
            archives.of_root(kept, [_BASE], root, {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]})
    return kept


def _key() -> str:
    digest = hashlib.sha256()
    for name in _INPUTS:
        path = _ROOT / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file.suffix != ".pyc":
                digest.update(f"{file.relative_to(_ROOT)}\0".encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def main() -> None:
    """Where an engine runs, build the image on a base, and write it as a packed archive: two paths."""
    base, made = sys.argv[1:]
    os.environ |= {"BUILD_BASE": _BASE, "RUNTIME_BASE": _BASE, "DOCKER_BUILDKIT": "1"}
    for command in (
        ["docker", "load", "--input", base],
        build(TAG, "--network=host"),
        ["docker", "save", TAG, "-o", made],
        ["gzip", "-1", made],
    ):
        subprocess.run(command, stdout=sys.stderr, check=True)


if __name__ == "__main__":
    main()
