"""The termination message of a pod, which ``kubectl describe pod`` shows after a run.

Kubernetes keeps the first 4096 bytes of a container's termination message
(kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure). So the summary is one JSON object
that always fits; long texts in it are cut.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

#: The variable that names the file of the summary; empty for no file.
VARIABLE: Final = "GROVE_MIGRATOR_TERMINATION_LOG"

#: The file that Kubernetes reads by default.
DEFAULT_PATH: Final = "/dev/termination-log"

_LIMIT: Final = 4096
_CUT: Final = "..."


def path(environ: Mapping[str, str] | None = None, *, in_a_pod: bool) -> str | None:
    """The file to write to: the one that the environment names, else the default one in a pod, else ``None``."""
    named = (os.environ if environ is None else environ).get(VARIABLE, DEFAULT_PATH if in_a_pod else "")
    return named or None


def write(summary: Mapping[str, Any], to: str | None) -> None:
    """Write a summary to a file, if one is given. An error of the file is ignored, because the run is over."""
    if to is not None:
        with suppress(OSError):
            Path(to).write_bytes(encode(summary))


def encode(summary: Mapping[str, Any]) -> bytes:
    """A summary as JSON of at most 4096 bytes; the longest texts in it are cut until it fits."""
    values = dict(summary)
    while len(text := json.dumps(values).encode() + b"\n") > _LIMIT:
        longest = max((key for key in values if isinstance(values[key], str)), key=lambda key: len(values[key]))
        kept = len(values[longest]) - len(_CUT) - max(1, len(text) - _LIMIT)
        values[longest] = values[longest][: max(0, kept)] + _CUT
    return text
