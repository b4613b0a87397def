"""What a benchmark hands back: figures beside their references, measured in the same run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. ``goal`` speaks of the ratio where there is a reference, else of ``ours``; empty without one."""

    figure: str
    ours: float
    reference: float | None
    unit: str
    goal: str

    @property
    def ratio(self) -> float | None:
        """Ours divided by the reference: of rates more is better, of times and sizes less."""
        return None if self.reference is None else self.ours / self.reference
