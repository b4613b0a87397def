"""Guards on the stored values themselves: those that are neither the source's nor the target's hash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from migrator.grove.hash_fields import POD_LABEL, SET_GENERATION, StoredHash
from migrator.grove.objects import LABEL_POD_CLIQUE, LABEL_POD_TEMPLATE_HASH
from migrator.planning.detect import Verdict
from migrator.planning.guards.base import Case, report
from migrator.planning.model import Finding
from migrator.resources import pointer

_EDITED: Final = (
    "if the spec was edited, let the running operator roll that out; if another operator wrote this value, name its "
    "release with --from"
)
_STUCK: Final = "let the running operator finish the update that left it"
_DELETE: Final = f"{_STUCK}; if it never does (Grove issue 400), delete the pod"
_GANGS: Final = "let the running operator finish moving its PodGangs"
#: What to do about a foreign value, by the kind that holds it.
_REMEDIES: Final = {
    "PodCliqueSet": _EDITED,
    "PodClique": _STUCK,
    "PodCliqueScalingGroup": _STUCK,
    "Pod": _DELETE,
    "PodGangMap": _GANGS,
    "PodGang": _GANGS,
}
#: Where ``--allow`` accepts that a foreign value stays: the operator treats the object as before.
_OVERRIDABLE: Final = frozenset({"PodClique", "PodCliqueScalingGroup", "Pod"})


def never_reconciled(case: Case) -> Iterator[Finding]:
    """Children under a set without a generation hash, where one of them holds a foreign value.

    An operator that finds no generation hash stores its own and replaces no pod
    (``podcliqueset/reconcilespec.go:processGenerationHashChange``). The next one does so too, and by then
    the children have its hashes.
    """
    pcs = case.tree.pcs
    if pcs.generation_hash is None and (case.old_is_left or not case.explained):
        message = f"{pcs.ref} has children, but no status.currentGenerationHash"
        yield report("GM-104", pcs.ref, SET_GENERATION.pointer, message, "let the running operator reconcile it")


def foreign(case: Case) -> Iterator[Finding]:
    """A stored value that neither scheme gives for the current spec, unless a cause is reported for it.

    GM-107 if no pod depends on it: it only shows how far the operator has come.
    """
    if not case.foreign:
        return
    owners = {pod.ref.uid: clique.ref.uid for clique in case.tree.pod_cliques for pod in clique.pods}
    for stored in case.foreign:
        cause = case.causes.get(owners.get(stored.ref.uid, stored.ref.uid))
        if cause is not None and cause.explains(stored):
            continue
        if (stored.ref.uid, stored.field) in case.lagging:
            message = f"{_holds(case, stored)}; no pod depends on it, so it stays as it is"
            yield report("GM-107", stored.ref, stored.field, message)
        else:
            remedy, overridable = _REMEDIES[stored.ref.kind], stored.ref.kind in _OVERRIDABLE
            yield report("GM-101", stored.ref, stored.field, _holds(case, stored), remedy, overridable=overridable)


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
                "is not a known place: grove-migrator does not know where this operator keeps its hashes"
            )
            remedy = "report it, and upgrade this set without grove-migrator"
            yield report("GM-136", seen.ref, seen.field, message, remedy)


def missing(case: Case) -> Iterator[Finding]:
    """A PodClique or pod without the hash label; a new PodClique's status has no hashes until all its pods are up.

    A pod without the label that names its PodClique is found by its controller alone, as Grove does from alpha.9 on.
    """
    for pod_clique in case.tree.pod_cliques:
        if pod_clique.terminating:
            continue
        if not pod_clique.template_hash:
            message, remedy = (
                f"{pod_clique.ref} has no label {LABEL_POD_TEMPLATE_HASH}",
                "let the operator reconcile it",
            )
            yield report("GM-101", pod_clique.ref, POD_LABEL.pointer, message, remedy, overridable=True)
        for pod in pod_clique.pods:
            if pod.terminating:
                continue
            if pod.pod_clique_label is None:
                message = f"{pod.ref} has no label {LABEL_POD_CLIQUE}, though its controller is {pod_clique.ref}"
                remedy = f"restore the label ({LABEL_POD_CLIQUE}={pod_clique.ref.name}), or delete the pod"
                yield report("GM-101", pod.ref, pointer("metadata", "labels", LABEL_POD_CLIQUE), message, remedy)
            if not pod.template_hash and case.tree.pcs.on_delete:
                message = f"{pod.ref} has no label {LABEL_POD_TEMPLATE_HASH}; it is left alone"
                yield report("GM-112", pod.ref, POD_LABEL.pointer, message)
            elif not pod.template_hash:
                message = f"{pod.ref} has no label {LABEL_POD_TEMPLATE_HASH}"
                remedy = "delete the pod, or restore the label if it was removed"
                yield report("GM-101", pod.ref, POD_LABEL.pointer, message, remedy, overridable=True)


def leftovers(case: Case) -> Iterator[Finding]:
    """OnDelete keeps pods of older templates on purpose; they stay as they are."""
    for stored in case.others[Verdict.LEFTOVER]:
        message = (
            f"{stored.ref} holds {stored.value}, the hash of an older template; updateStrategy is OnDelete, so it is "
            "left alone and counts as outdated after the upgrade as it does now"
        )
        yield report("GM-112", stored.ref, stored.field, message)


def _holds(case: Case, stored: StoredHash) -> str:
    text = f"{stored.ref} holds {stored.value}"
    if not case.changed and not case.others[Verdict.TARGET]:
        return f"{text}, which no scheme that was tried gives for the current spec"
    source = f"{case.source.name}'s {case.source_hashes.of(stored)}"
    target = f"{case.target.name}'s {case.target_hashes.of(stored)}"
    return f"{text}, which is not {target}" if source == target else f"{text}, which is neither {source} nor {target}"


CHECKS: Final = (never_reconciled, foreign, unknown_places, missing, leftovers)
