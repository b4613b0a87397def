"""Add a minor of k8s.io/api: `python -m tests.oracle.add_minor 1.37`.

Writes the oracle of that minor, with the newest patch release that the configured module proxy has, and then all that
is generated from the oracles: the layout by which the product hashes, and the golden vectors.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.oracle.build import HERE, NEWEST
from tests.support.go_programs import environment, go

MINOR = re.compile(r"1\.(\d+)")
_REQUIRED = re.compile(r"k8s\.io/api (v\S+)")


class CannotAddError(Exception):
    """The minor cannot be added; the message says why. Nothing is left of the attempt."""


def add(minor: str, *, newest: str, directory: Path = HERE) -> Path:
    """Write the oracle of `minor` beside that of `newest`, from which it is made; returns its directory.

    Raises CannotAddError for what is no minor, for one that is there, and where the modules of that minor
    cannot be had.
    """
    named = MINOR.fullmatch(minor)
    if named is None:
        raise CannotAddError(f"{minor} is no minor of Kubernetes; they are written like 1.37")
    made = directory / f"v{minor}"
    if made.exists():
        raise CannotAddError(f"{made} exists")
    try:
        shutil.copytree(directory / f"v{newest}", made)
        go_mod = made / "go.mod"
        text = go_mod.read_text(encoding="utf-8").replace(f"oracle-{newest}", f"oracle-{minor}", 1)
        go_mod.write_text(text, encoding="utf-8")
        wanted = f"v0.{named[1]}"
        _go(made, "get", f"k8s.io/api@{wanted}", f"k8s.io/apimachinery@{wanted}")
        _go(made, "mod", "tidy")
        _name_version(made)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return made


def _name_version(made: Path) -> None:
    required = _REQUIRED.search((made / "go.mod").read_text(encoding="utf-8"))
    if required is None:
        raise CannotAddError("the new go.mod does not name k8s.io/api")
    main = made / "main.go"
    text = re.sub(r"k8s\.io/api v[\w.-]+\w", f"k8s.io/api {required[1]}", main.read_text(encoding="utf-8"), count=1)
    main.write_text(text, encoding="utf-8")


def _go(directory: Path, *arguments: str) -> None:
    done = subprocess.run(
        [go(), *arguments],
        cwd=directory,
        env={**environment(), "GOFLAGS": "-mod=mod"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CannotAddError(f"go {' '.join(arguments)}: {done.stderr.strip()}")


def main() -> int:
    """Add the minor that is named, and generate everything anew; 1 if that cannot be done."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m tests.oracle.add_minor 1.37\n")
        return 2
    try:
        made = add(sys.argv[1], newest=NEWEST)
    except CannotAddError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{made} written\n")
    return subprocess.run([sys.executable, "-m", "tests.oracle.regenerate"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
