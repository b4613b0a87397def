"""Guards on the stored values themselves: what is neither the source's nor the target's hash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from migrator.guards.base import Context, refuse, warn
from migrator.model import (
    LABEL_POD_TEMPLATE_HASH,
    POINTER_TEMPLATE_HASH_LABEL,
    Finding,
    Place,
    PodClique,
    StoredHash,
)
from migrator.stored import POINTER_SET_GENERATION, UNKNOWN_CLIQUE

_ANNOTATION_AUTO_MNNVL: Final = "grove.io/auto-mnnvl"
_LABEL_MINIMUM_VIABLE_UNIT: Final = "grove.io/minimum-viable-unit"
_GPU: Final = "nvidia.com/gpu"

_CODES: Final = {
    Place.SET_GENERATION: "GM-101",
    Place.CLIQUE_LABEL: "GM-109",
    Place.CLIQUE_TEMPLATE: "GM-109",
    Place.CLIQUE_GENERATION: "GM-109",
    Place.CLIQUE_PROGRESS: "GM-109",
    Place.GROUP_GENERATION: "GM-110",
    Place.GROUP_PROGRESS: "GM-110",
    Place.POD_LABEL: "GM-111",
    Place.GANG_MAP_ENTRY: "GM-128",
    Place.GANG_LABEL: "GM-128",
}

_REMEDY: Final = {
    "GM-101": "the spec changed after the operator last reconciled it, or another operator version wrote it: "
    "let the running operator finish, or name its release with --from",
    "GM-109": "an update is in flight or stuck: let the running operator finish it",
    "GM-110": "an update is in flight or stuck: let the running operator finish it",
    "GM-111": "an update is in flight or stuck (Grove issue 400): let the operator finish it, or delete the pod",
    "GM-128": "the operator has not finished moving its PodGangs: let it finish",
}


def foreign(context: Context) -> Iterator[Finding]:
    """F1, F9, F10, F11: a stored value that neither scheme gives for the current spec."""
    polluted = _mnnvl_pollution(context)
    for stored in context.foreign:
        code = _CODES[stored.place]
        expected = context.source_hashes.of(stored)
        if stored.clique == UNKNOWN_CLIQUE or expected is None:
            yield refuse(
                code,
                stored.ref,
                stored.field,
                f"{stored.ref} holds the hash {stored.value}, but its clique is not in the template of the "
                "PodCliqueSet: the operator is still removing it, or the object is foreign",
            )
            continue
        message = (
            f"{stored.ref} holds {stored.value}, which is neither {context.source.name}'s {expected} nor "
            f"{context.target.name}'s {context.target_hashes.of(stored)}"
        )
        yield refuse(code, stored.ref, stored.field, f"{message}; {_REMEDY[code]}")
        if stored.place is Place.CLIQUE_LABEL and polluted:
            yield refuse(
                "GM-126",
                stored.ref,
                stored.field,
                f"{stored.ref} runs GPUs under the annotation {_ANNOTATION_AUTO_MNNVL}=enabled: operators up to "
                "alpha.7 hash the claims that they inject, so this hash cannot be recomputed; upgrade to "
                "alpha.8 or alpha.9 first, within the same hashes, and let it reconcile",
            )


def missing(context: Context) -> Iterator[Finding]:
    """F9, F11: a PodClique or pod without the hash label."""
    for pod_clique in context.tree.pod_cliques:
        if pod_clique.terminating:
            continue
        if not pod_clique.labels.get(LABEL_POD_TEMPLATE_HASH):
            yield refuse(
                "GM-109",
                pod_clique.ref,
                POINTER_TEMPLATE_HASH_LABEL,
                f"{pod_clique.ref} has no label {LABEL_POD_TEMPLATE_HASH}: let the operator reconcile it",
            )
        for pod in pod_clique.pods:
            if pod.template_hash or pod.terminating:
                continue
            message = f"{pod.ref} has no label {LABEL_POD_TEMPLATE_HASH}"
            if context.tree.pcs.on_delete:
                yield warn("GM-112", pod.ref, POINTER_TEMPLATE_HASH_LABEL, f"{message}; it is left alone")
            else:
                yield refuse(
                    "GM-111",
                    pod.ref,
                    POINTER_TEMPLATE_HASH_LABEL,
                    f"{message}: it is no pod of this operator, or somebody removed the label; delete the pod "
                    "or restore the label",
                )


def leftovers(context: Context) -> Iterator[Finding]:
    """F12: OnDelete keeps pods of older templates on purpose; they stay as they are."""
    counts: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], StoredHash] = {}
    for stored in context.leftovers:
        key = (stored.ref.kind, stored.field)
        counts[key] += 1
        first.setdefault(key, stored)
    for key, number in counts.items():
        stored = first[key]
        others = f" and {number - 1} more like it" if number > 1 else ""
        yield warn(
            "GM-112",
            stored.ref,
            stored.field,
            f"{stored.ref}{others} holds {stored.value}, the hash of an older template; updateStrategy is "
            "OnDelete, so it is left alone and counts as outdated after the upgrade as it does now",
        )


def unrecorded(context: Context) -> Iterator[Finding]:
    """Target values in a tree of which no record tells how they came there."""
    if context.explained and context.target_values and not context.recorded:
        yield warn(
            "GM-129",
            context.tree.ref,
            None,
            f"{context.target_values} values already are {context.target.name}'s and no record says who wrote "
            "them; they are kept, and a revert turns them back only if the record of this run says so",
        )


def suffix_trap(context: Context) -> Iterator[Finding]:
    """F23: the operator takes a PodClique's template by name suffix, first match in slice order.

    Grove: ``operator/internal/controller/podcliqueset/components/podclique/podclique.go:buildResource``.
    """
    names = [str(clique.get("name")) for clique in context.tree.pcs.cliques]
    for pod_clique in context.tree.pod_cliques:
        match = next((name for name in names if pod_clique.ref.name.endswith(name)), None)
        clique = pod_clique.clique
        if match is None or clique is None or clique not in names or match == clique:
            continue
        if context.source_hashes.templates.get(match) != context.source_hashes.templates.get(clique):
            yield refuse(
                "GM-123",
                pod_clique.ref,
                POINTER_TEMPLATE_HASH_LABEL,
                f"{pod_clique.ref} is made from the template of clique {match} instead of {clique}, because the "
                f"operator compares name endings and {match} comes first; put {clique} before {match} in the "
                "PodCliqueSet, or rename one, and let the operator roll that out before the upgrade",
            )


def unknown_fields(context: Context) -> Iterator[Finding]:
    """F23: fields that the source's structs lack but the target's have are a real template change."""
    for pointer in context.unknown_fields:
        yield refuse(
            "GM-125",
            context.tree.ref,
            pointer,
            f"{context.tree.ref} sets {pointer}, which the {context.source.minor} structs of the running operator "
            f"ignore and the {context.target.minor} structs see: the upgrade changes the pods for real, and "
            "rewriting hashes would hide that; remove the field before the upgrade and add it again afterwards",
        )


def hash_in_names(context: Context) -> Iterator[Finding]:
    """Grove alpha.10-rc1 keyed PodGangMap entries by names that contain the hash."""
    for gang_map in context.tree.pod_gang_maps:
        entries = gang_map.spec.get("entries") or ()
        if any(not entry.get("epoch") for entry in entries):
            yield refuse(
                "GM-131",
                gang_map.ref,
                "/spec/entries",
                f"{gang_map.ref} has entries without an epoch: alpha.10-rc1 put the hash into object names, which "
                "cannot be migrated; upgrade from alpha.10-rc1 without the migrator and accept the roll",
            )
    for gang in context.tree.pod_gangs:
        if _LABEL_MINIMUM_VIABLE_UNIT in gang.labels:
            yield refuse(
                "GM-131",
                gang.ref,
                f"/metadata/labels/{_LABEL_MINIMUM_VIABLE_UNIT.replace('/', '~1')}",
                f"{gang.ref} was made by alpha.10-rc1, which put the hash into object names: it cannot be "
                "migrated; upgrade without the migrator and accept the roll",
            )


def never_reconciled(context: Context) -> Iterator[Finding]:
    """F4: children with hashes under a set without one."""
    pcs = context.tree.pcs
    if pcs.generation_hash is None:
        yield refuse(
            "GM-104",
            pcs.ref,
            POINTER_SET_GENERATION,
            f"{pcs.ref} has no status.currentGenerationHash, but PodCliques exist: let the running operator "
            "reconcile it",
        )


def _mnnvl_pollution(context: Context) -> bool:
    pcs = context.tree.pcs
    return pcs.annotations.get(_ANNOTATION_AUTO_MNNVL) == "enabled" and any(
        _has_gpu(context, pod_clique) for pod_clique in context.tree.pod_cliques if pod_clique.standalone
    )


def _has_gpu(context: Context, pod_clique: PodClique) -> bool:
    for clique in context.tree.pcs.cliques:
        if clique.get("name") != pod_clique.clique:
            continue
        pod_spec = (clique.get("spec") or {}).get("podSpec") or {}
        for container in (*(pod_spec.get("containers") or ()), *(pod_spec.get("initContainers") or ())):
            wanted = container.get("resources") or {}
            if _GPU in (wanted.get("limits") or {}) or _GPU in (wanted.get("requests") or {}):
                return True
    return False


CHECKS: Final = (
    never_reconciled,
    foreign,
    missing,
    leftovers,
    unrecorded,
    suffix_trap,
    unknown_fields,
    hash_in_names,
)
