"""The Go oracles, one for each k8s.io/api minor."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from testbed.go_programs import GoProgram

HERE: Final = Path(__file__).resolve().parent
MINORS: Final = tuple(sorted((path.name[1:] for path in HERE.glob("v1.*")), key=lambda minor: int(minor[2:])))
NEWEST: Final = MINORS[-1]


def oracle(minor: str) -> GoProgram:
    """The oracle of a minor such as ``1.35``."""
    return GoProgram(f"oracle-{minor}", HERE / f"v{minor}", sources=(HERE / "shared",))
