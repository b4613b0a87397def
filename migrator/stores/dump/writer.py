"""A List of objects as ``kubectl get -o json`` prints it, written as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO

from migrator import exact_json
from migrator.errors import OutputError
from migrator.exact_json import JSONObject
from migrator.stores.dump.reader import STDIO


def write(path: str, objects: Iterable[JSONObject], mode: int | None) -> None:
    """Write a List to a file with these permissions, or to stdout for ``-``; raises ``OutputError``.

    Without ``mode`` the permissions are those of the file that is replaced, or the usual ones of a new file.
    """
    try:
        if path == STDIO:
            sys.stdout.buffer.writelines(_lines(objects))
            sys.stdout.buffer.flush()
        else:
            _replace(Path(os.path.realpath(path)), objects, mode)
    except OSError as error:
        raise OutputError(f"cannot write to {'stdout' if path == STDIO else path}: {error.strerror}") from error


def _lines(objects: Iterable[JSONObject]) -> Iterator[bytes]:
    yield b'{\n    "apiVersion": "v1",\n    "items": ['
    separator = ""
    for item in objects:
        text = exact_json.as_go(exact_json.dumps(item, sort_keys=True, indent=4)).replace("\n", "\n        ")
        yield f"{separator}\n        {text}".encode()
        separator = ","
    end = "\n    " if separator else ""
    yield f'{end}],\n    "kind": "List",\n    "metadata": {{\n        "resourceVersion": ""\n    }}\n}}\n'.encode()


def _replace(path: Path, objects: Iterable[JSONObject], mode: int | None) -> None:
    """Write a new file beside it, then rename: a reader sees the old file or the new one, never a part."""
    before = path.stat().st_mode if path.exists() else None
    if before is not None and not stat.S_ISREG(before):
        with path.open("wb") as device:  # a pipe or a terminal cannot be replaced
            device.writelines(_lines(objects))
        return
    mode = stat.S_IMODE(before) if mode is None and before is not None else mode
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        private = partial(os.open, mode=0o666 if mode is None else 0o600)  # nobody else opens it early
        file: IO[bytes]
        with open(beside, "xb", opener=private) as file:  # a path's own open has no opener
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.writelines(_lines(objects))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
