"""Guards on the stored values themselves: those that are neither the source's nor the target's hash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from migrator.grove.model import LABEL_POD_TEMPLATE_HASH, POINTER_TEMPLATE_HASH_LABEL, StoredHash
from migrator.grove.places import POINTER_SET_GENERATION
from migrator.planning.detect import Verdict
from migrator.planning.guards.base import FOREIGN_CODES, Case, judge, refuse, warn
from migrator.planning.model import Finding

_STUCK: Final = "an update is in flight or stuck: let the running operator finish it"
_REMEDY: Final = {
    "GM-101": "if the spec was edited, let the running operator roll that out; if another operator wrote this value, "
    "name its release with --from",
    "GM-109": _STUCK,
    "GM-110": _STUCK,
    "GM-111": "an update is in flight or stuck (Grove issue 400): let the operator finish it; if it never does, delete "
    "the pod",
    "GM-128": "the operator has not finished moving its PodGangs: let it finish",
}


def never_reconciled(case: Case) -> Iterator[Finding]:
    """Children under a set without a generation hash.

    An operator that finds none stores its own hash and replaces no pod
    (``podcliqueset/reconcilespec.go:processGenerationHashChange``). The next one does so too, and by then
    the children have its hashes.
    """
    pcs = case.tree.pcs
    if pcs.generation_hash is None:
        message = f"{pcs.ref} has children, but no status.currentGenerationHash"
        remedy, refuses = "let the running operator reconcile it", case.old_is_left or not case.explained
        yield judge("GM-104", pcs.ref, POINTER_SET_GENERATION, message, remedy, refuses=refuses)


def foreign(case: Case) -> Iterator[Finding]:
    """A stored value that neither scheme gives for the current spec, unless a cause is reported for it."""
    if not case.foreign:
        return
    owners = {pod.ref.uid: clique.ref.uid for clique in case.tree.pod_cliques for pod in clique.pods}
    for stored in case.foreign:
        cause = case.causes.get(owners.get(stored.ref.uid, stored.ref.uid))
        if cause is not None and cause.explains(stored):
            continue
        code, holds = FOREIGN_CODES[stored.place], _holds(case, stored)
        if (stored.ref.uid, stored.field) in case.lagging:
            message = f"{holds}; no pod depends on it, so it stays as it is; the operator may correct it later"
            yield warn(code, stored.ref, stored.field, message)
        else:
            yield refuse(code, stored.ref, stored.field, holds, _REMEDY[code])


def unknown_places(case: Case) -> Iterator[Finding]:
    """A source hash in a place that no known operator uses, except in objects of other sets: it would stay as it is."""
    tree, old, new = case.tree, case.source_hashes, case.target_hashes
    moving = {old.generation, *old.templates.values()} - {new.generation, *new.templates.values()}
    for seen in case.sightings:
        of_others = seen.ref.kind == tree.ref.kind and seen.ref.uid != tree.ref.uid
        near = seen.ref.namespace in {"", tree.ref.namespace} and seen.part_of in {None, tree.ref.name}
        if seen.value in moving and near and not of_others:
            message = (
                f"{seen.ref} holds {seen.value}, a hash of {tree.ref} under {case.source.name}, at {seen.field}, which "
                "is not a known place: the migrator does not know where this operator keeps its hashes"
            )
            yield refuse(
                "GM-136", seen.ref, seen.field, message, "report it, and upgrade this set without the migrator"
            )


def missing(case: Case) -> Iterator[Finding]:
    """A PodClique or pod without the hash label; a new PodClique's status has no hashes until all its pods are up."""
    for pod_clique in case.tree.pod_cliques:
        if pod_clique.terminating:
            continue
        if not pod_clique.template_hash:
            message, remedy = (
                f"{pod_clique.ref} has no label {LABEL_POD_TEMPLATE_HASH}",
                "let the operator reconcile it",
            )
            yield refuse("GM-109", pod_clique.ref, POINTER_TEMPLATE_HASH_LABEL, message, remedy)
        for pod in pod_clique.pods:
            if pod.template_hash or pod.terminating:
                continue
            lacks = f"{pod.ref} has no label {LABEL_POD_TEMPLATE_HASH}"
            if case.tree.pcs.on_delete:
                yield warn("GM-112", pod.ref, POINTER_TEMPLATE_HASH_LABEL, f"{lacks}; it is left alone")
            else:
                why, remedy = (
                    "it is not a pod of this operator, or the label was removed",
                    "delete the pod or restore the label",
                )
                yield refuse("GM-111", pod.ref, POINTER_TEMPLATE_HASH_LABEL, f"{lacks}: {why}", remedy)


def leftovers(case: Case) -> Iterator[Finding]:
    """OnDelete keeps pods of older templates on purpose; they stay as they are."""
    for stored in case.others[Verdict.LEFTOVER]:
        message = (
            f"{stored.ref} holds {stored.value}, the hash of an older template; updateStrategy is OnDelete, so it is "
            "left alone and counts as outdated after the upgrade as it does now"
        )
        yield warn("GM-112", stored.ref, stored.field, message)


def unrecorded(case: Case) -> Iterator[Finding]:
    """Target values in a tree without a record of who wrote them."""
    number = sum(stored.value != case.source_hashes.of(stored) for stored in case.others[Verdict.TARGET])
    if case.explained and number and case.recorded is None:
        holds, them = "1 field already holds a hash", "it"
        if number > 1:
            holds, them = f"{number} fields already hold hashes", "them"
        message = (
            f"{case.tree.ref}: {holds} of {case.target.name}, and no record shows who wrote {them}; a run and its "
            f"revert leave {them} unchanged"
        )
        yield warn("GM-129", case.tree.ref, None, message)


def _holds(case: Case, stored: StoredHash) -> str:
    text = f"{stored.ref} holds {stored.value}"
    if not case.changed and not case.others[Verdict.TARGET]:
        return f"{text}, which no scheme that was tried gives for the current spec"
    source = f"{case.source.name}'s {case.source_hashes.of(stored)}"
    target = f"{case.target.name}'s {case.target_hashes.of(stored)}"
    return f"{text}, which is not {target}" if source == target else f"{text}, which is neither {source} nor {target}"


CHECKS: Final = (never_reconciled, foreign, unknown_places, missing, leftovers, unrecorded)
