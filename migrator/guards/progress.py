"""Guards on updates in flight, in every form of every release line.

``rollingUpdateProgress`` (alpha.1 to alpha.8) and ``updateProgress`` (alpha.7 and later) are both read; which
of them is visible depends on the installed CRDs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from migrator.guards.base import Context, refuse, warn
from migrator.model import Finding, PodClique, PodCliqueScalingGroup, PodCliqueSet, Ref
from migrator.stored import PROGRESS_FIELDS

_WAIT: Final = "let the running operator finish the update (or run with --wait-for-idle)"


def set_update(context: Context) -> Iterator[Finding]:
    """F2, F3: a rolling update of the PodCliqueSet."""
    pcs = context.tree.pcs
    for name, progress in _progress(pcs.status):
        field = f"/status/{name}"
        if not progress.get("updateEndedAt"):
            yield refuse("GM-102", pcs.ref, field, f"{pcs.ref}: status.{name} has no updateEndedAt; {_WAIT}")
        if progress.get("currentlyUpdating"):
            yield refuse(
                "GM-103",
                pcs.ref,
                f"{field}/currentlyUpdating",
                f"{pcs.ref}: status.{name}.currentlyUpdating names replica {_replicas(progress)}; {_WAIT}",
            )


def clique_update(context: Context) -> Iterator[Finding]:
    """F7: an update of a PodClique."""
    for pod_clique in context.tree.pod_cliques:
        yield from _update("GM-107", pod_clique.ref, pod_clique.status, "readyPodsSelectedToUpdate")


def group_update(context: Context) -> Iterator[Finding]:
    """F8: an update of a scaling group."""
    for group in context.tree.scaling_groups:
        yield from _update("GM-108", group.ref, group.status, "readyReplicaIndicesSelectedToUpdate")


def terminating(context: Context) -> Iterator[Finding]:
    """F6, F13: objects on their way out."""
    for item in (*context.tree.pod_cliques, *context.tree.scaling_groups):
        if item.terminating:
            yield refuse(
                "GM-106",
                item.ref,
                "/metadata/deletionTimestamp",
                f"{item.ref} is being deleted: an update, a scale-in or gang termination is under way; {_WAIT}",
            )
    pods = [pod for pod_clique in context.tree.pod_cliques for pod in pod_clique.pods if pod.terminating]
    if pods:
        yield warn(
            "GM-113",
            pods[0].ref,
            "/metadata/deletionTimestamp",
            f"{len(pods)} pods are being deleted, {pods[0].ref} among them; they are left alone",
        )


def observed_generation(context: Context) -> Iterator[Finding]:
    """F5: the operator has not reconciled the newest generation; GM-101 says if that matters."""
    tree = context.tree
    for item in (tree.pcs, *tree.pod_cliques, *tree.scaling_groups):
        observed = item.status.get("observedGeneration")
        if item.generation and (not isinstance(observed, int) or observed < item.generation):
            yield warn(
                "GM-105",
                item.ref,
                "/status/observedGeneration",
                f"{item.ref}: the operator has seen generation {observed}, the newest is {item.generation}; "
                "nothing that is hashed has changed, so this is a scale or the like",
            )


def conditions(context: Context) -> Iterator[Finding]:
    """F17, F18, F19, F20: what the operator itself reports as under way."""
    pcs = context.tree.pcs
    for item in (*context.tree.pod_cliques, *context.tree.scaling_groups):
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


def condition(item: PodCliqueSet | PodClique | PodCliqueScalingGroup, kind: str) -> Mapping[str, Any]:
    """The condition of that type, or nothing."""
    for entry in item.status.get("conditions") or ():
        if isinstance(entry, Mapping) and entry.get("type") == kind:
            return entry
    return {}


def _update(code: str, ref: Ref, status: Mapping[str, Any], selected: str) -> Iterator[Finding]:
    for name, progress in _progress(status):
        if not progress.get("updateEndedAt"):
            yield refuse(code, ref, f"/status/{name}", f"{ref}: status.{name} has no updateEndedAt; {_WAIT}")
        elif progress.get(selected) is not None:
            yield refuse(code, ref, f"/status/{name}/{selected}", f"{ref}: status.{name}.{selected} is set; {_WAIT}")


def _progress(status: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in PROGRESS_FIELDS:
        progress = status.get(name)
        if isinstance(progress, Mapping):
            yield name, progress


def _replicas(progress: Mapping[str, Any]) -> str:
    updating = progress["currentlyUpdating"]
    entries = updating if isinstance(updating, Sequence) else (updating,)
    return ", ".join(str(entry.get("replicaIndex", 0)) for entry in entries if isinstance(entry, Mapping))


CHECKS: Final = (set_update, clique_update, group_update, terminating, observed_generation, conditions)
