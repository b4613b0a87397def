"""The reference program: a Go client that sends the patches of a recorded run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.go_programs import GoProgram

PATCHER: Final = GoProgram("patcher", Path(__file__).resolve().parent / "patcher")
