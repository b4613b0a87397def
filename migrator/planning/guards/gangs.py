"""Guards on gangs: their termination while no operator runs, and names that contain a hash."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from migrator.grove.objects import Tree, condition, go_duration, kubernetes_time
from migrator.planning.guards.base import SetFacts, report
from migrator.planning.model import Finding
from migrator.planning.releases import DEFAULT_TERMINATION_DELAY, ends_every_gang, spared
from migrator.resources import pointer

_MINIMUM_VIABLE_UNIT: Final = "grove.io/minimum-viable-unit"
_IN_NAMES: Final = "alpha.10-rc1 put the hash into object names, which cannot be migrated"
_REMEDY: Final = "upgrade without grove-migrator, and accept that the pods are replaced"


def hash_in_names(facts: SetFacts) -> Iterator[Finding]:
    """Grove alpha.10-rc1 keyed PodGangMap entries by names that contain the hash (``GeneratePodGangName``)."""
    for gang_map in facts.tree.pod_gang_maps:
        if any(not entry.get("epoch") for entry in gang_map.spec.get("entries") or ()):
            message = f"{gang_map.ref} has entries without an epoch: {_IN_NAMES}"
            yield report("GM-131", gang_map.ref, "/spec/entries", message, _REMEDY)
    for gang in facts.tree.pod_gangs:
        if _MINIMUM_VIABLE_UNIT in gang.labels:
            message = f"{gang.ref} has the label {_MINIMUM_VIABLE_UNIT}: {_IN_NAMES}"
            field = pointer("metadata", "labels", _MINIMUM_VIABLE_UNIT)
            yield report("GM-131", gang.ref, field, message, _REMEDY)


def gang_termination(tree: Tree, *, builds: Sequence[str], now: datetime | None, downtime: float) -> Iterator[Finding]:
    """Gangs that the next operator would delete at its start: it judges by the stored condition, and downtime counts.

    ``builds`` are those that it may be, if they are known; ``downtime`` is in seconds; ``now`` is ``None`` for a dump,
    of which nothing is said. Grove: ``podcliqueset/components/podcliquesetreplica/gangterminate.go`` ends a gang once
    ``terminationDelay - (now - lastTransitionTime)`` is not above zero. From alpha.12-rc1 on it leaves some alone.
    """
    if now is None:
        return
    delay = tree.pcs.template.get("terminationDelay") or DEFAULT_TERMINATION_DELAY
    for item in tree.children:
        breached = condition(item, "MinAvailableBreached")
        if breached.get("status") != "True" or (spared(item) and not ends_every_gang(builds)):
            continue
        since = breached.get("lastTransitionTime")
        if _seconds_left(delay, since, now) > downtime:
            continue
        message = (
            f"{item.ref}: MinAvailableBreached is True since {since}, and its termination delay of {delay} ends within "
            f"the expected downtime of {downtime:.0f} s: the next operator would delete the gang"
        )
        remedy = "bring its pods back first, or raise spec.template.terminationDelay"
        yield report("GM-116", item.ref, "/status/conditions", message, remedy, overridable=True)


def _seconds_left(delay: object, since: object, now: datetime) -> float:
    """The seconds until gang termination; ``-inf`` if the operator cannot know them: it acts at once."""
    began = kubernetes_time(since)
    try:
        seconds = go_duration(str(delay))
    except ValueError:
        return -math.inf
    return -math.inf if began is None else seconds - (now - began).total_seconds()
