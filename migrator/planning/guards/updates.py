"""Guards on updates in flight, in every form of every release line.

``rollingUpdateProgress`` (alpha.1 to alpha.8) and ``updateProgress`` (alpha.7 and later) are both read; which
of them is visible depends on the installed CRDs. Where both tell the same, it is reported once, by the newer
field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from migrator.grove.model import Finding, Place, Ref
from migrator.grove.places import PROGRESS_FIELDS
from migrator.hashing.schemes import CANONICAL
from migrator.planning.guards.base import Context, children, condition, refuse, warn, with_status

_WAIT: Final = "let the running operator finish (or run with --wait-for-idle)"
_DELETION: Final = "/metadata/deletionTimestamp"

Progress = Mapping[str, Any]


def set_update(context: Context) -> Iterator[Finding]:
    """F2, F3: a rolling update of the PodCliqueSet.

    ``currentlyUpdating`` is an object up to alpha.6 and a list afterwards. An entry of the list that has ended
    is still in flight: the operator has not gone on to the next replica, or to the end, yet.
    """
    pcs = context.tree.pcs
    if name := _first(pcs.status, _unended):
        yield refuse("GM-102", pcs.ref, f"/status/{name}", f"{pcs.ref}: status.{name} has no updateEndedAt; {_WAIT}")
    if name := _first(pcs.status, _updating):
        yield refuse(
            "GM-103",
            pcs.ref,
            f"/status/{name}/currentlyUpdating",
            f"{pcs.ref}: status.{name}.currentlyUpdating names replica {_replicas(pcs.status[name])}; {_WAIT}",
        )


def clique_update(context: Context) -> Iterator[Finding]:
    """F7: an update of a PodClique (Grove: ``IsPCLQUpdateInProgress``, ``IsPCLQAutoUpdateInProgress``)."""
    for pod_clique in context.tree.pod_cliques:
        yield from _update("GM-107", pod_clique.ref, pod_clique.status, "readyPodsSelectedToUpdate")


def group_update(context: Context) -> Iterator[Finding]:
    """F8: an update of a scaling group (Grove: ``IsPCSGUpdateInProgress``)."""
    for group in context.tree.scaling_groups:
        yield from _update("GM-108", group.ref, group.status, "readyReplicaIndicesSelectedToUpdate")


def terminating(context: Context) -> Iterator[Finding]:
    """F6, F13: objects on their way out."""
    tree = context.tree
    for item in (*children(tree), *tree.pod_gang_maps):
        if item.terminating:
            yield refuse(
                "GM-106",
                item.ref,
                _DELETION,
                f"{item.ref} is being deleted: an update, a scale-in or gang termination is under way; {_WAIT}",
            )
    for pod_clique in tree.pod_cliques:
        for pod in pod_clique.pods:
            if pod.terminating:
                yield warn("GM-113", pod.ref, _DELETION, f"{pod.ref} is being deleted; it is left alone")


def observed_generation(context: Context) -> Iterator[Finding]:
    """F5: the operator has not reconciled the newest generation; GM-101 says if that matters.

    To a canonical source it may matter though GM-101 is silent: the legacy hash of a template whose lists were in
    canonical order is the canonical hash of the same template in any order, so a reordering that a legacy operator
    has not seen would pass for a set of a canonical one.
    """
    tree = context.tree
    ambiguous = context.source.algorithm == CANONICAL and context.recorded != context.source.name
    edited = any(stored.place is Place.SET_GENERATION for stored in context.foreign)
    meaning = "see GM-101" if edited else "nothing that is hashed has changed, so this is a scale or the like"
    for item in with_status(tree):
        observed = item.status.get("observedGeneration")
        if item.generation and (not isinstance(observed, int) or observed < item.generation):
            if ambiguous and item.ref == tree.ref:
                yield refuse(
                    "GM-105",
                    item.ref,
                    "/status/observedGeneration",
                    f"{item.ref}: the operator has seen {_seen(observed)}, the newest generation is {item.generation}, "
                    "and the hash fits a canonical operator and a legacy one that has not seen a reordered list alike; "
                    f"{_WAIT}",
                )
                continue
            yield warn(
                "GM-105",
                item.ref,
                "/status/observedGeneration",
                f"{item.ref}: the operator has seen {_seen(observed)}, the newest generation is {item.generation}; "
                f"{meaning}",
            )


def conditions(context: Context) -> Iterator[Finding]:
    """F17, F18, F19, F20: what the operator itself reports as under way."""
    pcs = context.tree.pcs
    for item in children(context.tree):
        breached = condition(item, "MinAvailableBreached")
        if breached.get("status") == "Unknown" and breached.get("reason") == "UpdateInProgress":
            yield refuse(
                "GM-117",
                item.ref,
                "/status/conditions",
                f"{item.ref}: condition MinAvailableBreached is Unknown, reason UpdateInProgress; {_WAIT}",
            )
    for group in context.tree.scaling_groups:
        if condition(group, "GangTerminationInProgress").get("status") == "True":
            yield refuse(
                "GM-118",
                group.ref,
                "/status/conditions",
                f"{group.ref}: condition GangTerminationInProgress is True; let the operator recreate the gang",
            )
    if condition(pcs, "PodGangMigrationInProgress").get("status") == "True":
        yield refuse(
            "GM-119",
            pcs.ref,
            "/status/conditions",
            f"{pcs.ref}: condition PodGangMigrationInProgress is True; let the operator finish moving its PodGangs",
        )
    if pcs.status.get("currentRevision"):
        yield refuse(
            "GM-120",
            pcs.ref,
            "/status/currentRevision",
            f"{pcs.ref} is kept by ControllerRevisions (status.currentRevision): such an operator adopts old "
            "hashes by itself, and the migrator must not run",
        )


def _update(code: str, ref: Ref, status: Mapping[str, Any], selected: str) -> Iterator[Finding]:
    if name := _first(status, _unended):
        yield refuse(code, ref, f"/status/{name}", f"{ref}: status.{name} has no updateEndedAt; {_WAIT}")
    elif name := _first(status, lambda progress: progress.get(selected) is not None):
        yield refuse(code, ref, f"/status/{name}/{selected}", f"{ref}: status.{name}.{selected} is set; {_WAIT}")


def _first(status: Mapping[str, Any], holds: Callable[[Progress], bool]) -> str | None:
    """The first progress field, newest form first, of which something holds."""
    return next((name for name in PROGRESS_FIELDS if status.get(name) is not None and holds(status[name])), None)


def _unended(progress: Progress) -> bool:
    return not progress.get("updateEndedAt")


def _updating(progress: Progress) -> bool:
    return progress.get("currentlyUpdating") not in (None, [])


def _replicas(progress: Progress) -> str:
    updating = progress["currentlyUpdating"]
    entries = updating if isinstance(updating, list) else [updating]
    return ", ".join(str(entry.get("replicaIndex", 0)) for entry in entries)


def _seen(observed: object) -> str:
    return f"generation {observed}" if isinstance(observed, int) else "no generation"


CHECKS: Final = (set_update, clique_update, group_update, terminating, observed_generation, conditions)
