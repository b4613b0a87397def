"""Build the stand-in operator of `tests/golden/operator`, for any minor, Go and machine, stripped or not, once each."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from testbed.go_programs import GoProgram, cache_directory
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
    return GoProgram(
        f"operator-{program}",
        SOURCE,
        sources=(HERE / f"v{program.minor}",),
        ldflags="-s -w" if program.stripped else "",
        flags=(f"-modfile={_requirements(program.minor)}", f"-tags={','.join(program.tags)}"),
        variables=(("GOTOOLCHAIN", program.go), ("GOARCH", program.machine)),
    ).binary()


def _requirements(minor: str) -> Path:
    """A go.mod with what the oracle of that minor requires, and its go.sum beside it."""
    oracle, directory = HERE / f"v{minor}", cache_directory() / "operators"
    text = (oracle / "go.mod").read_text(encoding="utf-8")
    text = text.replace(f"module grovemigrator/oracle-{minor}", "module grovemigrator/fork/operator")
    directory.mkdir(parents=True, exist_ok=True)
    made = directory / f"{minor}.mod"
    for path, content in (
        (made, text.replace("=> ../shared", f"=> {HERE / 'shared'}")),
        (made.with_suffix(".sum"), (oracle / "go.sum").read_text(encoding="utf-8")),
    ):
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")  # a parallel process may read it
        unfinished.write_text(content, encoding="utf-8")
        unfinished.replace(path)
    return made
