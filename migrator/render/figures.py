"""The costs of an upgrade: totals of some sets, the operator's pause, GPU-hours. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from migrator.grove.objects import Ref
from migrator.planning.model import Disruption, Plan, SetPlan, SetState
from migrator.planning.patches import patches_of

#: How long a recreated pod is assumed to be away, in seconds: the loading of its model included.
RELOAD_SECONDS: Final = 600

#: The name of the share of sets without the label.
UNLABELLED: Final = "(without it)"

_SHORT: Final = 120
_FEW_HOURS: Final = 10


@dataclass(frozen=True, slots=True)
class Share:
    """The sets of one state, one namespace or one value of a label, and the pods in them that are recreated."""

    name: str
    sets: int
    refused: tuple[Ref, ...]
    without: Disruption
    with_migration: Disruption


def shares(trees: Iterable[SetPlan], name: Callable[[SetPlan], str]) -> list[Share]:
    """A share for each name that a set has."""
    members: dict[str, list[SetPlan]] = {}
    for tree in trees:
        members.setdefault(name(tree), []).append(tree)
    return [
        Share(
            name=name,
            sets=len(group),
            refused=tuple(tree.tree.ref for tree in group if tree.state is SetState.REFUSED),
            without=sum((tree.disruption for tree in group), Disruption()),
            with_migration=sum(map(set_recreated_with_migration, group), Disruption()),
        )
        for name, group in members.items()
    ]


def set_recreated_with_migration(tree: SetPlan) -> Disruption:
    """The pods of a set that are recreated although the sets that can be migrated are."""
    return tree.remaining if tree.state is SetState.MIGRATE else tree.disruption


def recreated_with_migration(plan: Plan) -> Disruption:
    """The pods of the cluster that are recreated although the sets that can be migrated are."""
    total, before = plan.cluster_disruption, sum((tree.disruption for tree in plan.trees), Disruption())
    after = sum(map(set_recreated_with_migration, plan.trees), Disruption())
    return Disruption(
        pods=total.pods - before.pods + after.pods,
        gpus=total.gpus - before.gpus + after.gpus,
        running=total.running - before.running + after.running,
    )


def patches(plan: Plan) -> int:
    """How many requests a run sends to write what is planned."""
    return sum(1 for tree in plan.trees if tree.state is SetState.MIGRATE for _ in patches_of(tree.changes))


def gpu_hours(disruption: Disruption) -> str:
    """The GPU-hours that are lost if each recreated pod is away for :data:`RELOAD_SECONDS`."""
    hours = disruption.gpus * RELOAD_SECONDS / 3600
    return f"{hours:,.1f}" if 0 < hours < _FEW_HOURS else f"{hours:,.0f}"


def duration_text(seconds: float) -> str:
    """``13 s``, ``25 min``, ``3 h``; rounded up."""
    if seconds <= _SHORT:
        return f"{math.ceil(seconds)} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes <= _SHORT else f"{math.ceil(minutes / 60)} h"
