"""Real helm and kustomize, built once from their Go modules into a cache directory.

Run by ``python -m tests.cluster.helm.programs``. Each has a go.mod of ours in tests/cluster/helm/programs, which names
the program as its tool and, with its go.sum, every module that goes into it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tests.support.controlplane.build import cache_directory

SOURCES: Final = Path(__file__).resolve().parent / "programs"

#: The Go package of each program.
PACKAGES: Final = {
    "helm3": "helm.sh/helm/v3/cmd/helm",
    "helm4": "helm.sh/helm/v4/cmd/helm",
    "kustomize": "sigs.k8s.io/kustomize/kustomize/v5",
}


class ProgramUnavailableError(Exception):
    """The program cannot be built on this machine; the message says why and what to do."""


def program(name: str) -> Path:
    """Return a program of `PACKAGES`, building it if no build of its go.mod and go.sum by this Go is cached.

    Raises ProgramUnavailableError without Go, or when the build fails.
    """
    go = shutil.which("go")
    if go is None:
        raise ProgramUnavailableError(f"{name} needs Go 1.26 or newer on PATH; found no go command")
    about = subprocess.run([go, "env", "GOVERSION", "GOOS", "GOARCH"], check=True, capture_output=True, text=True)
    directory = cache_directory() / "programs"
    binary = directory / f"{name}-{_key(name, about.stdout)}"
    if binary.exists():
        return binary
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test processes wait for the first one instead of building too
        if not binary.exists():
            _build(go, name, binary)
    return binary


def program_or_skip(name: str) -> Path:
    """Return a program, or skip the test with the reason; in CI, fail instead."""
    try:
        return program(name)
    except ProgramUnavailableError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"a real {name} is required in CI: {error}", pytrace=False)
        pytest.skip(str(error))


def _key(name: str, about: str) -> str:
    digest = hashlib.sha256(about.encode())
    for file in ("go.mod", "go.sum"):
        digest.update((SOURCES / name / file).read_bytes())
    return digest.hexdigest()[:16]


def _build(go: str, name: str, binary: Path) -> None:
    unfinished = binary.with_name(f"{binary.name}.{os.getpid()}")
    flags = ["-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"]
    built = subprocess.run(
        [go, "build", *flags, "-o", unfinished, PACKAGES[name]],
        cwd=SOURCES / name,
        env={**os.environ, "GOWORK": "off", "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        raise ProgramUnavailableError(f"go build of {name} failed:\n{built.stderr.strip()}")
    unfinished.replace(binary)


def main() -> int:
    """Build all, and print where they are and how long each took."""
    for name in PACKAGES:
        started = time.monotonic()
        try:
            binary = program(name)
        except ProgramUnavailableError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        seconds = time.monotonic() - started
        sys.stdout.write(f"{binary}: {binary.stat().st_size / 1e6:.0f} MB, {seconds:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
