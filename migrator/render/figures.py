"""The costs of an upgrade: totals by namespace and label, the operator's pause, GPU-hours. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from migrator.grove.model import BlastRadius, Plan, TreePlan, TreeState
from migrator.planning.patches import patches_of

#: The patches that a run is assumed to write in a second, if nobody has measured it; docs/performance.md has figures.
PATCHES_PER_SECOND: Final = 100

#: How long a recreated pod is assumed to be away by default, in seconds.
RELOAD_SECONDS: Final = 600.0

#: The name of the share of sets without the label.
UNLABELLED: Final = "(without it)"

_SHORT: Final = 120


@dataclass(frozen=True, slots=True)
class Share:
    """The sets of one namespace or one value of a label: their number, and the pods that are recreated."""

    name: str
    sets: int
    refused: int
    without: BlastRadius
    with_migration: BlastRadius


def patches(plan: Plan) -> int:
    """How many requests a run sends to write what is planned."""
    return sum(len(patches_of(tree.changes)) for tree in plan.trees if tree.state is TreeState.MIGRATE)


def gpu_hours(blast: BlastRadius, reload_seconds: float) -> float:
    """The GPU-hours that are lost if each recreated pod is away for ``reload_seconds``."""
    return blast.gpus * reload_seconds / 3600


def spoken(seconds: float) -> str:
    """``13 s``, ``25 min``, ``3 h``; rounded up."""
    if seconds <= _SHORT:
        return f"{math.ceil(seconds)} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes <= _SHORT else f"{math.ceil(minutes / 60)} h"


def shares(plan: Plan, label: str | None = None) -> list[Share]:
    """A share for each namespace, or for each value of a label of the PodCliqueSets, most GPUs first."""
    members: dict[str, list[TreePlan]] = {}
    for tree in plan.trees:
        name = tree.tree.ref.namespace if label is None else tree.tree.pcs.labels.get(label) or UNLABELLED
        members.setdefault(name, []).append(tree)
    found = [
        Share(
            name=name,
            sets=len(group),
            refused=sum(1 for tree in group if tree.state is TreeState.REFUSED),
            without=sum((tree.blast for tree in group), BlastRadius()),
            with_migration=sum(
                (tree.rest if tree.state is TreeState.MIGRATE else tree.blast for tree in group), BlastRadius()
            ),
        )
        for name, group in members.items()
    ]
    return sorted(found, key=lambda share: (-share.without.gpus, -share.without.pods, share.name))
