"""Commands of other programs, and whether this machine has what they need."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from tests.upgrade.kind.charts import Charts

PROGRAMS: Final = ("docker", "kind", "helm", "kubectl")
_SECONDS: Final = 1800


class CommandError(Exception):
    """A command failed; the message has its command line and what it said."""


class Run(Protocol):
    """Runs one command to its end and returns its standard output; raises CommandError if it fails."""

    def __call__(self, *argv: str) -> str:
        """Run it."""
        ...


def run(*argv: str) -> str:
    """Run a command on this machine."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode != 0:
        raise CommandError(f"{' '.join(argv)} ended with {done.returncode}: {(done.stderr or done.stdout)[-3000:]}")
    return done.stdout


def lacking(*, run: Run = run, which: Callable[[str], object] = shutil.which) -> str | None:
    """Why no cluster can be made here: a program or its engine cannot be had; None if all can."""
    absent = [program for program in PROGRAMS if which(program) is None]
    if absent:
        return f"not on PATH: {', '.join(absent)}"
    try:
        run("docker", "info")
    except CommandError as error:
        return f"no Docker engine answers: {error}"
    return None


def lacking_charts(releases: Sequence[str], *, run: Run = run) -> str | None:
    """Why these releases cannot be installed: the chart of one cannot be had; None if all can."""
    try:
        for release in releases:
            run("helm", "show", "chart", *Charts().reference(release))
    except CommandError as error:
        return f"Grove's charts cannot be had: {error}"
    return None
