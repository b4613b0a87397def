"""The Go program of the benchmarks: a client that sends recorded patches."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from testbed.go_programs import GoProgram

_HERE: Final = Path(__file__).resolve().parent

PATCHER: Final = GoProgram("patcher", _HERE / "patcher")
