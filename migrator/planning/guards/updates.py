"""Guards on updates in flight, in every form of every release line.

``rollingUpdateProgress`` (alpha.1 to alpha.8) and ``updateProgress`` (alpha.7 and later) are both read; the installed
CRDs decide which of them is visible. An update in both fields is reported once, by the newer field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from migrator.grove.model import Finding, Place, Ref
from migrator.grove.places import PROGRESS_FIELDS
from migrator.hashing.schemes import CANONICAL
from migrator.planning.guards.base import (
    Case,
    children,
    condition,
    judge,
    refuse,
    warn,
    with_status,
)

_WAIT: Final = "let the running operator finish (or run with --wait-for-idle)"
_DELETION: Final = "/metadata/deletionTimestamp"

Progress = Mapping[str, Any]


def set_update(case: Case) -> Iterator[Finding]:
    """A rolling update of the PodCliqueSet.

    ``currentlyUpdating`` is an object up to alpha.6 and a list afterwards. An entry of the list that has ended is still
    in flight, because the operator has not gone on to the next replica or to the end yet. The update ends only when
    every clique has ``minAvailable`` ready pods, which may never happen (Grove:
    ``podcliqueset/components/podcliquesetreplica/rollingupdate.go:isPCLQUpdateComplete``).
    """
    pcs = case.tree.pcs
    if name := _first(pcs.status, _unended):
        yield _in_flight(case, "GM-102", pcs.ref, f"/status/{name}", f"status.{name} has no updateEndedAt")
    if name := _first(pcs.status, _updating):
        what = f"status.{name}.currentlyUpdating names replica {_replicas(pcs.status[name])}"
        yield _in_flight(case, "GM-103", pcs.ref, f"/status/{name}/currentlyUpdating", what)


def clique_update(case: Case) -> Iterator[Finding]:
    """An update of a PodClique (Grove: ``IsPCLQUpdateInProgress``, ``IsPCLQAutoUpdateInProgress``)."""
    for pod_clique in case.tree.pod_cliques:
        yield from _update(case, "GM-107", pod_clique.ref, pod_clique.status, "readyPodsSelectedToUpdate")


def group_update(case: Case) -> Iterator[Finding]:
    """An update of a scaling group (Grove: ``IsPCSGUpdateInProgress``)."""
    for group in case.tree.scaling_groups:
        yield from _update(case, "GM-108", group.ref, group.status, "readyReplicaIndicesSelectedToUpdate")


def terminating(case: Case) -> Iterator[Finding]:
    """Objects that are being deleted: by an update while old values are left, else by a scale-in or on a lost node."""
    tree = case.tree
    for item in (*children(tree), *tree.pod_gang_maps):
        if item.terminating:
            to_do = _WAIT if case.old_is_left else "nothing old is left to replace, and it does not stand in the way"
            message = (
                f"{item.ref} is being deleted, by an update, a scale-in or gang termination; {to_do}; if its node is "
                "lost, delete its pods with --force, so that the deletion can end"
            )
            yield judge("GM-106", item.ref, _DELETION, message, refuses=case.old_is_left)
    for pod_clique in tree.pod_cliques:
        for pod in pod_clique.pods:
            if pod.terminating:
                yield warn("GM-113", pod.ref, _DELETION, f"{pod.ref} is being deleted; it is left alone")


def observed_generation(case: Case) -> Iterator[Finding]:
    """The operator has not reconciled the newest generation; GM-101 refuses if that matters.

    For a canonical source it may matter even without GM-101. The legacy hash of a template with its lists in canonical
    order is the canonical hash of the same template in any order. So a set that was reordered under a legacy operator
    would pass for a set of a canonical one.
    """
    tree = case.tree
    ambiguous = case.source.algorithm == CANONICAL and case.recorded != case.source.name
    edited = any(stored.place is Place.SET_GENERATION for stored in case.foreign)
    meaning = (
        "see GM-101"
        if edited
        else "an edit is being rolled out"
        if case.foreign or _first(tree.pcs.status, _unended)
        else "no hash is affected, so the edit was a scale or the like"
    )
    for item in with_status(tree):
        observed = item.status.get("observedGeneration")
        if item.generation and (not isinstance(observed, int) or observed < item.generation):
            what = f"{item.ref}: the operator has seen {_seen(observed)}, the newest generation is {item.generation}"
            if ambiguous and item.ref == tree.ref:
                message = (
                    f"{what}; its hash may be a canonical operator's, or a legacy operator's that has not seen a "
                    f"reordered list yet; {_WAIT}"
                )
                yield refuse("GM-105", item.ref, "/status/observedGeneration", message)
                continue
            yield warn("GM-105", item.ref, "/status/observedGeneration", f"{what}; {meaning}")


def conditions(case: Case) -> Iterator[Finding]:
    """Actions that the operator itself reports as under way; none of them deletes a pod because of a hash.

    GangTerminationInProgress stays as long as GPUs are missing
    (alpha.12-rc1: ``podcliquescalinggroup/reconcilestatus.go:mutateMinAvailableBreachedCondition``), and
    PodGangMigrationInProgress may stay for ever (Grove issue 808).
    """
    pcs = case.tree.pcs
    for item in children(case.tree):
        breached = condition(item, "MinAvailableBreached")
        if breached.get("status") == "Unknown" and breached.get("reason") == "UpdateInProgress":
            what = "condition MinAvailableBreached is Unknown, reason UpdateInProgress"
            yield _in_flight(case, "GM-117", item.ref, "/status/conditions", what)
    for group in case.tree.scaling_groups:
        if condition(group, "GangTerminationInProgress").get("status") == "True":
            what = "condition GangTerminationInProgress is True"
            yield _in_flight(case, "GM-118", group.ref, "/status/conditions", what)
    if condition(pcs, "PodGangMigrationInProgress").get("status") == "True":
        yield _in_flight(case, "GM-119", pcs.ref, "/status/conditions", "condition PodGangMigrationInProgress is True")
    if pcs.status.get("currentRevision"):
        message = (
            f"{pcs.ref} is kept by ControllerRevisions (status.currentRevision): such an operator adopts old "
            "hashes by itself; upgrade without the migrator"
        )
        yield refuse("GM-120", pcs.ref, "/status/currentRevision", message)


def _update(case: Case, code: str, ref: Ref, status: Mapping[str, Any], selected: str) -> Iterator[Finding]:
    if name := _first(status, _unended):
        yield _in_flight(case, code, ref, f"/status/{name}", f"status.{name} has no updateEndedAt")
    elif name := _first(status, lambda progress: progress.get(selected) is not None):
        yield _in_flight(case, code, ref, f"/status/{name}/{selected}", f"status.{name}.{selected} is set")


def _in_flight(case: Case, code: str, ref: Ref, field: str, what: str) -> Finding:
    """An update in flight. It refuses while something old is left to replace, because a migration would hide that."""
    if case.old_is_left:
        return refuse(code, ref, field, f"{ref}: {what}; {_WAIT}")
    why = (
        "updateStrategy is OnDelete, so it replaces no pod"
        if case.tree.pcs.on_delete
        else "nothing old is left to replace"
    )
    return warn(code, ref, field, f"{ref}: {what}; {why}, and it does not stand in the way")


def _first(status: Mapping[str, Any], holds: Callable[[Progress], bool]) -> str | None:
    """The first progress field, newest form first, for which a condition holds."""
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
