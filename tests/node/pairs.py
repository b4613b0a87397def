"""The upgrades that are tried with real nodes and operators in containers."""

from __future__ import annotations

from typing import Final

from tests.upgrade.matrix import Pair

_MAPS: Final = "pr-778-6eaa77f0"
PAIRS: Final = (
    Pair("v0.1.0-alpha.9", "v0.1.0-alpha.11"),
    Pair("v0.1.0-alpha.3", "v0.1.0-alpha.9"),
    Pair("v0.1.0-alpha.8", "v0.1.0-alpha.12-rc1", may_stall=True),
    Pair("v0.1.0-alpha.12-rc1", _MAPS, recreates=False),
    # Pods keep PodGang labels of PodGangMaps, and alpha.12-rc1 does not finish a reconciliation beside them.
    Pair(_MAPS, "v0.1.0-alpha.12-rc1", recreates=False, unrest=("PodCliqueSet gang: its spec is not observed",)),
)
#: What a result's name ends with where our chart ran the Job.
BY_CHART: Final = "-by-chart"
