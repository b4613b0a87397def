"""Add a minor of k8s.io/api: `python -m tests.golden.add_minor 1.37`.

Writes the oracle of that minor, with the newest patch release that the configured module proxy has, and then all that
is generated from the oracles: the layout by which the product hashes, the pages that list minors, and the golden
vectors. `1.38-preview` is made of the newest pre-release of a minor that has no release yet.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from testbed.go_programs import environment, go
from testbed.oracle import HERE, NEWEST

MINOR = re.compile(r"1\.(\d+)(-preview)?")


class CannotAddError(Exception):
    """The minor cannot be added; the message says why. Nothing is left of the attempt."""


def add(minor: str, *, newest: str, directory: Path = HERE) -> Path:
    """Make the oracle of `minor` from that of `newest`, beside it; returns its directory, or raises CannotAddError."""
    named = MINOR.fullmatch(minor)
    if named is None:
        raise CannotAddError(f"{minor} is not a minor of Kubernetes; they are written like 1.37")
    made = directory / f"v{minor}"
    if made.exists():
        raise CannotAddError(f"{made} exists")
    try:
        shutil.copytree(directory / f"v{newest}", made)
        go_mod = made / "go.mod"
        text = go_mod.read_text(encoding="utf-8").replace(f"oracle-{newest}", f"oracle-{minor}", 1)
        go_mod.write_text(text, encoding="utf-8")
        if named[2]:
            _get_pre_release(made, named[1])
        else:
            _get(made, f"v0.{named[1]}")
        _go(made, "mod", "tidy")
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return made


def _get(made: Path, version: str) -> None:
    _go(made, "get", f"k8s.io/api@{version}", f"k8s.io/apimachinery@{version}")


def _get_pre_release(made: Path, minor: str) -> None:
    """Require the newest pre-release that can be had; a preview of a minor that is released says nothing."""
    versions = [
        one for one in _go(made, "list", "-m", "-versions", "k8s.io/api").split() if one.startswith(f"v0.{minor}.")
    ]
    if any("-" not in one for one in versions):
        raise CannotAddError(f"k8s.io/api 0.{minor} is released; add 1.{minor}")
    failure = CannotAddError(f"k8s.io/api 0.{minor} has no pre-release")
    for version in reversed(versions):
        try:
            return _get(made, version)
        except CannotAddError as error:  # a module that it needs may be too new for the proxy
            failure = error
    raise failure


def _go(directory: Path, *arguments: str) -> str:
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
    return done.stdout


def main() -> int:
    """Add the minor that is named, and generate everything anew; 1 if that cannot be done."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m tests.golden.add_minor 1.37\n")
        return 2
    try:
        made = add(sys.argv[1], newest=NEWEST)
    except CannotAddError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{made} written\n")
    return subprocess.run([sys.executable, "-m", "tests.golden.regenerate"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
