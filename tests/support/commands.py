"""Commands of other programs: bounded in time, with what they said where they fail."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from tests.support.paths import ROOT

#: More than any one command needs; what waits for a Job has its own bound.
SECONDS: Final = 1800


class CommandError(Exception):
    """A command failed or did not end; the message has its command line and what it said."""


def run(*argv: str | Path, cwd: Path = ROOT, seconds: float = SECONDS, **environment: str) -> str:
    """Run a command to its end and return its standard output; raises CommandError if it fails."""
    done = attempt(*argv, cwd=cwd, seconds=seconds, **environment)
    if done.returncode != 0:
        raise CommandError(
            f"{' '.join(map(str, argv))} ended with {done.returncode}: {(done.stderr or done.stdout)[-3000:]}"
        )
    return done.stdout


def docker_answers() -> bool:
    """Whether there is a Docker engine."""
    try:
        return attempt("docker", "info", seconds=30).returncode == 0
    except (OSError, CommandError):
        return False


def attempt(
    *argv: str | Path, cwd: Path = ROOT, seconds: float = SECONDS, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, however that is; raises CommandError if it does not come in time."""
    try:
        return subprocess.run(
            argv,
            cwd=cwd,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"{' '.join(map(str, argv))} did not end within {seconds:g} s") from error
