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


def write(path: str, objects: Iterable[JSONObject], source: str) -> None:
    """Write a List to a file, or to stdout for ``-``; raises ``OutputError``.

    Its permissions are those of the ``source``. If that is no file, they are those of the file that is replaced, or the
    usual ones of a new file.
    """
    try:
        if path == STDIO:
            sys.stdout.buffer.writelines(_lines(objects))
            sys.stdout.buffer.flush()
        else:
            _replace(Path(os.path.realpath(path)), objects, Path(source))
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


def _replace(path: Path, objects: Iterable[JSONObject], source: Path) -> None:
    """Write a new file beside it, then rename: a reader sees the old file or the new one, never a part."""
    if path.exists() and not path.is_file():
        with path.open("wb") as device:  # a pipe or a terminal cannot be replaced
            device.writelines(_lines(objects))
        return
    mode = next((stat.S_IMODE(one.stat().st_mode) for one in (source, path) if one.is_file()), None)
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
