"""Guards on the stored values themselves: what is neither the source's nor the target's hash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from migrator.grove.model import LABEL_POD_TEMPLATE_HASH, POINTER_TEMPLATE_HASH_LABEL, Finding, StoredHash
from migrator.grove.places import POINTER_SET_GENERATION
from migrator.planning.guards.base import FOREIGN_CODES, Context, refuse, warn
from migrator.planning.guards.causes import causes

_REMEDY: Final = {
    "GM-101": "the spec changed after the operator last reconciled it, or another operator version wrote it: "
    "let the running operator finish, or name its release with --from",
    "GM-109": "an update is in flight or stuck: let the running operator finish it",
    "GM-110": "an update is in flight or stuck: let the running operator finish it",
    "GM-111": "an update is in flight or stuck (Grove issue 400): let the operator finish it, or delete the pod",
    "GM-128": "the operator has not finished moving its PodGangs: let it finish",
}


def never_reconciled(context: Context) -> Iterator[Finding]:
    """F4: children under a set without a generation hash."""
    pcs = context.tree.pcs
    if pcs.generation_hash is None:
        yield refuse(
            "GM-104",
            pcs.ref,
            POINTER_SET_GENERATION,
            f"{pcs.ref} has children, but no status.currentGenerationHash: let the running operator reconcile it",
        )


def foreign(context: Context) -> Iterator[Finding]:
    """F1, F9, F10, F11: a stored value that neither scheme gives for the current spec.

    Values that :func:`migrator.planning.guards.causes.causes` accounts for are reported there, once.
    """
    if not context.foreign:
        return
    accounted = causes(context)
    owners = {pod.ref.uid: clique.ref.uid for clique in context.tree.pod_cliques for pod in clique.pods}
    for stored in context.foreign:
        cause = accounted.get(owners.get(stored.ref.uid, stored.ref.uid))
        if cause is None or not cause.explains(stored):
            code = FOREIGN_CODES[stored.place]
            yield refuse(code, stored.ref, stored.field, f"{_holds(context, stored)}; {_REMEDY[code]}")


def missing(context: Context) -> Iterator[Finding]:
    """F9, F11: a PodClique or pod without the hash label.

    Absent status hashes are normal: the operator sets them when all pods of a PodClique are up for the first time.
    """
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
    for stored in context.leftovers:
        yield warn(
            "GM-112",
            stored.ref,
            stored.field,
            f"{stored.ref} holds {stored.value}, the hash of an older template; updateStrategy is OnDelete, so it is "
            "left alone and counts as outdated after the upgrade as it does now",
        )


def unrecorded(context: Context) -> Iterator[Finding]:
    """Target values in a tree of which no record tells how they came there."""
    if context.explained and context.target_values and context.recorded is None:
        yield warn(
            "GM-129",
            context.tree.ref,
            None,
            f"{context.tree.ref}: {context.target_values} values already are {context.target.name}'s and no record "
            "says who wrote them; they are kept, by this run and by a revert of it",
        )


def _holds(context: Context, stored: StoredHash) -> str:
    text = f"{stored.ref} holds {stored.value}"
    if not context.known:
        return f"{text}, which no scheme that was tried gives for the current spec"
    source, target = (
        f"{scheme.name}'s {hashes.of(stored)}"
        for scheme, hashes in ((context.source, context.source_hashes), (context.target, context.target_hashes))
    )
    return f"{text}, which is not {target}" if source == target else f"{text}, which is neither {source} nor {target}"


CHECKS: Final = (never_reconciled, foreign, missing, leftovers, unrecorded)
