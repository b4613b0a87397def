"""The Go programs of the benchmarks: a client that sends recorded patches, and a server that answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from testbed.go_programs import GoProgram

_HERE: Final = Path(__file__).resolve().parent

PATCHER: Final = GoProgram("patcher", _HERE / "patcher")
ANSWERER: Final = GoProgram("answerer", _HERE / "answerer")
