"""stdout: data, and nothing else."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from migrator.errors import OutputError

#: Control characters that JSON permits in a string, and a terminal obeys.
_CONTROL: Final = re.compile("[\x7f-\x9f]")


class ReaderGone(Exception):
    """The reader of stdout has closed it, as ``head`` does."""


def write(text: str) -> None:
    """Write data to stdout; raises :class:`ReaderGone` for a closed pipe, and ``OutputError`` for a full disk."""
    with guarded():
        sys.stdout.write(text)


def as_json(document: Mapping[str, Any], *, indent: int | None = 2) -> str:
    """A JSON document as text; without ``indent`` it is one line."""
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def flush() -> None:
    """Flush everything that was written; raises as :func:`write` does."""
    with guarded():
        sys.stdout.flush()


@contextmanager
def guarded() -> Iterator[None]:
    """Raise for a failure to write to stdout what :func:`write` raises."""
    try:
        yield
    except OSError as error:
        # What Python still buffers must not fail again at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise ReaderGone from error
        raise OutputError(f"cannot write to stdout: {error.strerror}") from error
