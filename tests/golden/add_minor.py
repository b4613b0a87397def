"""Add a minor of k8s.io/api by a version of it: ``python -m tests.golden.add_minor 1.38 v0.38.0``.

Writes the oracle of that minor, and then all that is generated from the oracles: the layout by which the product
hashes, the table of docs/how-it-works.md, and the golden vectors.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from testbed.go_programs import environment, go
from testbed.oracle import HERE, NEWEST


def add(minor: str, version: str, *, newest: str = NEWEST, directory: Path = HERE) -> Path:
    """Make the oracle of ``minor`` from that of ``newest``, beside it."""
    made = directory / f"v{minor}"
    shutil.copytree(directory / f"v{newest}", made)
    go_mod = made / "go.mod"
    text = go_mod.read_text(encoding="utf-8").replace(f"oracle-{newest}", f"oracle-{minor}", 1)
    go_mod.write_text(text, encoding="utf-8")
    for command in (("get", f"k8s.io/api@{version}", f"k8s.io/apimachinery@{version}"), ("mod", "tidy")):
        subprocess.run([go(), *command], cwd=made, env=environment(), check=True)
    return made


if __name__ == "__main__":
    add(*sys.argv[1:])
    for module in ("tests.golden.regenerate", "scripts.readme"):
        subprocess.run([sys.executable, "-m", module], check=True)
