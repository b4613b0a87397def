"""Build the Go oracle of one k8s.io/api minor, once, into a cache directory."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
MINORS = tuple(
    sorted((path.name[1:] for path in HERE.glob("v1.*")), key=lambda minor: int(minor[2:].partition("-")[0]))
)
NEWEST = MINORS[-1]


class OracleUnavailableError(Exception):
    """The oracle cannot be built on this machine; the message says why and what to do."""


def go_environment() -> dict[str, str]:
    """The environment of every go command of the oracles: a minor may ask for a newer Go than the one on PATH."""
    return {**os.environ, "GOWORK": "off", "CGO_ENABLED": "0", "GOTOOLCHAIN": "auto"}


def cache_directory() -> Path:
    """Where built programs are kept: `GROVE_MIGRATOR_CACHE`, or `~/.cache/grove-migrator`."""
    configured = os.environ.get("GROVE_MIGRATOR_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "grove-migrator"


def oracle_binary(minor: str) -> Path:
    """Return the oracle of a minor such as `1.35`, building it if no build of these sources is cached.

    The cache key covers the sources, go.mod, go.sum and the Go version. Raises OracleUnavailableError
    without Go or when the build fails.
    """
    if minor not in MINORS:
        raise OracleUnavailableError(f"no oracle for k8s.io/api {minor}; there is one for {', '.join(MINORS)}")
    go = shutil.which("go")
    if go is None:
        raise OracleUnavailableError("the oracle needs Go 1.26 or newer on PATH; found no go command")
    version = subprocess.run([go, "env", "GOVERSION", "GOARCH"], check=True, capture_output=True, text=True)
    binary = cache_directory() / "oracle" / f"{minor}-{_key(minor, version.stdout)}"
    if not binary.exists():
        _build(go, minor, binary)
    return binary


def _key(minor: str, go_version: str) -> str:
    digest = hashlib.sha256(go_version.encode())
    for root in (HERE / "shared", HERE / f"v{minor}"):
        for path in sorted(root.rglob("*")):
            if path.suffix in {".go", ".mod", ".sum"}:
                digest.update(f"{path.relative_to(HERE)}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _build(go: str, minor: str, binary: Path) -> None:
    binary.parent.mkdir(parents=True, exist_ok=True)
    # Another process may build the same key at the same time: the rename lets either of them win.
    unfinished = binary.with_name(f"{binary.name}.{os.getpid()}")
    built = subprocess.run(
        [go, "build", "-trimpath", "-o", str(unfinished), "."],
        cwd=HERE / f"v{minor}",
        env=go_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        raise OracleUnavailableError(f"go build of the oracle for {minor} failed:\n{built.stderr.strip()}")
    unfinished.replace(binary)
