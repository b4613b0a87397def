"""A terminal of 80 columns with a program in it, and somebody who types."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.support.paths import ROOT


class Watched(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Shown:
    """How it ended, and all that was ever written to the terminal; ``data`` is stdout where that is a pipe."""

    code: int
    raw: str
    data: str = ""

    @property
    def lines(self) -> list[str]:
        """Lines as they stay: what was drawn over is not among them."""
        text = _ESCAPES.sub("", self.raw)
        found = [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n")]
        return [line for line in found if line and not re.match(r"[\u2800-\u28ff] |  (?:patches|reading) ", line)]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def show(
    module: str,
    arguments: Sequence[str],
    *,
    typed: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    piped: bool = False,
) -> Shown:
    """Run a module in a terminal; each text in ``typed`` is typed once its key has appeared.

    With ``piped`` stdout is a pipe, and stdin and stderr are the terminal.
    """
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    kept = {key: value for key, value in os.environ.items() if key != "CI" and not key.startswith("GROVE_MIGRATOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**kept, "TERM": "xterm-256color", "NO_COLOR": "1", **(environ or {})},
        stdin=inner,
        stdout=subprocess.PIPE if piped else inner,
        stderr=inner,
    )
    os.close(inner)
    waiting, said = dict(typed or {}), b""
    while True:
        try:
            read = os.read(outer, 65536)
        except OSError:  # the other end is closed
            break
        if not read:
            break
        said += read
        for key in [key for key in waiting if key.encode() in said]:
            os.write(outer, waiting.pop(key).encode())
    os.close(outer)
    data, _ = process.communicate()
    return Shown(process.returncode, said.decode(errors="replace"), (data or b"").decode())
