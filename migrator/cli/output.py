"""stdout: data, and nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from migrator.errors import OutputError


class ReaderGone(Exception):
    """The reader of stdout has closed it, as ``head`` does."""


def write(text: str) -> None:
    """Write data to stdout.

    Raises :class:`ReaderGone` for a closed pipe and :class:`~migrator.errors.OutputError` for a full disk.
    """
    _guarded(lambda: sys.stdout.write(text))


def flush() -> None:
    """Flush everything that was written; raises as :func:`write` does."""
    _guarded(sys.stdout.flush)


def abandon() -> None:
    """Discard the text that Python still buffers for a reader that has gone, so that the exit prints nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _guarded(action: Callable[[], object]) -> None:
    try:
        action()
    except BrokenPipeError as error:
        raise ReaderGone from error
    except OSError as error:
        raise OutputError(f"cannot write to stdout: {error.strerror}") from error
