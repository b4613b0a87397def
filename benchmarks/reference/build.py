"""Build the reference program once, into the cache directory of the other Go programs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.support.controlplane.build import cache_directory

SOURCES: Final = Path(__file__).resolve().parent / "patcher"


class ReferenceUnavailableError(Exception):
    """The program cannot be built on this machine; the message says why and what to do."""


def patcher() -> Path:
    """The program, built if no build of these sources is cached.

    The cache key covers the sources, go.mod, go.sum and the Go version. Raises ReferenceUnavailableError without
    Go, or when the build fails.
    """
    go = shutil.which("go")
    if go is None:
        raise ReferenceUnavailableError("the reference of the run needs Go 1.24 or newer on PATH; found no go command")
    about = subprocess.run([go, "env", "GOVERSION", "GOOS", "GOARCH"], check=True, capture_output=True, text=True)
    binary = cache_directory() / "reference" / f"patcher-{_key(about.stdout)}"
    if not binary.exists():
        _build(go, binary)
    return binary


def _key(about: str) -> str:
    digest = hashlib.sha256(about.encode())
    for path in sorted(SOURCES.iterdir()):
        if path.suffix in {".go", ".mod", ".sum"}:
            digest.update(f"{path.name}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _build(go: str, binary: Path) -> None:
    binary.parent.mkdir(parents=True, exist_ok=True)
    unfinished = binary.with_name(f"{binary.name}.{os.getpid()}")
    built = subprocess.run(
        [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", unfinished, "."],
        cwd=SOURCES,
        env={**os.environ, "GOWORK": "off", "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        raise ReferenceUnavailableError(f"go build of the reference failed:\n{built.stderr.strip()}")
    unfinished.replace(binary)
