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


def write(summary: Mapping[str, Any]) -> None:
    """Write a summary to the file that the environment names, else in a pod to the default one, else nowhere.

    An error of the file is ignored, because the run is over.
    """
    from migrator.cli import connect

    path = os.environ.get(VARIABLE, DEFAULT_PATH if connect.own_namespace() is not None else "")
    if path:
        with suppress(OSError):
            Path(path).write_bytes(encode(summary))


def encode(summary: Mapping[str, Any]) -> bytes:
    """A summary as JSON of at most 4096 bytes; the longest texts in it are cut until it fits."""
    values = dict(summary)
    while len(text := json.dumps(values).encode() + b"\n") > _LIMIT:
        longest = max((key for key in values if isinstance(values[key], str)), key=lambda key: len(values[key]))
        kept = len(values[longest]) - len(_CUT) - max(1, len(text) - _LIMIT)
        values[longest] = values[longest][: max(0, kept)] + _CUT
    return text
