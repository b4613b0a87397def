"""The processes that are measured, and the figures that come of them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL
from time import perf_counter, sleep
from typing import IO, Any, Final

Stream = IO[bytes] | int | None

_LOOK_EVERY: Final = 0.01
ROOT: Final = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. ``goal`` is about the ratio if there is a reference, else about ``ours``; empty without one."""

    figure: str
    ours: float
    reference: float | None
    unit: str
    goal: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours divided by the reference: of rates more is better, of times and sizes less."""
        return None if self.reference is None else self.ours / self.reference

    @property
    def is_reached(self) -> bool | None:
        """Whether the goal is reached; ``None`` without one."""
        if not self.goal:
            return None
        sign, _, bound = self.goal.partition(" ")
        value = self.ours if self.ratio is None else self.ratio
        return value <= float(bound) if sign == "<=" else value >= float(bound)


@dataclass(frozen=True, slots=True)
class Spent:
    """What a program took: seconds of the clock, and KiB of memory at most."""

    seconds: float
    peak_kib: int


def spend(command: Sequence[str], *, core: int | None = None, stdout: Stream = DEVNULL, stderr: Stream = None) -> Spent:
    """Run a program from its start to its end, on one core if it is named; raises ``RuntimeError`` if it fails."""
    began = perf_counter()
    process = subprocess.Popen(command, stdout=stdout, stderr=stderr, **_settings(core))
    peak = 0
    while not (waited := os.wait4(process.pid, os.WNOHANG))[0]:
        peak = max(peak, peak_kib(process.pid))
        sleep(_LOOK_EVERY)
    _, status, _ = waited
    seconds = perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return Spent(seconds, peak)


def peak_kib(pid: int) -> int:
    """The most memory that a living process has had. Not what ``wait4`` tells: that counts its parent's at the fork."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


def _settings(core: int | None) -> Any:  # noqa: ANN401 - arguments of Popen
    pinned = None if core is None else lambda: os.sched_setaffinity(0, {core})
    return {"cwd": ROOT, "env": {**os.environ, "PYTHONPATH": str(ROOT)}, "preexec_fn": pinned}
