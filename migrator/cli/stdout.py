"""The standard streams: data is written to stdout, and nothing else is."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

from migrator.errors import OutputError

#: Control characters that JSON permits in a string, and a terminal obeys.
_CONTROL: Final = re.compile("[\x7f-\x9f]")


def prepare() -> None:
    """Replace a stream that the caller has closed by /dev/null, and let data be UTF-8 wherever it goes.

    A closed stream is ``None`` in Python, and the next socket would get its number. What replaces stdout cannot be
    written to, so lost data is an error. A terminal keeps its own encoding, and shows ``?`` for what it lacks.
    """
    for name, mode, flags in (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="replace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def write(text: str = "") -> None:
    """Write data to stdout, and flush it; raises ``OutputError`` for a full disk.

    For a reader that has left, as ``head`` does, it raises ``BrokenPipeError``, with which Click ends the process.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # What Python still buffers must not fail again at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputError(f"cannot write to stdout: {error.strerror}") from error


def as_json(document: Mapping[str, Any], *, indent: int | None = 2) -> str:
    """A JSON document as text; without ``indent`` it is one line."""
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"
