"""Build the stand-in operator of `tests/golden/operator`, for any minor, Go and machine, stripped or not, once each."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from testbed.go_programs import GoProgramError, cache_directory, environment, go
from testbed.oracle import HERE

SOURCE = Path(__file__).resolve().parent / "operator"
#: Go versions that the module proxy serves; the one on PATH is `local`.
OLDEST, LOCAL, NEWEST_GO = "go1.24.11", "local", "go1.27.3"


@dataclass(frozen=True, slots=True)
class Program:
    """One build. `tags` choose the algorithm (`canonical`), or add what is refused."""

    minor: str = "1.35"
    go: str = LOCAL
    machine: str = "amd64"
    stripped: bool = True
    tags: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = (self.minor, self.go, self.machine, "stripped" * self.stripped, *self.tags)
        return "-".join(part for part in parts if part)


def built(program: Program) -> Path:
    """The program's file. Raises GoProgramError where its Go cannot be had or the build fails."""
    variables = {**environment(), "GOTOOLCHAIN": program.go, "GOARCH": program.machine}
    version = subprocess.run([go(), "env", "GOVERSION"], env=variables, cwd=SOURCE, capture_output=True, check=False)
    if version.returncode != 0:
        raise GoProgramError(f"{program.go} cannot be had: {version.stderr.decode().strip()}")
    directory = cache_directory() / "operators" / f"{program}-{_key(program, version.stdout)}"
    made = directory / "operator"
    if made.exists():
        return made
    directory.mkdir(parents=True, exist_ok=True)
    unfinished = directory / f"unfinished.{os.getpid()}"
    command = [go(), "build", "-trimpath", f"-modfile={_requirements(program, directory)}", "-o", str(unfinished)]
    command += [f"-tags={','.join(program.tags)}", "-buildvcs=false"]
    command += [f"-ldflags={'-s -w' if program.stripped else ''}", "."]
    done = subprocess.run(command, env=variables, cwd=SOURCE, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GoProgramError(f"go build of {program} failed:\n{done.stderr.strip()}")
    unfinished.replace(made)
    return made


def _requirements(program: Program, directory: Path) -> Path:
    """A go.mod with what the oracle of that minor requires, and its go.sum beside it."""
    oracle = HERE / f"v{program.minor}"
    text = (oracle / "go.mod").read_text(encoding="utf-8")
    text = text.replace(f"module grovemigrator/oracle-{program.minor}", "module grovemigrator/fork/operator")
    text = text.replace("=> ../shared", f"=> {HERE / 'shared'}")
    made = directory / f"required.{os.getpid()}.mod"
    made.write_text(text, encoding="utf-8")
    shutil.copyfile(oracle / "go.sum", made.with_suffix(".sum"))
    return made


def _key(program: Program, version: bytes) -> str:
    digest = hashlib.sha256(version)
    for root in (SOURCE, HERE / f"v{program.minor}"):
        for path in sorted(root.rglob("*")):
            if path.suffix in {".go", ".mod", ".sum"}:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
