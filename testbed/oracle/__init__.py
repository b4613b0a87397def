"""The Go oracles, one for each k8s.io/api minor."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from testbed.go_programs import GoProgram, GoProgramError

HERE: Final = Path(__file__).resolve().parent
MINORS: Final = tuple(
    sorted((path.name[1:] for path in HERE.glob("v1.*")), key=lambda minor: int(minor[2:].partition("-")[0]))
)
NEWEST: Final = MINORS[-1]


def oracle(minor: str) -> GoProgram:
    """The oracle of a minor such as ``1.35``; raises GoProgramError for one that has none."""
    if minor not in MINORS:
        raise GoProgramError(f"no oracle for k8s.io/api {minor}; there is one for {', '.join(MINORS)}")
    return GoProgram(f"oracle-{minor}", HERE / f"v{minor}", sources=(HERE / "shared",))


def oracle_binary(minor: str) -> Path:
    """The built oracle of a minor."""
    return oracle(minor).binary()
