"""Guards on PodGangMaps and PodGangs (alpha.12 and later, and their draft in alpha.10-rc1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from migrator.planning.guards.base import Case, refuse, warn
from migrator.planning.model import Finding
from migrator.resources import pointer

_MINIMUM_VIABLE_UNIT: Final = "grove.io/minimum-viable-unit"
_IN_NAMES: Final = "alpha.10-rc1 put the hash into object names, which cannot be migrated"
_REMEDY: Final = "upgrade without the migrator, and accept that the pods are replaced"


def hash_in_names(case: Case) -> Iterator[Finding]:
    """Grove alpha.10-rc1 keyed PodGangMap entries by names that contain the hash (``GeneratePodGangName``)."""
    for gang_map in case.tree.pod_gang_maps:
        if any(not entry.get("epoch") for entry in gang_map.spec.get("entries") or ()):
            message = f"{gang_map.ref} has entries without an epoch: {_IN_NAMES}"
            yield refuse("GM-131", gang_map.ref, "/spec/entries", message, _REMEDY)
    for gang in case.tree.pod_gangs:
        if _MINIMUM_VIABLE_UNIT in gang.labels:
            message = f"{gang.ref} has the label {_MINIMUM_VIABLE_UNIT}: {_IN_NAMES}"
            field = pointer("metadata", "labels", _MINIMUM_VIABLE_UNIT)
            yield refuse("GM-131", gang.ref, field, message, _REMEDY)


def empty_maps(case: Case) -> Iterator[Finding]:
    """A PodGangMap without entries holds no hash: alpha.12 leaves such maps (Grove issue 808)."""
    for gang_map in case.tree.pod_gang_maps:
        if not gang_map.spec.get("entries"):
            message = (
                f"{gang_map.ref} has no entries, so it stores no hash; alpha.12 leaves such maps when all members were "
                "scaled to zero, and new pods stay gated until a later release repairs them"
            )
            yield warn("GM-133", gang_map.ref, "/spec/entries", message)


CHECKS: Final = (hash_in_names, empty_maps)
