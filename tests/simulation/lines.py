"""In what the operators of Grove's release lines differ, as far as hashes and pods go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Line:
    """A release line.

    ``compares_children``: whether "updated" looks at labels and both current hashes of PodCliques (alpha.10 and later),
    or at the generation hash alone. ``watches_idle_sets``: whether standalone PodCliques of sets that are not being
    updated are looked at, and pods counted by the PodClique's label (alpha.12-rc1 and later). ``restarts_idle``:
    whether it then starts an update where everything is current (alpha.12-rc1 only; Grove PR 757).
    """

    name: str
    compares_children: bool = True
    watches_idle_sets: bool = False
    restarts_idle: bool = False


ALPHA_9: Final = Line("alpha.9", compares_children=False)
ALPHA_11: Final = Line("alpha.11")
ALPHA_12_RC1: Final = Line("alpha.12-rc1", watches_idle_sets=True, restarts_idle=True)
MAIN: Final = Line("main", watches_idle_sets=True)
