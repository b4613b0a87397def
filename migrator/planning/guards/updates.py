"""Guards on updates in flight, in every form of every release line.

``rollingUpdateProgress`` (alpha.1 to alpha.8) and ``updateProgress`` (alpha.7 and later) are both read; the installed
CRDs decide which of them is visible. An update in both fields is reported once, by the newer field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from migrator.grove.model import Place, PodClique, PodCliqueScalingGroup, PodCliqueSet, Ref
from migrator.grove.places import PROGRESS_FIELDS
from migrator.hashing.schemes import CANONICAL
from migrator.planning.guards.base import Case, judge, refuse, warn
from migrator.planning.hazards import condition
from migrator.planning.model import Finding

_WAIT: Final = "let the running operator finish (or run with --wait-for-idle)"
_DELETION: Final = "/metadata/deletionTimestamp"

Progress = Mapping[str, Any]


def set_update(case: Case) -> Iterator[Finding]:
    """A rolling update of the PodCliqueSet.

    ``currentlyUpdating`` is an object up to alpha.6 and a list afterwards. An entry that has ended stays until the
    operator goes on to the next replica. The update ends only when every clique has ``minAvailable`` ready pods, which
    may never happen (Grove: ``podcliqueset/components/podcliquesetreplica/rollingupdate.go:isPCLQUpdateComplete``).
    """
    pcs = case.tree.pcs
    if name := _first(pcs.status, _unended):
        yield _in_flight(case, "GM-102", pcs.ref, f"/status/{name}", f"status.{name} has no updateEndedAt")
    if name := _first(pcs.status, lambda progress: progress.get("currentlyUpdating") not in (None, [])):
        updating = pcs.status[name]["currentlyUpdating"]
        entries = updating if isinstance(updating, list) else [updating]
        replicas = ", ".join(str(entry.get("replicaIndex", 0)) for entry in entries)
        what = f"status.{name}.currentlyUpdating names replica {replicas}"
        yield _in_flight(case, "GM-103", pcs.ref, f"/status/{name}/currentlyUpdating", what)


def child_update(case: Case) -> Iterator[Finding]:
    """An update of a PodClique or scaling group (Grove: ``IsPCLQUpdateInProgress``, ``IsPCSGUpdateInProgress``)."""
    for pod_clique in case.tree.pod_cliques:
        yield from _update(case, "GM-107", pod_clique, "readyPodsSelectedToUpdate")
    for group in case.tree.scaling_groups:
        yield from _update(case, "GM-108", group, "readyReplicaIndicesSelectedToUpdate")


def terminating(case: Case) -> Iterator[Finding]:
    """Objects that are being deleted: by an update while old values are left, else by a scale-in or on a lost node."""
    tree = case.tree
    for item in (*tree.children, *tree.pod_gang_maps):
        if item.terminating:
            message = f"{item.ref} is being deleted, by an update, a scale-in or gang termination"
            remedy = "if its node is lost, delete its pods with --force, so that the deletion can end"
            if case.old_is_left:
                remedy = f"{_WAIT}; {remedy}"
            else:
                message += "; nothing old is left to replace, so it does not block the migration"
            yield judge("GM-106", item.ref, _DELETION, message, remedy, refuses=case.old_is_left)
    for pod_clique in tree.pod_cliques:
        for pod in pod_clique.pods:
            if pod.terminating:
                yield warn("GM-113", pod.ref, _DELETION, f"{pod.ref} is being deleted; it is left alone")


def observed_generation(case: Case) -> Iterator[Finding]:
    """The operator has not reconciled the newest generation; GM-101 refuses if that matters.

    For a canonical source it may matter even without GM-101: the legacy hash of a template whose lists are in canonical
    order is the canonical hash of that template in any order. So a set that was reordered under a legacy operator would
    look like one of a canonical operator.
    """
    tree = case.tree
    ambiguous = case.source.algorithm == CANONICAL and case.recorded != case.source.name
    meaning = "no hash is affected: the edit changed replicas, for example"
    if any(stored.place is Place.SET_GENERATION for stored in case.foreign):
        meaning = "see GM-101"
    elif case.foreign or _first(tree.pcs.status, _unended):
        meaning = "an edit is being rolled out"
    for item in (tree.pcs, *tree.children):
        observed = item.status.get("observedGeneration")
        if item.generation and (not isinstance(observed, int) or observed < item.generation):
            seen = f"generation {observed}" if isinstance(observed, int) else "no generation"
            lag = f"{item.ref}: the operator has seen {seen}, the newest generation is {item.generation}"
            refuses = ambiguous and item.ref == tree.ref
            why = (
                "its hash may be a canonical operator's, or that of a legacy operator which has not seen a reordered "
                "list yet"
            )
            message, remedy = f"{lag}; {why if refuses else meaning}", _WAIT if refuses else ""
            yield judge("GM-105", item.ref, "/status/observedGeneration", message, remedy, refuses=refuses)


def conditions(case: Case) -> Iterator[Finding]:
    """Actions that the operator itself reports as under way; none of them deletes a pod because of a hash.

    GangTerminationInProgress stays as long as GPUs are missing
    (alpha.12-rc1: ``podcliquescalinggroup/reconcilestatus.go:mutateMinAvailableBreachedCondition``), and
    PodGangMigrationInProgress may stay for ever (Grove issue 808).
    """
    tree = case.tree
    for item in tree.children:
        breached = condition(item, "MinAvailableBreached")
        if (breached.get("status"), breached.get("reason")) == ("Unknown", "UpdateInProgress"):
            what = "condition MinAvailableBreached is Unknown, reason UpdateInProgress"
            yield _in_flight(case, "GM-117", item.ref, "/status/conditions", what)
    for group in tree.scaling_groups:
        yield from _reported(case, "GM-118", group, "GangTerminationInProgress")
    yield from _reported(case, "GM-119", tree.pcs, "PodGangMigrationInProgress")
    if tree.pcs.status.get("currentRevision"):
        message = (
            f"{tree.ref} is managed by ControllerRevisions (status.currentRevision): such an operator adopts old "
            "hashes by itself"
        )
        yield refuse("GM-120", tree.ref, "/status/currentRevision", message, "upgrade without the migrator")


def _reported(case: Case, code: str, item: PodCliqueSet | PodCliqueScalingGroup, name: str) -> Iterator[Finding]:
    if condition(item, name).get("status") == "True":
        yield _in_flight(case, code, item.ref, "/status/conditions", f"condition {name} is True")


def _update(case: Case, code: str, item: PodClique | PodCliqueScalingGroup, selected: str) -> Iterator[Finding]:
    if name := _first(item.status, _unended):
        yield _in_flight(case, code, item.ref, f"/status/{name}", f"status.{name} has no updateEndedAt")
    elif name := _first(item.status, lambda progress: progress.get(selected) is not None):
        yield _in_flight(case, code, item.ref, f"/status/{name}/{selected}", f"status.{name}.{selected} is set")


def _in_flight(case: Case, code: str, ref: Ref, field: str, what: str) -> Finding:
    """An update in flight. It refuses while something old is left to replace, because a migration would hide that."""
    if case.old_is_left:
        return refuse(code, ref, field, f"{ref}: {what}", _WAIT)
    on_delete = "updateStrategy is OnDelete, so it replaces no pod"
    why = on_delete if case.tree.pcs.on_delete else "nothing old is left to replace"
    return warn(code, ref, field, f"{ref}: {what}; {why}, and it does not block the migration")


def _first(status: Mapping[str, Any], holds: Callable[[Progress], bool]) -> str | None:
    """The first progress field, newest form first, for which a condition holds."""
    return next((name for name in PROGRESS_FIELDS if status.get(name) is not None and holds(status[name])), None)


def _unended(progress: Progress) -> bool:
    return not progress.get("updateEndedAt")


CHECKS: Final = (set_update, child_update, terminating, observed_generation, conditions)
