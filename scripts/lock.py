"""Lock the dependencies: requirements/*.txt, every file by its hash, for exactly what pyproject.toml asks.

    python scripts/lock.py

Run it with the oldest supported Python. Where packages come from is the environment's business (pip's own
variables); nothing of that is written down.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
REQUIREMENTS: Final = ROOT / "requirements"
FLAGS: Final = (
    "--quiet",
    "--generate-hashes",
    "--no-emit-index-url",
    "--no-emit-trusted-host",
    "--no-emit-find-links",
    "--strip-extras",
    "--allow-unsafe",
    "--newline=lf",
)


def group(groups: dict[str, list[Any]], name: str) -> Iterator[str]:
    """The requirements of a dependency group (PEP 735), included groups first come, first served."""
    for entry in groups[name]:
        if isinstance(entry, dict):
            yield from group(groups, entry["include-group"])
        else:
            yield entry


def compile_to(output: Path, requirements: list[str], *more: str) -> None:
    """Write the lock file of some requirements; versions that it already holds are kept where they fit."""
    subprocess.run(
        [sys.executable, "-m", "piptools", "compile", *FLAGS, *more, f"--output-file={output.relative_to(ROOT)}", "-"],
        input="\n".join(requirements) + "\n",
        text=True,
        cwd=ROOT,
        env={**os.environ, "CUSTOM_COMPILE_COMMAND": "make lock"},
        check=True,
    )


def main() -> None:
    """Lock what the image installs, what builds us, and what developers install: one version of each in common."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["dependency-groups"]
    runtime = list(project["project"]["dependencies"])
    locks = {
        "runtime.txt": runtime,
        "build.txt": list(group(groups, "build")),
        "dev.txt": [*runtime, *group(groups, "dev")],
    }
    constraints: list[str] = []
    for name, requirements in locks.items():
        compile_to(REQUIREMENTS / name, requirements, *constraints, *sys.argv[1:])
        constraints.append(f"--constraint=requirements/{name}")


if __name__ == "__main__":
    main()
