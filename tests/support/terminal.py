"""Terminals of 80 columns: one of this process, and a real one with a program in it."""

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
from dataclasses import dataclass

from tests.support.paths import ROOT

QUESTION = "[y/N]"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Watched(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Shown:
    """All that was ever written to a terminal, and stdout where that is a pipe."""

    raw: str
    data: str = ""

    @property
    def lines(self) -> list[str]:
        """Lines as they stay: what was drawn over is not among them."""
        text = _ESCAPES.sub("", self.raw + self.data)
        found = [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n")]
        return [line for line in found if line and not re.match(r"[\u2800-\u28ff] |  (?:patches|reading) ", line)]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def show(module: str, *arguments: str, answer: str = "") -> Shown:
    """Run a module in a terminal until it ends, and type an answer once it has asked."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    kept = {key: value for key, value in os.environ.items() if key != "CI" and not key.startswith("GROVE_MIGRATOR")}
    environ = {**kept, "TERM": "xterm-256color", "NO_COLOR": "1"}
    typed = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(typed, cwd=ROOT, env=environ, stdin=inner, stdout=inner, stderr=inner):
        os.close(inner)
        said = b""
        while True:
            try:
                said += os.read(outer, 65536)
            except OSError:  # the other end is closed
                break
            if answer and QUESTION.encode() in said:
                os.write(outer, answer.encode())
                answer = ""
    os.close(outer)
    return Shown(said.decode(errors="replace"))
